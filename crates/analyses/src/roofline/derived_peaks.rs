//! Ranges of peak rates for NVIDIA GPUs that no table lists: from compute capability, number of multiprocessors and name.
//!
//! A multiprocessor of a compute capability does a fixed number of operations per clock ([throughput], and the white papers
//! of the architectures for tensor cores). Traces do not state clocks, and chips of one capability are sold with all
//! of their tensor throughput, half of it, or none. The range covers all boost clocks that cards of the capability are
//! specified with, and all kinds that the name and the number of multiprocessors leave possible. Rates in the recording
//! exclude clocks and kinds that are too slow for these rates.
//!
//! [throughput]: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#arithmetic-instructions

use std::collections::BTreeMap;

use super::device_peaks::{Chip, DTYPES};

/// A lower and an upper end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RateRange {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl RateRange {
    pub(crate) fn exact(rate: f64) -> Self {
        Self { low: rate, high: rate }
    }

    fn scaled(self, by: RateRange) -> Self {
        Self { low: self.low * by.low, high: self.high * by.high }
    }

    fn union(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// Part of the data sheet that good programs reach, over the devices of the table that somebody measured.
const ACHIEVABLE_TFLOPS: RateRange = RateRange { low: 0.7, high: 0.9 };
const ACHIEVABLE_MEMORY: RateRange = RateRange { low: 0.8, high: 0.95 };

/// Cards run faster than the boost clock of their data sheet where power and temperature allow.
const ABOVE_BOOST: f64 = 1.2;

/// Peak rates of a device as ranges.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DerivedPeaks {
    /// In 10^12 operations per second, by type.
    pub(crate) tflops: BTreeMap<&'static str, RateRange>,
    /// In 10^9 bytes per second.
    pub(crate) gb_per_s: RateRange,
    /// The facts that the range is derived from, in words.
    pub(crate) basis: String,
    /// The highest rates of large matmuls in the recording, by type.
    observed: BTreeMap<&'static str, f64>,
}

impl DerivedPeaks {
    /// The part of the peak that good programs reach: at least the rates in the recording.
    pub(crate) fn achievable_tflops(&self, dtype: &str) -> Option<RateRange> {
        let range = self.tflops.get(dtype)?.scaled(ACHIEVABLE_TFLOPS);
        let seen = self.observed.get(dtype).copied().unwrap_or(0.0);
        Some(RateRange { low: range.low.max(seen), high: range.high.max(seen) })
    }

    pub(crate) fn achievable_gb_per_s(&self) -> RateRange {
        self.gb_per_s.scaled(ACHIEVABLE_MEMORY)
    }
}

/// Multiply-adds of a multiprocessor per clock, by type, dense, with 32-bit sums for 16-bit floats.
type MultiplyAdds = &'static [(&'static str, f64)];

/// A kind of chip or card.
struct Kind {
    rates: MultiplyAdds,
    /// Boost clocks of data sheets, in GHz.
    clock_ghz: [f64; 2],
}

/// The kinds that a chip may be, and the memory bandwidth of a multiprocessor in 10^9 bytes per second.
struct Candidates {
    kinds: Vec<Kind>,
    gb_per_s_of_sm: [f64; 2],
}

const PASCAL_GP100: MultiplyAdds = &[("fp64", 32.0), ("fp32", 64.0)];
const PASCAL: MultiplyAdds = &[("fp64", 4.0), ("fp32", 128.0), ("int8", 512.0)];
const VOLTA: MultiplyAdds = &[("fp64", 32.0), ("fp32", 64.0), ("fp16", 512.0)];
const XAVIER: MultiplyAdds = &[("fp32", 64.0), ("fp16", 512.0)];
const TURING_NO_TENSOR: MultiplyAdds = &[("fp64", 2.0), ("fp32", 64.0)];
const TURING: MultiplyAdds = &[("fp64", 2.0), ("fp32", 64.0), ("fp16", 512.0), ("int8", 1024.0)];
const TURING_HALF: MultiplyAdds =
    &[("fp64", 2.0), ("fp32", 64.0), ("fp16", 256.0), ("int8", 1024.0)];
