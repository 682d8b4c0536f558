//! Metadata of a trace: its top-level entries other than the events.

use serde::Deserialize;
use serde_json::Value;
use trace_model::Capability;

use crate::json::number;
use crate::quantity::RawInteger;
use crate::timeline::metadata::{
    DeviceProperties, Metadata, ProcessorProperties, UnprofiledStepTimes,
};

/// One entry of `deviceProperties`. AMD writes some of the numbers as strings.
#[derive(Deserialize)]
struct Properties {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    name: Value,
    #[serde(default, rename = "totalGlobalMem")]
    total_global_mem: Value,
    #[serde(default, rename = "computeMajor")]
    compute_major: Value,
    #[serde(default, rename = "computeMinor")]
    compute_minor: Value,
    #[serde(default, rename = "numSms")]
    num_sms: Value,
    #[serde(default, rename = "warpSize")]
    warp_size: Value,
    #[serde(default, rename = "maxThreadsPerMultiprocessor")]
    max_threads: Value,
}

/// Entries that state options of `torch.profiler.profile`, and the data that these options record.
const OPTIONS: [(&str, Capability); 4] = [
    ("record_shapes", Capability::OperatorShapes),
    ("with_stack", Capability::PythonStacks),
    ("with_modules", Capability::ModuleNames),
    ("profile_memory", Capability::MemoryEvents),
];

/// `1`, `true`, or one of these as a string.
fn is_on(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\"").and_then(|t| t.strip_suffix(b"\"")).unwrap_or(text);
    text == b"1" || text.eq_ignore_ascii_case(b"true")
}

/// Reads the entries. Entries with unexpected values are listed in `unreadable`.
pub(super) fn parse(entries: &[(String, Vec<u8>)]) -> Metadata {
    let mut metadata = Metadata::default();
    for (key, text) in entries {
        let understood = match key.as_str() {
            "distributedInfo" => distributed_info(&mut metadata, text),
            // Composer's.
            "global_rank" => {
                let rank = number::integer(text).and_then(RawInteger::number);
                let stated = rank.filter(|&rank| rank >= 0).map(|rank| (rank, "global_rank"));
                metadata.rank = metadata.rank.or(stated);
                rank.is_some()
            }
            "deviceProperties" => device_properties(&mut metadata, text),
            // Written by `advisor record` and the callbacks.
            "processorProperties" => processor_properties(&mut metadata, text),
            "unprofiledSteps" => unprofiled_steps(&mut metadata, text),
            "baseTimeNanoseconds" => {
                metadata.base_time_ns = number::integer(text).and_then(RawInteger::time_ns);
                metadata.base_time_ns.is_some()
            }
            "host_name" | "hostname" => {
                metadata.host = serde_json::from_slice(text).ok();
                metadata.host.is_some()
            }
            _ => {
                if let Some(&(_, capability)) = OPTIONS.iter().find(|(option, _)| option == key) {
                    metadata.recorded.insert_if(is_on(text), capability);
                }
                true
            }
        };
        if !understood {
            metadata.unreadable.push(key.clone());
        }
    }
    metadata
}

fn distributed_info(metadata: &mut Metadata, text: &[u8]) -> bool {
    let Ok(info) = serde_json::from_slice::<Value>(text) else { return false };
    let stated = int32(&info["rank"]).filter(|&rank| rank >= 0);
    metadata.rank = stated.map(|rank| (rank, "distributedInfo")).or(metadata.rank);
    metadata.world_size = int32(&info["world_size"]);
    metadata.backend = info["backend"].as_str().map(str::to_owned);
    info.is_object()
}

fn device_properties(metadata: &mut Metadata, text: &[u8]) -> bool {
    let Ok(list) = serde_json::from_slice::<Vec<Properties>>(text) else { return false };
    metadata.devices = list
        .into_iter()
        .enumerate()
        .map(|(i, p)| DeviceProperties {
            id: int32(&p.id).unwrap_or(i as i32),
            name: p.name.as_str().unwrap_or_default().to_owned(),
            total_memory_bytes: integer(&p.total_global_mem).and_then(RawInteger::bytes),
            compute_major: int32(&p.compute_major),
            compute_minor: int32(&p.compute_minor),
            sm_count: int32(&p.num_sms),
            warp_size: int32(&p.warp_size),
            max_threads_per_sm: int32(&p.max_threads),
        })
        .collect();
    true
}

