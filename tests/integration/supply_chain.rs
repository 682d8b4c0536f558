//! Checks dependencies against `deny.toml` with `cargo metadata`, without the network, the stated minimum version of Rust,
//! and what workflows run. The public workflow runs `cargo deny` itself, which also checks advisories.

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

/// Files of a folder with an extension, by their paths in the repository.
fn files_in(folder: &str, extension: &str) -> Vec<String> {
    let entries = repository().join(folder).read_dir().unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let has_extension = |name: &String| Path::new(name).extension().is_some_and(|e| e == extension);
    names.filter(has_extension).map(|name| format!("{folder}/{name}")).collect()
}

fn workflows() -> Vec<String> {
    let workflows = files_in(".github/workflows", "yml");
    assert!(workflows.len() >= 4, "{workflows:?}");
    workflows
}

/// The value of a key of YAML, if a line has that key, as a list item or not.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let entry = line.trim_start();
    let entry = entry.strip_prefix("- ").unwrap_or(entry);
    entry.strip_prefix(key)?.strip_prefix(':').map(str::trim)
}

/// Returns true for `owner/name@COMMIT # v1.2.3`.
fn is_pinned(used: &str) -> bool {
    let Some((action, pin)) = used.split_once('@') else { return false };
    let Some((commit, version)) = pin.split_once(" # v") else { return false };
    action.contains('/')
        && commit.len() == 40
        && commit.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && version.split('.').count() == 3
        && version.split('.').all(|number| number.parse::<u32>().is_ok())
}

/// Whoever moves a tag changes what runs under it, with the permissions of the job.
#[test]
fn actions_of_others_are_pinned_to_commits() {
    let mut paths = workflows();
    paths.push("action.yml".to_owned());
    let examples = [files_in("docs", "md"), vec!["README.md".to_owned()]].concat();
    let mut pins: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in paths.iter().chain(&examples) {
        let text = read(path);
        for used in text.lines().filter_map(|line| value_of(line, "uses")) {
            let is_ours = used.starts_with("./")
                || (examples.contains(path) && used.starts_with("trace-advisor/trace-advisor@v"));
            if is_ours {
                continue;
            }
            assert!(
                is_pinned(used),
                "{path}: `{used}` is not pinned like `owner/name@COMMIT # v1.2.3`"
            );
            let (action, pin) = used.split_once('@').unwrap();
            pins.entry(action.to_owned()).or_default().insert(pin.to_owned());
        }
    }
    assert!(pins.len() > 10, "{pins:?}");
    for (action, pins) in pins {
        assert_eq!(pins.len(), 1, "{action} is used at several commits");
    }
}

#[test]
fn jobs_state_their_permissions() {
    for path in workflows() {
        let text = read(&path);
        // Of pull requests from forks, these events run with secrets and a token that may write.
        for event in ["pull_request_target", "workflow_run", "issue_comment"] {
            assert!(!text.contains(event), "{path} runs on {event}");
        }
        assert!(
            text.contains("\npermissions: {}\n"),
            "{path}: jobs get nothing that they do not ask for"
        );
        let (_, jobs) = text.split_once("\njobs:\n").unwrap();
        let is_job =
            |line: &&str| line.starts_with("  ") && line[2..].starts_with(char::is_alphabetic);
        let job_count = jobs.lines().filter(is_job).count();
        let stated_count = jobs.lines().filter(|&line| line == "    permissions:").count();
        assert!(job_count > 0, "{path}");
        assert_eq!(stated_count, job_count, "{path}: permissions of jobs");
    }
}

/// GitHub pastes the value of an expression into a script before the shell reads it. Names of branches, and titles of pull
/// requests, would be commands; scripts get values as variables.
#[test]
fn nothing_is_pasted_into_scripts() {
    let mut paths = workflows();
    paths.extend(["action.yml".to_owned(), "docs/ci.md".to_owned(), "docs/page.md".to_owned()]);
    for path in paths {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if value_of(line, "run").is_none() {
                continue;
            }
            let indent = line.find("run:").unwrap();
            let is_script = |line: &&&str| {
                line.trim().is_empty() || line.chars().take(indent + 1).all(|c| c == ' ')
            };
            let script = lines[at + 1..].iter().take_while(is_script);
            for line in std::iter::once(line).chain(script) {
                assert!(!line.contains("${{"), "{path}: pasted into a script: `{}`", line.trim());
            }
        }
    }
}
