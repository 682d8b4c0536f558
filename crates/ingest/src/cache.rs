//! The cache directory: results and tables of runs, valid until their files change.
//!
//! ```text
//! DIR/<run>/<kind>-<question>   one cached result of a run: the identity of the run, the content, a checksum
//! DIR/<run>/tables/             its tables, as an export
//! ```
//!
//! The identity of a run consists of the names, lengths and change times of its files; programs cannot set the change
//! time. Hashing the content instead could mean reading hundreds of gigabytes, which costs more than the cache saves.
//! The identity includes the program, because another build may give other results.
//!
//! Only the owner can read what is written here. Where something else than plain files and folders of this user is in the
//! place of an entry, such as a pipe or a link, the run is not cached, and the next write replaces it.

use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use private_files::{Access, are_own_files, is_own_folder, open_own_file, replace_file};
use trace_model::{Dataset, tables};

use crate::error::Error;
use crate::input::location::Location;
use crate::input::storage::{Folder, Place};
use crate::options::{Options, Progress};
use crate::parquet::{Export, crc32, export_dataset_privately, export_privately};

/// First bytes of a file of the cache; they include the version of its layout.
const MAGIC: &[u8; 8] = b"tacache1";
/// A file that changed more recently than this may change again with the same time stamp: the clocks of file systems
/// advance in steps of up to 10 ms.
const TOO_FRESH: Duration = Duration::from_millis(20);
/// Entries used more recently than this are not removed, because another process may be reading them.
const IN_USE: Duration = Duration::from_hours(1);
/// Depth of folders that are part of the identity: deeper ones are not searched for traces.
const MAX_DEPTH: usize = 5;

/// A cache directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Its path. The directory is created on the first write, and should contain nothing else.
    pub folder: PathBuf,
    /// Size limit in bytes; the least recently used entries are removed.
    pub max_bytes: u64,
}

impl Cache {
    /// 10 GiB.
    pub const MAX_BYTES: u64 = 10 << 30;

    /// The entry of a run in its current state. `None` if changes of the run cannot be detected: it is not on this
    /// machine, cannot be accessed, or is being written.
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

    /// The cached runs, least recently used first. Only folders with names of entries count, because the user chooses
    /// the directory. A directory that does not exist has none.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn runs(&self) -> io::Result<Vec<CachedRun>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut runs = Vec::new();
        for entry in entries {
            let folder = entry?.path();
            if !is_key(&folder) || !is_folder(&folder) {
                continue;
            }
            let Ok((bytes, last_used)) = size(&folder) else { continue };
            runs.push(CachedRun { last_used, bytes, folder });
        }
        runs.sort();
        Ok(runs)
    }

    /// Removes the runs that were not used for `unused`, whatever their size. Returns the runs that were removed.
    ///
    /// # Errors
    /// If the directory cannot be read, or a run cannot be removed.
    pub fn clean(&self, unused: Duration) -> io::Result<Vec<CachedRun>> {
        let now = SystemTime::now();
        let is_old = |run: &CachedRun| {
            unused.is_zero() || now.duration_since(run.last_used).is_ok_and(|age| age >= unused)
        };
        let runs: Vec<CachedRun> = self.runs()?.into_iter().filter(is_old).collect();
        runs.iter().try_for_each(|run| fs::remove_dir_all(&run.folder))?;
        Ok(runs)
    }

    /// Removes the least recently used runs until the rest fits.
    fn shrink(&self) -> io::Result<()> {
        let runs = self.runs()?;
        let mut total: u64 = runs.iter().map(|run| run.bytes).sum();
        let now = SystemTime::now();
        for CachedRun { last_used, bytes, folder } in runs {
            let is_in_use = now.duration_since(last_used).is_ok_and(|age| age < IN_USE);
            if total <= self.max_bytes || is_in_use {
                break;
            }
            fs::remove_dir_all(&folder)?;
            total -= bytes;
        }
        Ok(())
    }
}

/// A run in the cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CachedRun {
    /// Time of the last use.
    pub last_used: SystemTime,
    /// Size on disk.
    pub bytes: u64,
    folder: PathBuf,
}

