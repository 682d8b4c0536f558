//! What was found out about runs, kept in a folder of the user's until the runs change.
//!
//! ```text
//! DIR/<run>/<kind>-<question>   what was kept of one run: its identity, the content, a checksum
//! DIR/<run>/tables/             its tables, as an export
//! ```
//!
//! The identity of a run is that of its files, as the file system knows it: names, lengths, and when each was
//! last changed, which no program can set. Reading hundreds of gigabytes to find out that nothing has changed
//! would cost more than what is kept is worth. The program is part of it: another build may see other things.

use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use trace_model::{Dataset, tables};

use crate::error::Error;
use crate::export::{Export, crc32, export, export_dataset};
use crate::location::Location;
use crate::storage::{Folder, Place};
use crate::{Options, Progress};

/// What marks a file of a cache, and its layout.
const MAGIC: &[u8; 8] = b"tacache1";
/// Files changed so recently may be changed again without the file system's clock telling: it goes in steps, of 10 ms at
/// most where systems are not very old.
const TOO_FRESH: Duration = Duration::from_millis(20);
/// What was used so recently is not removed: somebody may be reading it.
const IN_USE: Duration = Duration::from_hours(1);
/// Folders nested deeper are not looked at for traces either.
const MAX_DEPTH: usize = 5;

/// A folder that remembers runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Where it is; it is made when something is kept. Nothing else should be in it.
    pub folder: PathBuf,
    /// Bytes that it may hold; what was used longest ago is removed.
    pub max_bytes: u64,
}

impl Cache {
    /// 10 GiB.
    pub const MAX_BYTES: u64 = 10 << 30;

    /// The place of a run as it is now. `None` if it is not known whether the run has changed since: it is not on
    /// this machine, cannot be looked at, or is being written.
    pub fn entry(&self, run: &Location, options: &Options) -> Option<CacheEntry> {
        if !run.is_local() {
            return None;
        }
        let (mut identity, mut age) = identity(run, options)?;
        if age < TOO_FRESH {
            std::thread::sleep(TOO_FRESH);
            (identity, age) = self::identity(run, options)?;
        }
        if age < TOO_FRESH {
            return None;
        }
        let folder = self.folder.join(key(&identity));
        Some(CacheEntry { cache: self.clone(), folder, identity })
    }

    /// Removes what was used longest ago until the rest fits. Only what is called as entries are is touched: the folder
    /// is whatever the user said.
    fn shrink(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if !is_key(&path) {
                continue;
            }
            let Ok((bytes, used)) = size(&path) else { continue };
            entries.push((used, bytes, path));
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        let now = SystemTime::now();
        for (used, bytes, path) in entries {
            if total <= self.max_bytes || now.duration_since(used).is_ok_and(|age| age < IN_USE) {
                break;
            }
            fs::remove_dir_all(&path)?;
            total -= bytes;
        }
        Ok(())
    }
}

/// A name for a text. That it is the same text is checked where it matters: names of two may be the same.
fn key(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Whether a folder is called as an entry is.
fn is_key(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.len() == 16 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Bytes in a folder, and when something in it was last used.
fn size(folder: &Path) -> io::Result<(u64, SystemTime)> {
    let (mut bytes, mut used) = (0, fs::metadata(folder)?.modified()?);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            let below = size(&entry.path())?;
            bytes += below.0;
            used = used.max(below.1);
        } else {
            bytes += meta.len();
            used = used.max(meta.modified()?);
        }
    }
    Ok((bytes, used))
}

/// What a cache holds of one run as it was at one time.
#[derive(Debug, Clone)]
pub struct CacheEntry {
    cache: Cache,
    folder: PathBuf,
    identity: String,
}

impl CacheEntry {
    /// What was kept of a kind for a question, any text; `None` if nothing was, or if it is damaged.
    pub fn load(&self, kind: &str, question: &str) -> Option<Vec<u8>> {
        let (path, identity) = self.place(kind, question);
        let mut bytes = fs::read(&path).ok()?;
        let (rest, sum) = bytes.split_last_chunk::<4>()?;
        if crc32(rest) != u32::from_le_bytes(*sum) {
            return None;
        }
        let rest = rest.strip_prefix(MAGIC.as_slice())?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        if rest.get(..length)? != identity.as_bytes() {
            return None;
        }
        // When it was used last, for those who make room.
        if let Ok(file) = fs::File::open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        let end = bytes.len() - 4;
        bytes.truncate(end);
        bytes.drain(..MAGIC.len() + 8 + length);
        Some(bytes)
    }

    /// Keeps `content` in place of what was there. Others see the old content or the new, never a part.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn store(&self, kind: &str, question: &str, content: &[u8]) -> io::Result<()> {
        let (path, identity) = self.place(kind, question);
        let is_first = !path.exists();
        fs::create_dir_all(&self.folder)?;
        let length = (identity.len() as u64).to_le_bytes();
        let parts = [MAGIC, &length, identity.as_bytes(), content];
        let mut bytes = parts.concat();
        bytes.extend(crc32(&bytes).to_le_bytes());
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&bytes)?;
        file.persist(path)?;
        if is_first { self.cache.shrink() } else { Ok(()) }
    }

    /// Where it is kept, and what must be written there.
    fn place(&self, kind: &str, question: &str) -> (PathBuf, String) {
        let path = self.folder.join(format!("{kind}-{}", key(question)));
        (path, format!("{}{question}", self.identity))
    }
}

