//! The files that queries spill rows to: temporary files without a name, of bounded size together.

use std::io::{self, Read as _, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use private_files::{TemporaryFile, TemporaryFileReader, TemporaryFileWriter};

/// Bytes that are read at a time.
const CHUNK_BYTES: u64 = 128 << 10;

/// Creates the files of queries that run in one environment.
#[derive(Debug)]
pub(crate) struct SpillFiles {
    max_bytes: u64,
    used_bytes: Arc<AtomicU64>,
}

impl SpillFiles {
    /// Files that have at most this many bytes together.
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self { max_bytes, used_bytes: Arc::default() }
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let used = Arc::new(UsedBytes {
            of_file: AtomicU64::new(0),
            of_all: Arc::clone(&self.used_bytes),
            max_bytes: self.max_bytes,
        });
        Ok(Arc::new(TemporarySpillFile { file: TemporaryFile::create()?, used }))
    }
}

/// The bytes of a file, as a part of those of all files.
#[derive(Debug)]
struct UsedBytes {
    of_file: AtomicU64,
    of_all: Arc<AtomicU64>,
    max_bytes: u64,
}

impl UsedBytes {
    /// Takes bytes before they are written.
    fn take(&self, bytes: u64) -> io::Result<()> {
        let used = self.of_all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.of_file.fetch_add(bytes, Ordering::Relaxed);
        if used <= self.max_bytes {
            return Ok(());
        }
        let max_bytes = self.max_bytes;
        Err(io::Error::other(format!("temporary files of queries exceed {max_bytes} bytes")))
    }
}

impl Drop for UsedBytes {
    fn drop(&mut self) {
        self.of_all.fetch_sub(*self.of_file.get_mut(), Ordering::Relaxed);
    }
}

struct TemporarySpillFile {
    file: Arc<TemporaryFile>,
    used: Arc<UsedBytes>,
}

impl SpillFile for TemporarySpillFile {
    fn size(&self) -> Option<u64> {
        Some(self.used.of_file.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        Ok(Box::pin(futures::stream::try_unfold(self.file.reader(), next_chunk)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let writer = self.file.writer()?;
        Ok(Box::new(TemporarySpillWriter { writer, used: Arc::clone(&self.used) }))
    }
}

/// Reads on, on a thread that may wait for the disk. `None` at the end.
async fn next_chunk(
    mut reader: TemporaryFileReader,
) -> Result<Option<(Bytes, TemporaryFileReader)>> {
    let read = tokio::task::spawn_blocking(move || {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES as usize);
        (&mut reader).take(CHUNK_BYTES).read_to_end(&mut chunk)?;
        Ok::<_, io::Error>((Bytes::from(chunk), reader))
    });
    let (chunk, reader) = read.await.map_err(|e| DataFusionError::External(e.into()))??;
    Ok((!chunk.is_empty()).then_some((chunk, reader)))
}

struct TemporarySpillWriter {
    writer: TemporaryFileWriter,
    used: Arc<UsedBytes>,
}

impl Write for TemporarySpillWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.used.take(bytes.len() as u64)?;
        self.writer.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl SpillWriter for TemporarySpillWriter {
    fn finish(&mut self) -> Result<()> {
        Ok(self.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::*;

    fn text(file: &Arc<dyn SpillFile>) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let chunks: Vec<Bytes> =
            runtime.block_on(async { file.read_stream().unwrap().try_collect().await }).unwrap();
        chunks.concat()
    }

    #[test]
    fn spill_file_has_no_name_and_is_read_in_chunks() {
        let file = SpillFiles::new(1 << 20).create_temp_file("test").unwrap();
        let mut writer = file.open_writer().unwrap();
        let written: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
        writer.write_all(&written).unwrap();
        writer.finish().unwrap();
        assert_eq!(text(&file), written);
        assert_eq!((file.path(), file.size()), (None, Some(300_000)));
    }

    #[test]
    fn spill_files_are_bounded_together() {
        let files = SpillFiles::new(1000);
        let [one, other] = ["one", "other"].map(|name| files.create_temp_file(name).unwrap());
        one.open_writer().unwrap().write_all(&[0; 600]).unwrap();
        let error = other.open_writer().unwrap().write_all(&[0; 600]).unwrap_err();
        assert_eq!(error.to_string(), "temporary files of queries exceed 1000 bytes");
        // Files that are gone take no space.
        drop((one, other));
        files
            .create_temp_file("third")
            .unwrap()
            .open_writer()
            .unwrap()
            .write_all(&[0; 900])
            .unwrap();
    }
}
