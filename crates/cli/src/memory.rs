//! How much memory there is, and how much of it we take.

use std::fs;

/// Reads a size: `4GiB`, `512MB`, `1000000`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit = text[digits.len()..].trim_start().to_ascii_lowercase();
    let (base, unit) = match unit.strip_suffix("ib") {
        Some(unit) => (1024_f64, unit),
        None => (1000_f64, unit.strip_suffix('b').unwrap_or(&unit)),
    };
    let power = match unit {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err("not a size: write 4GiB or 512MB".to_owned()),
    };
    let number = digits.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    let number = number.ok_or("not a size: write 4GiB or 512MB")?;
    Ok((number * base.powi(power)) as u64)
}

/// Half of the memory that this process may have; `None` where the system does not say.
pub(crate) fn half() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    // Containers: the limit of their group, if there is one.
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = group.iter().find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    machine.into_iter().chain(group).min().map(|bytes: u64| bytes / 2)
}

/// Bytes of memory that `/proc/meminfo` speaks of.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{bytes, total};

    #[test]
    fn sizes_are_read() {
        for (text, expected) in [
            ("4GiB", 4 << 30),
            ("512MB", 512_000_000),
            ("1.5 g", 1_500_000_000),
            ("16kib", 16 << 10),
            ("1000000", 1_000_000),
            ("7b", 7),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "GiB", "-1GB", "1XB", "0", "nan", "infMB", "1 2GB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_machine_says_what_it_has() {
        let text = "MemTotal:       24599184 kB\nMemFree:        12 kB\n";
        assert_eq!(total(text), Some(24_599_184 * 1024));
        assert_eq!(total("MemFree: 12 kB"), None);
    }
}