const GA100: MultiplyAdds = &[
    ("fp64", 64.0),
    ("fp32", 64.0),
    ("tf32", 512.0),
    ("fp16", 1024.0),
    ("bf16", 1024.0),
    ("int8", 2048.0),
];
const GA10X: MultiplyAdds = &[
    ("fp64", 2.0),
    ("fp32", 128.0),
    ("tf32", 256.0),
    ("fp16", 512.0),
    ("bf16", 512.0),
    ("int8", 1024.0),
];
const GA10X_HALF: MultiplyAdds = &[
    ("fp64", 2.0),
    ("fp32", 128.0),
    ("tf32", 128.0),
    ("fp16", 256.0),
    ("bf16", 256.0),
    ("int8", 1024.0),
];
/// A10G: half of the rate in all types.
const GA10X_HALF_INT8: MultiplyAdds = &[
    ("fp64", 2.0),
    ("fp32", 128.0),
    ("tf32", 128.0),
    ("fp16", 256.0),
    ("bf16", 256.0),
    ("int8", 512.0),
];
const ORIN: MultiplyAdds = &[("fp32", 128.0), ("fp16", 1024.0), ("bf16", 1024.0), ("int8", 2048.0)];
const ADA: MultiplyAdds = &[
    ("fp64", 2.0),
    ("fp32", 128.0),
    ("tf32", 256.0),
    ("fp16", 512.0),
    ("bf16", 512.0),
    ("fp8", 1024.0),
    ("int8", 1024.0),
];
const ADA_HALF: MultiplyAdds = &[
    ("fp64", 2.0),
    ("fp32", 128.0),
    ("tf32", 128.0),
    ("fp16", 256.0),
    ("bf16", 256.0),
    ("fp8", 512.0),
    ("int8", 1024.0),
];
/// L40: half of the rate in all types.
const ADA_HALF_INT8: MultiplyAdds = &[
    ("fp64", 2.0),
    ("fp32", 128.0),
    ("tf32", 128.0),
    ("fp16", 256.0),
    ("bf16", 256.0),
    ("fp8", 512.0),
    ("int8", 512.0),
];
const HOPPER: MultiplyAdds = &[
    ("fp64", 128.0),
    ("fp32", 128.0),
    ("tf32", 1024.0),
    ("fp16", 2048.0),
    ("bf16", 2048.0),
    ("fp8", 4096.0),
    ("int8", 4096.0),
];
/// H20, for export.
const HOPPER_REDUCED: MultiplyAdds = &[
    ("fp32", 128.0),
    ("tf32", 256.0),
    ("fp16", 512.0),
    ("bf16", 512.0),
    ("fp8", 1024.0),
    ("int8", 1024.0),
];
const GB100: MultiplyAdds = &[
    ("fp64", 64.0),
    ("fp32", 128.0),
    ("tf32", 2048.0),
    ("fp16", 4096.0),
    ("bf16", 4096.0),
    ("fp8", 8192.0),
    ("int8", 8192.0),
];
/// Few units for 64-bit floats and 8-bit integers.
const GB103: MultiplyAdds =
    &[("fp32", 128.0), ("tf32", 2048.0), ("fp16", 4096.0), ("bf16", 4096.0), ("fp8", 8192.0)];

/// Multiprocessors of the largest chip of capability 7.5 without tensor cores (TU116); TU106 has 30 and more.
const MAX_SMS_WITHOUT_TENSOR_CORES: i64 = 24;
/// Multiprocessors of the H20, the only card of capability 9.0 with reduced tensor cores.
const REDUCED_HOPPER_SMS: i64 = 78;

/// From Ampere on, names tell laptops from desktops; the last two lack the suffix.
fn is_laptop(name: &str) -> bool {
    ["laptop", "max-q design", "geforce mx", "rtx 2050"].iter().any(|part| name.contains(part))
}