/// A short name for a text. Different texts may share a name, so files also contain the text itself.
fn key(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns whether a folder has the name of an entry.
fn is_key(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.len() == 16 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Size of a folder in bytes, and the time of its last use.
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

/// The cached data of one run in one state.
#[derive(Debug, Clone)]
pub struct CacheEntry {
    cache: Cache,
    folder: PathBuf,
    identity: String,
}

impl CacheEntry {
    /// The cached content of a kind for a question, which is any text. `None` if there is none, or if it is damaged or
    /// not a plain file of this user.
    pub fn load(&self, kind: &str, question: &str) -> Option<Vec<u8>> {
        let (path, identity) = self.place(kind, question);
        if !is_own_folder(&self.folder) {
            return None;
        }
        let mut file = open_own_file(&path).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
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
        // The modification time is the time of the last use.
        let _ = file.set_modified(SystemTime::now());
        let end = bytes.len() - 4;
        bytes.truncate(end);
        bytes.drain(..MAGIC.len() + 8 + length);
        Some(bytes)
    }

    /// Replaces the cached content. Other processes see the old content or the new one, never a part.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn store(&self, kind: &str, question: &str, content: &[u8]) -> io::Result<()> {
        let (path, identity) = self.place(kind, question);
        let is_first = !path.exists();
        self.create_folder()?;
        remove_unless(&path, |at| !is_folder(at))?;
        let length = (identity.len() as u64).to_le_bytes();
        let parts = [MAGIC, &length, identity.as_bytes(), content];
        let mut bytes = parts.concat();
        bytes.extend(crc32(&bytes).to_le_bytes());
        replace_file(&path, &bytes)?;
        if is_first { self.cache.shrink() } else { Ok(()) }
    }

    /// Creates the folder of the entry, in place of anything else that is there.
    fn create_folder(&self) -> io::Result<()> {
        remove_unless(&self.folder, is_folder)?;
        Access::Owner.create_folders(&self.folder)
    }

    /// The path of a result, and the identity that its file must contain.
    fn place(&self, kind: &str, question: &str) -> (PathBuf, String) {
        let path = self.folder.join(format!("{kind}-{}", key(question)));
        (path, format!("{}{question}", self.identity))
    }
}

/// Folder of the tables in an entry, and the kind of the file that identifies their run.
const TABLES: &str = "tables";

impl CacheEntry {
    /// The tables of the run, if they are cached.
    pub fn tables(&self) -> Option<Arc<Export>> {
        self.load(TABLES, "")?;
        open_own_export(&self.folder.join(TABLES))
    }

    /// Caches the tables of the run.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn store_tables(&self, tables: &Dataset) -> Result<(), Error> {
        export_dataset_privately(tables, &self.begin_tables()?)?;
        self.store(TABLES, "", b"").map_err(|e| Error::write(&self.folder, e))
    }

    /// Converts the run to cached tables, see [`crate::export`].
    ///
    /// # Errors
    /// As [`crate::export`].
    pub fn export_tables(
        &self,
        run: &Location,
        options: &Options,
        progress: &dyn Progress,
    ) -> Result<Arc<Export>, Error> {
        let folder = self.begin_tables()?;
        export_privately(run, options, &folder, progress)?;
        self.store(TABLES, "", b"").map_err(|e| Error::write(&self.folder, e))?;
        Export::open(&folder)
    }

    /// The folder for the tables. A broken export there is removed, because it would block every later attempt.
    fn begin_tables(&self) -> Result<PathBuf, Error> {
        let folder = self.folder.join(TABLES);
        let made = self.create_folder();
        let made = made.and_then(|()| remove_unless(&folder, |at| open_own_export(at).is_some()));
        made.map_err(|e| Error::write(&folder, e))?;
        Ok(folder)
    }
}

/// The export in a folder, if all of it are plain files of this user.
fn open_own_export(folder: &Path) -> Option<Arc<Export>> {
    if are_own_files(folder) { Export::open(folder).ok() } else { None }
}

