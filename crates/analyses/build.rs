//! Embeds the views, `src/<topic>/*.sql` and the headers `src/<topic>/*.toml`, sorted by path: a new SQL file is a new
//! view without any other edit. SQL is embedded with its macros expanded, see `src/sql_macros.rs`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[path = "src/sql_macros.rs"]
mod sql_macros;

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or_else(missing)?);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(missing)?).join("sources.rs");
    let mut files = Vec::new();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    for extension in ["sql", "toml"] {
        collect(&root.join("src"), extension, &mut files)?;
    }
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let relative = file.strip_prefix(&root).map_err(io::Error::other)?;
        let path = relative.to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(&file)?;
        let text = if file.extension().is_some_and(|extension| extension == "sql") {
            sql_macros::expand(&text)
                .map_err(|e| io::Error::other(format!("{path}:{}: {}", e.line, e.message)))?
        } else {
            text
        };
        let _ = writeln!(code, "    ViewSource {{ path: {path:?}, text: {text:?} }},");
    }
    code.push_str("]\n");
    fs::write(out, code)
}

fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, extension, files)?;
        } else if path.extension().is_some_and(|e| e == extension) {
            files.push(path);
        }
    }
    Ok(())
}

fn missing() -> io::Error {
    io::Error::other("run by cargo")
}
