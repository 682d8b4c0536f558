//! Runs in object stores and behind web addresses.
//!
//! Callers block while the network runs on its own threads. Large objects are read in ranges, a few of them ahead; small
//! objects are prefetched. All ranges of an object must have the same version.

mod address;
mod connect;
mod error;
mod fetch;
mod folder;
mod object;
mod prefetch;
mod readers;
mod store;
mod upload;

pub(crate) use address::{Address, Place};
pub(crate) use folder::{Folder, ListedObject};
pub(crate) use object::{Object, open_all};
pub(crate) use prefetch::{prefetch, watch};