fn candidates(chip: Chip, name: &str) -> Option<Candidates> {
    let name = name.to_lowercase();
    let is_geforce = name.contains("geforce");
    // GeForce cards have half of the throughput with 32-bit sums; others have all of it, a few half.
    let of_kinds =
        |kinds: [MultiplyAdds; 3], laptop: [f64; 2], geforce: [f64; 2], other: [f64; 2]| {
            let clock_ghz = match (is_laptop(&name), is_geforce) {
                (true, _) => laptop,
                (false, true) => geforce,
                (false, false) => other,
            };
            let [full, half, all_half] = kinds;
            let rates = if is_geforce { vec![half] } else { vec![full, half, all_half] };
            rates.into_iter().map(|rates| Kind { rates, clock_ghz }).collect()
        };
    let one =
        |rates: MultiplyAdds, low: f64, high: f64| vec![Kind { rates, clock_ghz: [low, high] }];
    let (kinds, gb_per_s_of_sm) = match chip.compute {
        (6, 0) => (one(PASCAL_GP100, 1.1, 1.5), [9.0, 14.0]),
        (6, 1) => (one(PASCAL, 0.9, 1.8), [5.0, 24.0]),
        (7, 0) => (one(VOLTA, 1.2, 1.65), [8.0, 15.0]),
        (7, 2) => (one(XAVIER, 0.6, 1.4), [6.0, 18.0]),
        (7, 5) if chip.sm_count <= MAX_SMS_WITHOUT_TENSOR_CORES || name.contains("gtx") => {
            (one(TURING_NO_TENSOR, 0.9, 1.9), [4.5, 17.0])
        }
        (7, 5) => {
            let clocks = [0.9, 1.9];
            (of_kinds([TURING, TURING_HALF, TURING_HALF], clocks, clocks, clocks), [4.5, 17.0])
        }
        (8, 0) => (one(GA100, 1.2, 1.5), [13.0, 20.0]),
        (8, 6) => (
            of_kinds([GA10X, GA10X_HALF, GA10X_HALF_INT8], [1.0, 1.75], [1.45, 1.9], [1.1, 1.9]),
            [5.5, 22.0],
        ),
        (8, 7) => (one(ORIN, 0.5, 1.35), [8.0, 15.0]),
        (8, 9) => (
            of_kinds([ADA, ADA_HALF, ADA_HALF_INT8], [1.1, 2.4], [2.3, 2.65], [1.5, 2.65]),
            [4.5, 13.0],
        ),
        (9, 0) if chip.sm_count == REDUCED_HOPPER_SMS => {
            let kinds = [HOPPER, HOPPER_REDUCED];
            let kinds = kinds.into_iter().map(|rates| Kind { rates, clock_ghz: [1.5, 2.0] });
            (kinds.collect(), [14.0, 55.0])
        }
        (9, 0) => (one(HOPPER, 1.5, 2.0), [14.0, 55.0]),
        (10, 0) => (one(GB100, 1.7, 2.1), [45.0, 60.0]),
        (10, 3) => (one(GB103, 1.7, 2.1), [45.0, 60.0]),
        (12, 0) => (
            of_kinds([ADA, ADA_HALF, ADA_HALF_INT8], [1.2, 2.75], [2.3, 2.75], [1.5, 2.75]),
            [7.0, 20.0],
        ),
        _ => return None,
    };
    Some(Candidates { kinds, gb_per_s_of_sm })
}

