//! Checks dependencies against `deny.toml` with `cargo metadata`, without the network, and the stated minimum version
//! of Rust. The public workflow runs `cargo deny` itself, which also checks advisories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, Package, Source};
use spdx::{Expression, Licensee, ParseMode};
use toml::{Table, Value};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

fn policy() -> Table {
    read("deny.toml").parse().unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Returns the licenses of a list.
fn licensees(value: &Value) -> Vec<Licensee> {
    texts(value).into_iter().map(|license| Licensee::parse(license).unwrap()).collect()
}

/// Returns all packages in the dependency tree, for all platforms and with all features.
fn metadata() -> Metadata {
    let manifest = repository().join("Cargo.toml");
    let mut command = MetadataCommand::new();
    command.manifest_path(manifest).features(CargoOpt::AllFeatures);
    command.other_options(["--locked".to_owned()]).exec().unwrap()
}

fn is_ours(metadata: &Metadata, package: &Package) -> bool {
    metadata.workspace_members.contains(&package.id)
}

#[test]
fn packages_have_licenses_and_sources_that_the_policy_allows() {
    let (metadata, policy) = (metadata(), policy());
    let allowed = licensees(&policy["licenses"]["allow"]);
    let exceptions: BTreeMap<&str, Vec<Licensee>> = policy["licenses"]["exceptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|exception| (exception["crate"].as_str().unwrap(), licensees(&exception["allow"])))
        .collect();
    for name in exceptions.keys() {
        let is_used = metadata.packages.iter().any(|package| package.name == *name);
        assert!(is_used, "deny.toml has an exception for {name}, which no crate uses");
    }
    assert!(metadata.packages.len() > 300, "only {} packages", metadata.packages.len());
    for package in &metadata.packages {
        let name = format!("{} {}", package.name, package.version);
        let license = package.license.as_deref().unwrap_or_else(|| panic!("{name}: no license"));
        let license = Expression::parse_mode(license, ParseMode::LAX).unwrap();
        let more = exceptions.get(package.name.as_str()).into_iter().flatten();
        let is_allowed = license
            .evaluate(|asked| allowed.iter().chain(more.clone()).any(|ours| ours.satisfies(asked)));
        assert!(is_allowed, "{name} has the license {license}, which deny.toml does not allow");
        let is_registry = package.source.as_ref().is_some_and(Source::is_crates_io);
        assert!(is_registry || is_ours(&metadata, package), "{name} is not from crates.io");
    }
}

#[test]
fn no_package_is_banned_or_of_any_version() {
    let (metadata, policy) = (metadata(), policy());
    let bans = policy["bans"]["deny"].as_array().unwrap();
    assert!(!bans.is_empty());
    for ban in bans {
        let banned = ban["crate"].as_str().unwrap();
        let wrappers: BTreeSet<&str> =
            ban.get("wrappers").map(texts).unwrap_or_default().into_iter().collect();
        let uses_it =
            |package: &&Package| package.dependencies.iter().any(|used| used.name == banned);
        let users: BTreeSet<&str> =
            metadata.packages.iter().filter(uses_it).map(|package| package.name.as_str()).collect();
        assert_eq!(users, wrappers, "the packages that use {banned}");
    }
    for package in metadata.packages.iter().filter(|package| is_ours(&metadata, package)) {
        for used in &package.dependencies {
            assert_ne!(
                used.req.to_string(),
                "*",
                "{} takes any version of {}",
                package.name,
                used.name
            );
        }
    }
}

#[test]
fn one_version_of_arrow_is_in_the_tree() {
    let metadata = metadata();
    let packages = metadata.packages.iter().filter(|package| package.name == "arrow");
    assert_eq!(packages.count(), 1);
}

/// The documentation and the CI job must state the version in `Cargo.toml`.
#[test]
fn the_oldest_supported_rust_is_stated_everywhere() {
    let manifest: Table = read("Cargo.toml").parse().unwrap();
    let version = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    let statement = format!("[Rust](https://rustup.rs) {version}");
    for (path, statement) in [
        ("README.md", &statement),
        ("docs/install.md", &statement),
        (".github/workflows/ci.yml", &format!("RUSTUP_TOOLCHAIN: \"{version}\"")),
    ] {
        assert!(read(path).contains(statement), "{path} does not say `{statement}`");
    }
}
