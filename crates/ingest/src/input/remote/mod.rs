//! Runs in object stores and behind web addresses.
//!
//! Reading is blocking for those who call; the network runs on threads of its own. Large objects come as
//! ranges, a few ahead of the reader; small ones a few objects ahead. All ranges of an object must be of one
//! version of it.

mod address;
mod ahead;
mod connect;
mod error;
mod fetch;
mod object;
mod readers;
mod store;

pub(crate) use address::Address;
pub(crate) use ahead::{ahead, watch};
pub(crate) use error::StoreError;
pub(crate) use object::{Object, open_all};
pub(crate) use store::Folder;
