//! Peak rates of devices: a table in TOML that users can extend. Callers read files; this module gets text.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use query::rust_view::{Result as ViewResult, ViewInputs};
use query::{similar, view_error};
use serde::Deserialize;
use toml::Spanned;

/// The table that comes with the program.
pub const DEVICES: &str = include_str!("../../devices.toml");

/// The types that a device may have a peak for, as the table names them.
pub const DTYPES: [&str; 7] = ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"];

/// An error in a table of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTableError {
    /// Byte range in the text.
    pub span: Range<usize>,
    /// Line at which the range starts, from 1.
    pub line: usize,
    /// The error.
    pub message: String,
    /// A suggestion for a correct entry.
    pub help: Option<String>,
}

/// Checks a table of devices.
///
/// # Errors
/// All errors in the table, in order.
pub fn check_devices(text: &str) -> Result<(), Vec<DeviceTableError>> {
    parse(text).map(drop)
}

/// Peak rates of one model of device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Peaks {
    pub(crate) name: String,
    patterns: Vec<String>,
    sm_count: Option<i64>,
    memory_gib: Option<f64>,
    /// Whether it is from the user's own table.
    pub(crate) is_own: bool,
    /// Compute capability and multiprocessors, which tests compare derived ranges with.
    pub(crate) chip: Option<Chip>,
    /// From the data sheet, in 10^9 bytes per second.
    pub(crate) memory_gb_per_s: f64,
    /// Size of the cache, from which data may come instead of memory.
    pub(crate) cache_bytes: f64,
    /// From the data sheet, in 10^12 operations per second, by type.
    pub(crate) tflops: BTreeMap<String, f64>,
    /// The clock that the device keeps under any load, in MHz.
    pub(crate) base_clock_mhz: Option<f64>,
    /// Share of the data sheet that the best programs reach.
    pub(crate) achievable_tflops_ratio: f64,
    pub(crate) achievable_memory_ratio: f64,
    pub(crate) sources: Vec<String>,
}

#[cfg(test)]
impl Peaks {
    /// The names in traces, without each `*`.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|pattern| pattern.trim_matches('*'))
    }
}

/// The chip as CUDA describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chip {
    /// Major and minor compute capability.
    pub(crate) compute: (i64, i64),
    /// Streaming multiprocessors.
    pub(crate) sm_count: i64,
}

impl ChipEntry {
    fn chip(&self) -> Option<Chip> {
        let (major, minor) = self.compute.split_once('.')?;
        let compute = (major.parse().ok()?, minor.parse().ok()?);
        (self.sm_count > 0).then_some(Chip { compute, sm_count: self.sm_count })
    }
}

/// A table of devices: entries in the order in which they are tried.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceTable(Vec<Peaks>);

static SHIPPED: LazyLock<Vec<Peaks>> = LazyLock::new(|| parse(DEVICES).unwrap_or_default());

impl DeviceTable {
    /// The entries of `own`, which may be empty, followed by the shipped entries.
    pub(crate) fn with(own: &str) -> Result<Self, Vec<DeviceTableError>> {
        let mut all = parse(own)?;
        for entry in &mut all {
            entry.is_own = true;
        }
        all.extend(SHIPPED.iter().cloned());
        Ok(Self(all))
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Peaks> {
        self.0.iter()
    }

    /// The table of the parameter `device_table`, followed by the shipped table.
    pub(crate) fn from_inputs(inputs: &ViewInputs<'_>) -> ViewResult<Self> {
        Self::with(inputs.text("device_table")?).map_err(|errors| {
            let errors: Vec<String> = errors
                .iter()
                .map(|error| format!("line {}: {}", error.line, error.message))
                .collect();
            view_error!("the table of devices: {}", errors.join("; "))
        })
    }

    /// The first entry that matches the name, SM count and memory of a device; of a device without a name, its SM count and
    /// memory.
    pub(crate) fn find(
        &self,
        name: &str,
        sm_count: Option<i64>,
        memory_bytes: Option<i64>,
    ) -> Option<&Peaks> {
        let name = name.to_lowercase();
        let memory_gib = memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 30));
        let has_memory = |gib: f64| memory_gib.map(|memory| (memory / gib - 1.0).abs() < 0.1);
        if name.is_empty() {
            return self.0.iter().find(|entry| {
                entry.sm_count.is_some()
                    && entry.sm_count == sm_count
                    && entry.memory_gib.and_then(has_memory) == Some(true)
            });
        }
        self.0.iter().find(|entry| {
            (entry.sm_count.is_none() || entry.sm_count == sm_count)
                && entry.memory_gib.and_then(has_memory) != Some(false)
                && entry.patterns.iter().any(|pattern| matches_pattern(pattern, &name))
        })
    }
}

