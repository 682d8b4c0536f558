//! A run as a folder of Parquet equals its traces: read as a whole, or while it is queried.

mod hostile;
mod layout;
mod streamed;