/// Returns whether a path is a folder, not a link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

/// Removes what is at a path, if anything, unless it may stay. Links are not followed.
fn remove_unless(path: &Path, may_stay: impl FnOnce(&Path) -> bool) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) if may_stay(path) => Ok(()),
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

/// The identity of a run, and the time since its last change. Does not read its files.
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
    match run.place(options).ok()? {
        Place::File { file, name } => {
            let _ = write!(text, "{name:?} ");
            describe(&mut text, &fs::metadata(file.path()?).ok()?, &mut newest)?;
        }
        Place::Folder(root) => {
            let selected = |name: &str| run.pattern().is_none_or(|pattern| pattern.matches(name));
            files(&root, &root, &selected, MAX_DEPTH, &mut text, &mut newest)?;
        }
    }
    let age = SystemTime::now().duration_since(newest).ok()?;
    Some((text, age))
}

fn files(
    root: &Folder,
    folder: &Folder,
    selected: &dyn Fn(&str) -> bool,
    depth: usize,
    text: &mut String,
    newest: &mut SystemTime,
) -> Option<()> {
    if depth == 0 {
        return Some(());
    }
    let (files, below) = root.list(folder).ok()?;
    for entry in files.into_iter().filter(|entry| selected(&entry.name)) {
        let _ = write!(text, "{:?} ", entry.name);
        describe(text, &fs::metadata(entry.file.path()?).ok()?, newest)?;
    }
    below.iter().try_for_each(|folder| self::files(root, folder, selected, depth - 1, text, newest))
}

/// Adds length, inode and change time of a file to the identity.
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

    /// Files and folders below a folder that others than the owner can access.
    #[cfg(unix)]
    fn shared_below(folder: &Path) -> Vec<PathBuf> {
        use std::os::unix::fs::PermissionsExt as _;
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let shared = |path: PathBuf| {
            let meta = fs::metadata(&path).unwrap();
            let mut shared = if meta.is_dir() { shared_below(&path) } else { Vec::new() };
            shared.extend((meta.permissions().mode() & 0o077 != 0).then_some(path));
            shared
        };
        paths.flat_map(shared).collect()
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_has_access_to_tables_and_results() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache { folder: place.path().join("cache/runs"), max_bytes: Cache::MAX_BYTES };
        let folder = cache.folder.join("0000000000000001");
        let entry = CacheEntry { cache, folder, identity: "run".to_owned() };
        // Twice: the second export replaces the first.
        let trace = r#"{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}]}"#;
        fs::write(place.path().join("rank0.json"), trace).unwrap();
        let run = place.path().join("rank0.json");
        let dataset = crate::read_run(&run, &Options::default(), &crate::NoProgress).unwrap();
        for _ in 0..2 {
            entry.store_tables(&dataset).unwrap();
        }
        entry.store("answers", "question", b"answer").unwrap();
        assert!(entry.tables().is_some());
        assert_eq!(entry.load("answers", "question").as_deref(), Some(&b"answer"[..]));
        let cache = place.path().join("cache");
        assert!(cache.join("runs/0000000000000001/tables/kernels").is_dir());
        assert_eq!(shared_below(&cache), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn shrink_removes_only_least_recently_used_entries() {
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
        Cache { max_bytes: 0, ..cache.clone() }.shrink().unwrap();
        assert_eq!([&old, &used, &foreign].map(|p| p.exists()), [false, true, true]);

        assert_eq!(cache.runs().unwrap().iter().map(|run| run.bytes).collect::<Vec<_>>(), [600]);
        assert!(cache.clean(IN_USE).unwrap().is_empty());
        assert_eq!(cache.clean(Duration::ZERO).unwrap().len(), 1);
        assert_eq!([&used, &foreign].map(|p| p.exists()), [false, true]);
        fs::remove_dir_all(&foreign).unwrap();
        let nowhere = Cache { folder: foreign, max_bytes: 0 };
        assert!(nowhere.runs().unwrap().is_empty() && nowhere.clean(IN_USE).unwrap().is_empty());
    }
}
