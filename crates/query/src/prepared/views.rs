//! Headers of views that are parsed once and come with the program: parsing those of all built-in views takes longer than
//! reading a small trace.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rust_view::RustView;
use crate::view::{ViewDef, ViewSource};

/// Views without their texts, each after those it needs.
#[derive(Serialize, Deserialize)]
struct PreparedViews {
    /// Of the texts, see [`checksum`].
    checksum: u32,
    views: Vec<ViewDef>,
}

/// The views of a catalog as bytes.
pub(crate) fn write(views: &[ViewDef]) -> Result<Vec<u8>> {
    let sources = views.iter().map(|view| ViewSource { path: &view.path, text: &view.text });
    let sources: Vec<ViewSource<'_>> = sources.collect();
    let file = PreparedViews { checksum: checksum(&sources), views: views.to_vec() };
    postcard::to_stdvec(&file).map_err(|e| Error::PreparedViews(e.to_string()))
}

/// The views of these sources, each after those it needs; `None` if `file` was not made from them.
pub(crate) fn read(
    file: &[u8],
    sources: &[ViewSource<'_>],
    rust_views: &'static [RustView],
) -> Option<Vec<ViewDef>> {
    let PreparedViews { checksum: expected, mut views } = postcard::from_bytes(file).ok()?;
    if checksum(sources) != expected {
        return None;
    }
    let texts: HashMap<&str, &str> = sources.iter().map(|s| (s.path, s.text)).collect();
    for view in &mut views {
        view.text = (*texts.get(view.path.as_str())?).to_owned();
        view.rust = rust_views.iter().find(|rust| rust.name == view.name);
    }
    Some(views)
}

/// Distinguishes sets of sources, in any order.
fn checksum(sources: &[ViewSource<'_>]) -> u32 {
    let mut sources: Vec<_> = sources.iter().map(|s| (s.path, s.text)).collect();
    sources.sort_unstable();
    let mut checksum = crc32fast::Hasher::new();
    for (path, text) in sources {
        checksum.update(path.as_bytes());
        checksum.update(text.as_bytes());
    }
    checksum.finalize()
}
