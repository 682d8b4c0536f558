//! Output on this machine. An output is complete or absent: it is written in a work folder beside its destination, and
//! gets its name when it is complete. What was there before stays until then, and is replaced at once.

pub(crate) mod destination;
mod file;
pub(crate) mod work_folder;

pub use self::file::OutputFile;
pub use self::work_folder::{TemporaryFolder, is_work_name, remove_unfinished_outputs};