fn processor_properties(metadata: &mut Metadata, text: &[u8]) -> bool {
    let Ok(Value::Object(entries)) = serde_json::from_slice(text) else { return false };
    let count = |key: &str| int32(entries.get(key)?).filter(|&count| count > 0);
    let flags = entries.get("flags").and_then(Value::as_array);
    let words = |flags: &Vec<Value>| {
        let words: Vec<&str> = flags.iter().filter_map(Value::as_str).collect();
        words.join(" ")
    };
    metadata.processor = Some(ProcessorProperties {
        name: entries.get("name").and_then(Value::as_str).map(str::to_owned),
        core_count: count("cores"),
        thread_count: count("threads"),
        flags: flags.map(words),
    });
    true
}

fn unprofiled_steps(metadata: &mut Metadata, text: &[u8]) -> bool {
    let Ok(entry) = serde_json::from_slice::<Value>(text) else { return false };
    let count = int32(&entry["count"]).filter(|&count| count > 0);
    let mean_ns = integer(&entry["mean_ns"]).and_then(RawInteger::dur_ns);
    let times = count.zip(mean_ns);
    metadata.unprofiled_steps =
        times.map(|(count, mean_ns)| UnprofiledStepTimes { count, mean_ns });
    times.is_some()
}

fn integer(value: &Value) -> Option<RawInteger> {
    match value {
        Value::Number(n) => n.as_i64().map(RawInteger::new),
        Value::String(s) => number::integer(s.as_bytes()),
        _ => None,
    }
}

fn int32(value: &Value) -> Option<i32> {
    integer(value)?.number()
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn processor(text: &str) -> (Option<String>, Vec<String>) {
        let metadata = parse(&[("processorProperties".to_owned(), text.as_bytes().to_vec())]);
        (metadata.processor.map(|p| format!("{p:?}")), metadata.unreadable)
    }

    #[test]
    fn unprofiled_steps_are_read_or_reported() {
        let read = |text: &str| {
            let metadata = parse(&[("unprofiledSteps".to_owned(), text.as_bytes().to_vec())]);
            let times = metadata.unprofiled_steps.map(|times| (times.count, times.mean_ns));
            (times, metadata.unreadable.len())
        };
        assert_eq!(read(r#"{"count": 6, "mean_ns": 12345678}"#), (Some((6, 12_345_678)), 0));
        for text in
            ["{}", "[]", "6", r#"{"count": 0, "mean_ns": 5}"#, r#"{"count": 3, "mean_ns": -5}"#]
        {
            assert_eq!(read(text), (None, 1), "{text}");
        }
    }

    #[test]
    fn processor_properties_are_read() {
        let text = r#"{"name": "AMD EPYC", "cores": 2, "threads": 1, "flags": ["avx512f", "avx512_bf16"]}"#;
        let expected = "ProcessorProperties { name: Some(\"AMD EPYC\"), core_count: Some(2), \
                        thread_count: Some(1), flags: Some(\"avx512f avx512_bf16\") }";
        assert_eq!(processor(text), (Some(expected.to_owned()), vec![]));
    }

    #[test]
    fn unknown_properties_of_a_processor_stay_unknown() {
        let unknown =
            "ProcessorProperties { name: None, core_count: None, thread_count: None, flags: None }";
        for text in ["{}", r#"{"name": null, "cores": 0, "threads": "x", "flags": null}"#] {
            assert_eq!(processor(text), (Some(unknown.to_owned()), vec![]), "{text}");
        }
        // An empty list of instruction sets is not an unknown one.
        let none = processor(r#"{"flags": []}"#).0.unwrap();
        assert!(none.contains("flags: Some(\"\")"), "{none}");
        assert_eq!(processor("[]"), (None, vec!["processorProperties".to_owned()]));
    }
}
