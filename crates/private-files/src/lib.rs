//! Files and folders that only their owner can read, whatever the umask. Everything that is derived from a trace is kept
//! in them, except for outputs that the user names.

mod access;
mod own_file;
mod temporary_file;

pub use access::{Access, replace_file};
pub use own_file::{are_own_files, is_own_folder, open_own_file, open_without_waiting};
pub use temporary_file::{TemporaryFile, TemporaryFileReader, TemporaryFileWriter};