/// Whether `name` matches `pattern`, in which `*` stands for any text; both in lower case.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    #[serde(default)]
    device: Vec<Spanned<Entry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(rename = "match")]
    patterns: Spanned<Vec<String>>,
    sm_count: Option<i64>,
    memory_gib: Option<Spanned<f64>>,
    chip: Option<Spanned<ChipEntry>>,
    memory_gb_per_s: Spanned<f64>,
    cache_mib: Option<Spanned<f64>>,
    base_clock_mhz: Option<Spanned<f64>>,
    tflops: Spanned<BTreeMap<String, f64>>,
    achievable: Option<Spanned<Achievable>>,
    sources: Spanned<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChipEntry {
    compute: String,
    sm_count: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Achievable {
    tflops: Option<f64>,
    memory: Option<f64>,
}

fn parse(text: &str) -> Result<Vec<Peaks>, Vec<DeviceTableError>> {
    let file: TableFile = toml::from_str(text).map_err(|error| {
        let help =
            "the head of the shipped table explains the fields: `advisor tables --device-table`";
        vec![table_error(
            text,
            error.span().unwrap_or(0..0),
            error.message(),
            Some(help.to_owned()),
        )]
    })?;
    let mut errors = Vec::new();
    let mut entries = Vec::new();
    for entry in file.device {
        let mut report = |span: Range<usize>, message: String, help: Option<String>| {
            errors.push(table_error(text, span, &message, help));
        };
        let entry_span = entry.span();
        let entry = entry.into_inner();
        if entry.name.trim().is_empty() {
            report(entry_span, "a device needs a name".to_owned(), None);
        }
        let patterns = entry.patterns.get_ref();
        if patterns.is_empty() || patterns.iter().any(|p| p.trim_matches(['*', ' ']).is_empty()) {
            let help =
                "use names as traces write them: `advisor sql run/ \"SELECT name FROM devices\"`";
            report(
                entry.patterns.span(),
                "`match` must list the names of this device in traces".to_owned(),
                Some(help.to_owned()),
            );
        }
        if !is_positive(*entry.memory_gb_per_s.get_ref()) {
            let message = "`memory_gb_per_s` must be a positive number, in 10^9 bytes per second";
            report(entry.memory_gb_per_s.span(), message.to_owned(), None);
        }
        if let Some(memory) = entry.memory_gib.as_ref().filter(|gib| !is_positive(*gib.get_ref())) {
            report(memory.span(), "`memory_gib` must be a positive number of GiB".to_owned(), None);
        }
        if let Some(cache) = entry.cache_mib.as_ref().filter(|c| !(0.0..1e6).contains(c.get_ref()))
        {
            report(cache.span(), "`cache_mib` must be a number of MiB".to_owned(), None);
        }
        if let Some(clock) =
            entry.base_clock_mhz.as_ref().filter(|mhz| !is_positive(*mhz.get_ref()))
        {
            let message = "`base_clock_mhz` must be a positive number of MHz";
            report(clock.span(), message.to_owned(), None);
        }
        let chip = entry.chip.as_ref().and_then(|chip| chip.get_ref().chip());
        if let Some(stated) = entry.chip.as_ref().filter(|_| chip.is_none()) {
            let message = "`chip` needs a compute capability and a number of multiprocessors";
            let help = "chip = { compute = \"8.9\", sm_count = 128 }".to_owned();
            report(stated.span(), message.to_owned(), Some(help));
        }
        for (dtype, peak) in entry.tflops.get_ref() {
            if !DTYPES.contains(&dtype.as_str()) {
                let help = match similar(dtype, DTYPES.into_iter()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the types are {}", DTYPES.join(", ")),
                };
                report(entry.tflops.span(), format!("there is no type `{dtype}`"), Some(help));
            }
            if !is_positive(*peak) {
                let message = format!("the peak of `{dtype}` must be a positive number");
                let help = "leave out types that the device does not support".to_owned();
                report(entry.tflops.span(), message, Some(help));
            }
        }
        if entry.tflops.get_ref().is_empty() {
            let help = "tflops = { fp32 = 19.5, bf16 = 312 }".to_owned();
            report(entry.tflops.span(), "`tflops` names no type".to_owned(), Some(help));
        }
        let achievable =
            entry.achievable.unwrap_or_else(|| Spanned::new(0..0, Achievable::default()));
        let span = achievable.span();
        let achievable = achievable.into_inner();
        let ratios = [achievable.tflops.unwrap_or(0.8), achievable.memory.unwrap_or(0.9)];
        if ratios.iter().any(|ratio| !is_positive(*ratio) || *ratio > 1.0) {
            let message = "`achievable` is a share of the data sheet: above 0, at most 1";
            report(span, message.to_owned(), Some("0.8 for 80 %".to_owned()));
        }
        if entry.sources.get_ref().iter().all(|source| source.trim().is_empty()) {
            let help = "give a link, or who measured it and how".to_owned();
            report(
                entry.sources.span(),
                "`sources` is empty: numbers need a source".to_owned(),
                Some(help),
            );
        }
        entries.push(Peaks {
            name: entry.name,
            patterns: entry.patterns.get_ref().iter().map(|p| p.to_lowercase()).collect(),
            sm_count: entry.sm_count,
            memory_gib: entry.memory_gib.map(Spanned::into_inner),
            is_own: false,
            chip,
            memory_gb_per_s: entry.memory_gb_per_s.into_inner(),
            cache_bytes: entry.cache_mib.map_or(0.0, Spanned::into_inner) * 1_048_576.0,
            base_clock_mhz: entry.base_clock_mhz.map(Spanned::into_inner),
            tflops: entry.tflops.into_inner(),
            achievable_tflops_ratio: ratios[0],
            achievable_memory_ratio: ratios[1],
            sources: entry.sources.into_inner(),
        });
    }
    if errors.is_empty() { Ok(entries) } else { Err(errors) }
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn table_error(
    text: &str,
    span: Range<usize>,
    message: &str,
    help: Option<String>,
) -> DeviceTableError {
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    DeviceTableError { span, line, message: message.to_owned(), help }
}

#[cfg(test)]
mod tests {
    use super::{DEVICES, DeviceTable, check_devices, matches_pattern};

    #[test]
    fn shipped_table_has_no_errors() {
        assert_eq!(check_devices(DEVICES), Ok(()));
    }

    #[test]
    fn find_matches_names_of_traces() {
        let devices = DeviceTable::with("").unwrap();
        for (name, sm_count, found) in [
            ("NVIDIA H100 80GB HBM3", 132, Some("H100 SXM")),
            ("NVIDIA H100 PCIe", 114, Some("H100 PCIe")),
            ("NVIDIA H100 NVL", 132, Some("H100 NVL")),
            ("NVIDIA H200", 132, Some("H200")),
            ("NVIDIA GH200 480GB", 132, Some("GH200 96 GB")),
            ("NVIDIA A100-SXM4-40GB", 108, Some("A100 SXM 40 GB")),
            ("NVIDIA A100-SXM4-80GB", 108, Some("A100 SXM 80 GB")),
            ("NVIDIA A100 80GB PCIe", 108, Some("A100 PCIe 80 GB")),
            ("NVIDIA A100-PG509-200", 108, Some("A100 SXM 40 GB")),
            ("Tesla V100-DGXS-32GB", 80, Some("V100 SXM2")),
            ("Tesla T4", 40, Some("T4")),
            ("NVIDIA A10", 72, Some("A10")),
            ("NVIDIA A10G", 80, Some("A10G")),
            ("NVIDIA B200", 148, Some("B200")),
            ("NVIDIA GB200", 152, Some("GB200")),
            ("AMD Instinct MI300X VF", 304, Some("MI300X")),
            ("AMD Instinct MI210", 104, Some("MI210")),
            ("AMD Radeon Graphics", 104, Some("MI250 (one die)")),
            ("AMD Radeon Graphics", 64, None),
            ("NVIDIA GeForce RTX 4090", 128, Some("GeForce RTX 4090")),
            ("NVIDIA GeForce RTX 4090 D", 114, Some("GeForce RTX 4090 D")),
            ("NVIDIA GeForce RTX 4070", 46, Some("GeForce RTX 4070")),
            ("NVIDIA GeForce RTX 4070 SUPER", 56, Some("GeForce RTX 4070 SUPER")),
            ("NVIDIA GeForce RTX 4070 Laptop GPU", 36, Some("GeForce RTX 4070 Laptop")),
            ("NVIDIA GeForce GTX 1660 Ti", 24, Some("GeForce GTX 1660 Ti")),
            ("GeForce RTX 2080 Ti", 68, Some("GeForce RTX 2080 Ti")),
            // Two cards of one name, with 30 and 34 multiprocessors.
            ("GeForce RTX 2060", 30, Some("GeForce RTX 2060")),
            ("GeForce RTX 2060", 34, Some("GeForce RTX 2060 12 GB")),
            ("GeForce GTX 1070", 16, Some("GeForce GTX 1070 (laptop)")),
            ("NVIDIA RTX A5000", 64, Some("RTX A5000")),
            ("NVIDIA RTX A5000 Laptop GPU", 48, None),
            ("NVIDIA RTX 4000 SFF Ada Generation", 48, Some("RTX 4000 SFF Ada")),
            ("NVIDIA RTX 4000 Ada Generation", 48, Some("RTX 4000 Ada")),
            ("Quadro RTX 8000", 72, Some("Quadro RTX 8000")),
            ("Tesla P100-PCIE-16GB", 56, Some("P100 PCIe 16 GB")),
            ("Orin", 16, Some("Jetson AGX Orin 64 GB")),
            // Modules of 8 multiprocessors have different clocks.
            ("Orin", 8, None),
            ("AMD Radeon RX 7900 XTX", 48, Some("Radeon RX 7900 XTX")),
            ("AMD Radeon RX 7900 XT", 42, Some("Radeon RX 7900 XT")),
            ("AMD Radeon PRO W7900", 48, Some("Radeon PRO W7900")),
            // A MIG slice has only a part of the device.
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, None),
            ("", 304, None),
        ] {
            let entry = devices.find(name, Some(sm_count), None).map(|entry| entry.name.as_str());
            assert_eq!(entry, found, "{name}");
        }
    }

    #[test]
    fn find_identifies_devices_without_names_by_size() {
        let devices = DeviceTable::with("").unwrap();
        let find = |sm_count, memory_gib: i64| {
            let memory_bytes = Some(memory_gib << 30);
            devices.find("", Some(sm_count), memory_bytes).map(|entry| entry.name.as_str())
        };
        assert_eq!(find(304, 192), Some("MI300X"));
        assert_eq!(find(304, 256), Some("MI325X"));
        assert_eq!(find(304, 80), None);
        assert_eq!(find(132, 192), None);
    }

    /// Cards of one name and one number of multiprocessors may have memory of different widths.
    #[test]
    fn find_tells_named_devices_apart_by_memory() {
        let devices = DeviceTable::with("").unwrap();
        let find = |memory_gib: Option<i64>| {
            let memory_bytes = memory_gib.map(|gib| gib << 30);
            let entry = devices.find("NVIDIA GeForce RTX 3060", Some(28), memory_bytes);
            entry.map(|entry| entry.name.as_str())
        };
        assert_eq!(find(Some(12)), Some("GeForce RTX 3060 12 GB"));
        assert_eq!(find(Some(8)), None);
        assert_eq!(find(None), Some("GeForce RTX 3060 12 GB"));
    }

    #[test]
    fn own_table_takes_precedence_over_the_shipped_one() {
        let own = "[[device]]\nname = \"mine\"\nmatch = [\"*h100 80gb*\"]\nmemory_gb_per_s = 1\n\
                   tflops = { bf16 = 1 }\nsources = [\"me\"]\n";
        let devices = DeviceTable::with(own).unwrap();
        let mine = devices.find("NVIDIA H100 80GB HBM3", None, None).unwrap();
        assert_eq!((mine.name.as_str(), mine.sources.len()), ("mine", 1));
        assert!(mine.is_own && !devices.find("Tesla T4", None, None).unwrap().is_own);
        assert!(devices.find("Tesla T4", None, None).is_some());
    }

    #[test]
    fn check_devices_reports_errors_with_line_and_help() {
        let text = "[[device]]\nname = \"x\"\nmatch = [\"*\"]\nmemory_gb_per_s = -3\n\
                    tflops = { bf15 = 312 }\nachievable = { tflops = 80 }\nsources = []\n";
        let errors = check_devices(text).unwrap_err();
        let messages: Vec<(usize, &str)> =
            errors.iter().map(|e| (e.line, e.message.as_str())).collect();
        assert_eq!(
            messages,
            [
                (3, "`match` must list the names of this device in traces"),
                (4, "`memory_gb_per_s` must be a positive number, in 10^9 bytes per second"),
                (5, "there is no type `bf15`"),
                (6, "`achievable` is a share of the data sheet: above 0, at most 1"),
                (7, "`sources` is empty: numbers need a source"),
            ]
        );
        assert_eq!(errors[2].help.as_deref(), Some("did you mean `bf16`?"));
        let unknown = check_devices("[[device]]\nnam = \"x\"\n").unwrap_err();
        assert_eq!(unknown[0].line, 2);
        assert!(unknown[0].message.contains("unknown field `nam`"), "{}", unknown[0].message);
        assert_eq!(check_devices("not toml").unwrap_err()[0].line, 1);
    }

    #[test]
    fn matches_pattern_treats_stars_as_any_text() {
        assert!(matches_pattern("*a100-sxm*-40gb", "nvidia a100-sxm4-40gb"));
        assert!(!matches_pattern("*a100-sxm*-40gb", "nvidia a100-sxm4-80gb"));
        assert!(matches_pattern("tesla t4", "tesla t4"));
        assert!(!matches_pattern("nvidia l4", "nvidia l40"));
        assert!(!matches_pattern("*h200", "nvidia h200 nvl"));
    }
}