/// The folder of the tables in an entry, and the kind of what says of which run they are.
const TABLES: &str = "tables";

impl CacheEntry {
    /// The tables of the run, if they were kept.
    pub fn tables(&self) -> Option<Arc<Export>> {
        self.load(TABLES, "")?;
        Export::open(&self.folder.join(TABLES)).ok()
    }

    /// Keeps the tables of the run.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn store_tables(&self, tables: &Dataset) -> Result<(), Error> {
        export_dataset(tables, &self.begin_tables()?, true)?;
        self.store(TABLES, "", b"").map_err(|e| Error::write(&self.folder, e))
    }

    /// Converts the run to tables that are kept, see [`export`].
    ///
    /// # Errors
    /// As [`export`].
    pub fn export_tables(
        &self,
        run: &Location,
        options: &Options,
        progress: &dyn Progress,
    ) -> Result<Arc<Export>, Error> {
        let folder = self.begin_tables()?;
        export(run, options, &folder, true, progress)?;
        self.store(TABLES, "", b"").map_err(|e| Error::write(&self.folder, e))?;
        Export::open(&folder)
    }

    /// Where the tables go. What is there and is none of ours would be in the way of every later try.
    fn begin_tables(&self) -> Result<PathBuf, Error> {
        let folder = self.folder.join(TABLES);
        if folder.exists() && Export::open(&folder).is_err() {
            fs::remove_dir_all(&folder).map_err(|e| Error::write(&folder, e))?;
        }
        Ok(folder)
    }
}

/// What a run is, as far as anybody can tell without reading it, and how long ago it was changed.
fn identity(run: &Location, options: &Options) -> Option<(String, Duration)> {
    let mut text = String::new();
    let program = fs::metadata(std::env::current_exe().ok()?).ok()?;
    let version = env!("CARGO_PKG_VERSION");
    let Options { max_json_bytes, cycle, trial, timeout: _ } = options;
    let _ = write!(
        text,
        "{version} {:016x} {max_json_bytes} {cycle:?} {trial:?}\n- ",
        tables::fingerprint()
    );
    let mut newest = SystemTime::UNIX_EPOCH;
    describe(&mut text, &program, &mut newest)?;
    newest = SystemTime::UNIX_EPOCH;
    match run.place(None).ok()? {
        Place::File { file, name } => {
            let _ = write!(text, "{name:?} ");
            describe(&mut text, &fs::metadata(file.path()?).ok()?, &mut newest)?;
        }
        Place::Folder(root) => files(&root, &root, MAX_DEPTH, &mut text, &mut newest)?,
    }
    let age = SystemTime::now().duration_since(newest).ok()?;
    Some((text, age))
}

fn files(
    root: &Folder,
    folder: &Folder,
    depth: usize,
    text: &mut String,
    newest: &mut SystemTime,
) -> Option<()> {
    if depth == 0 {
        return Some(());
    }
    let (files, below) = root.list(folder).ok()?;
    for entry in files {
        let _ = write!(text, "{:?} ", entry.name);
        describe(text, &fs::metadata(entry.file.path()?).ok()?, newest)?;
    }
    below.iter().try_for_each(|folder| self::files(root, folder, depth - 1, text, newest))
}

/// Length of a file, where it lies, when it was last changed.
fn describe(text: &mut String, meta: &Metadata, newest: &mut SystemTime) -> Option<()> {
    let modified = meta.modified().ok()?;
    *newest = (*newest).max(modified);
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let _ = write!(text, "{} {}", meta.len(), since.as_nanos());
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        // Unlike the time of modification, the time of change cannot be set back.
        let (seconds, nanos) = (meta.ctime(), meta.ctime_nsec());
        let _ = write!(text, " {seconds}.{nanos:09} {} {}", meta.dev(), meta.ino());
        let changed = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        *newest = (*newest).max(SystemTime::UNIX_EPOCH + changed);
    }
    text.push('\n');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_by_what_was_used_longest_ago_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::now() - 2 * IN_USE;
        let make = |name: &str, used: SystemTime| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("answers"), [0; 600]).unwrap();
            for path in [folder.join("answers"), folder.clone()] {
                fs::File::open(path).unwrap().set_modified(used).unwrap();
            }
            folder
        };
        let oldest = make("0000000000000001", long_ago - IN_USE);
        let old = make("0000000000000002", long_ago);
        let used = make("0000000000000003", SystemTime::now());
        let foreign = make("photographs", long_ago - 2 * IN_USE);
        let cache = Cache { folder: place.path().to_owned(), max_bytes: 1300 };
        cache.shrink().unwrap();
        assert_eq!([&oldest, &old, &used, &foreign].map(|p| p.exists()), [false, true, true, true]);
        // What is in use stays, however little may be kept.
        Cache { max_bytes: 0, ..cache }.shrink().unwrap();
        assert_eq!([&old, &used, &foreign].map(|p| p.exists()), [false, true, true]);
    }
}