/// The peak rates of an NVIDIA GPU of this kind. `observed`: the highest rates of large matmuls in the recording, in 10^12
/// operations per second, by type. `None` if nothing is known of the compute capability, or if the recording shows
/// rates that no such chip has: then its times, its shapes or the name of the device are wrong.
pub(crate) fn derive(
    chip: Chip,
    name: &str,
    observed: &BTreeMap<&'static str, f64>,
) -> Option<DerivedPeaks> {
    let Candidates { kinds, gb_per_s_of_sm } = candidates(chip, name)?;
    let sm_count = chip.sm_count as f64;
    // Multiply-adds are two operations; at 1 GHz, 1,000 a clock are 10^12 a second.
    let tflops_at_1_ghz = |fma: f64| sm_count * fma * 2.0 / 1000.0;
    let mut tflops: BTreeMap<&'static str, RateRange> = BTreeMap::new();
    let mut clocks: Option<RateRange> = None;
    for kind in kinds {
        let rate = |dtype: &str| kind.rates.iter().find(|(d, _)| *d == dtype).map(|(_, fma)| *fma);
        let [slowest, fastest] = kind.clock_ghz;
        let least =
            observed.iter().filter_map(|(dtype, seen)| Some(seen / tflops_at_1_ghz(rate(dtype)?)));
        let least = least.fold(0.0, f64::max);
        if least > fastest * ABOVE_BOOST {
            continue;
        }
        let clock = RateRange { low: slowest.max(least), high: fastest.max(least) };
        clocks = Some(clocks.map_or(clock, |known| known.union(clock)));
        for dtype in DTYPES {
            let Some(fma) = rate(dtype) else { continue };
            let range = clock.scaled(RateRange::exact(tflops_at_1_ghz(fma)));
            tflops.entry(dtype).and_modify(|known| *known = known.union(range)).or_insert(range);
        }
    }
    let clocks = clocks?;
    let (major, minor) = chip.compute;
    let basis = format!(
        "derived from compute capability {major}.{minor}, {} multiprocessors and clocks of {:.2} to {:.2} GHz",
        chip.sm_count, clocks.low, clocks.high
    );
    let gb_per_s =
        RateRange { low: sm_count * gb_per_s_of_sm[0], high: sm_count * gb_per_s_of_sm[1] };
    Some(DerivedPeaks { tflops, gb_per_s, basis, observed: observed.clone() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::device_peaks::{Chip, DeviceTable};
    use super::{RateRange, derive};

    fn observed(rates: &[(&'static str, f64)]) -> BTreeMap<&'static str, f64> {
        rates.iter().copied().collect()
    }

    fn chip(major: i64, minor: i64, sm_count: i64) -> Chip {
        Chip { compute: (major, minor), sm_count }
    }

    /// Leaves out each entry of the table in turn, known by its name in traces and by its chip alone. Data sheets round.
    #[test]
    fn derived_range_contains_each_entry_of_the_table() {
        let table = DeviceTable::with("").unwrap();
        let mut count = 0;
        for entry in table.entries() {
            let Some(chip) = entry.chip else { continue };
            count += 1;
            for name in entry.names().chain([""]) {
                let derived = derive(chip, name, &observed(&[]))
                    .unwrap_or_else(|| panic!("{}: no range", entry.name));
                for (dtype, &peak) in &entry.tflops {
                    let Some(range) = derived.tflops.get(dtype.as_str()) else {
                        panic!("{}: no range of {dtype}", entry.name)
                    };
                    let rounding = 0.01 + 0.02 * peak;
                    assert!(
                        range.low - rounding <= peak && peak <= range.high + rounding,
                        "{} {dtype}: {peak} is not in {range:?}",
                        entry.name
                    );
                    let reached = peak * entry.achievable_tflops_ratio;
                    let range = derived.achievable_tflops(dtype).unwrap();
                    assert!(
                        range.low - rounding <= reached && reached <= range.high + rounding,
                        "{} {dtype}: {reached} is not in {range:?}",
                        entry.name
                    );
                }
                let RateRange { low, high } = derived.gb_per_s;
                let gb_per_s = entry.memory_gb_per_s;
                assert!((low..=high).contains(&gb_per_s), "{}: {gb_per_s} GB/s", entry.name);
                let reached = gb_per_s * entry.achievable_memory_ratio;
                let RateRange { low, high } = derived.achievable_gb_per_s();
                assert!((low..=high).contains(&reached), "{}: {reached} GB/s", entry.name);
            }
        }
        assert!(count > 80, "{count} entries state a chip");
    }

    /// At 8.6, the A6000 does 154.8 TFLOP/s in 16 bits, and the RTX 3090 71: a chip without a name may be either.
    #[test]
    fn range_covers_both_kinds_unless_the_name_or_the_recording_tells() {
        let of = |name: &str, rates: &[(&'static str, f64)]| {
            derive(chip(8, 6, 84), name, &observed(rates)).map(|derived| derived.tflops["fp16"])
        };
        let any = of("", &[]).unwrap();
        assert!(any.low < 71.0 && any.high > 154.8, "{any:?}");
        let geforce = of("NVIDIA GeForce RTX 3999", &[]).unwrap();
        assert!(geforce.high < 85.0, "{geforce:?}");
        // No card of half the rate does 110 TFLOP/s.
        let fast = of("", &[("fp16", 110.0)]).unwrap();
        assert!(fast.low >= 110.0 && fast.high > 154.8, "{fast:?}");
        // A rate of one type bounds the clock, and so the others: 30 of 34.4 TFLOP/s at 1.6 GHz.
        let clocked = of("NVIDIA GeForce RTX 3999", &[("fp32", 34.4064)]).unwrap();
        assert!((clocked.low - 68.8128).abs() < 1e-6, "{clocked:?}");
        // A rate that no such chip reaches means that something is wrong.
        assert_eq!(of("", &[("fp32", 80.0)]), None);
        assert_eq!(of("", &[("fp16", 400.0)]), None);
    }

    #[test]
    fn turing_without_tensor_cores_is_told_by_its_size() {
        let has_fp16 = |sm_count| {
            let derived = derive(chip(7, 5, sm_count), "NVIDIA T1000", &observed(&[])).unwrap();
            derived.tflops.contains_key("fp16")
        };
        assert!(!has_fp16(14) && !has_fp16(24) && has_fp16(30));
    }

    #[test]
    fn a_slice_of_a_gpu_has_the_rates_of_its_multiprocessors() {
        let name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb";
        let derived = derive(chip(8, 0, 14), name, &observed(&[])).unwrap();
        let range = derived.tflops["bf16"];
        let share = 312.0 * 14.0 / 108.0;
        assert!(range.low < share && share < range.high && range.high < 312.0 / 6.0, "{range:?}");
    }

    #[test]
    fn unknown_capabilities_have_no_range() {
        assert_eq!(derive(chip(5, 2, 24), "", &observed(&[])), None);
        assert_eq!(derive(chip(99, 0, 24), "", &observed(&[])), None);
    }
}
