//! The table of contents: views by the question they answer, from the step to its causes.

use query::Catalog;
use query::ViewDef;

/// A topic of the table of contents.
#[derive(Debug, Clone, Copy)]
pub struct Topic {
    /// The title.
    pub title: &'static str,
    /// The name of the corresponding page of the PyTorch Profiler's TensorBoard plugin.
    pub formerly: Option<&'static str>,
    /// Prefixes of the names of its views. The longest matching prefix decides.
    prefixes: &'static [&'static str],
}

/// All topics. Views in `base` belong to none.
pub const TOPICS: &[Topic] = &[
    Topic {
        title: "What a step is made of",
        formerly: Some("Overview"),
        prefixes: &["step_", "run_", "trace_"],
    },
    Topic {
        title: "Loading data, and the marks of Composer and Determined",
        formerly: None,
        prefixes: &["loader_", "trainer_"],
    },
    Topic {
        title: "Devices: in use, idle, and why",
        formerly: Some("Overview"),
        prefixes: &["gpu_", "idle_", "queue_"],
    },
    Topic { title: "Operators", formerly: Some("Operator"), prefixes: &["op_", "source_"] },
    Topic {
        title: "How close it comes to what the device can do",
        formerly: None,
        prefixes: &[
            "roofline_",
            "op_roofline",
            "op_below_roofline",
            "gpu_roofline",
            "gpu_mfu",
            "step_mfu",
        ],
    },
    Topic {
        title: "Kernels, copies and launches",
        formerly: Some("GPU Kernel"),
        prefixes: &["kernel_", "graph_", "gpu_kernel", "gpu_top_kernels", "gpu_copies", "cupti_"],
    },
    Topic { title: "Inference servers", formerly: None, prefixes: &["serving_"] },
    Topic { title: "Compiled code (torch.compile)", formerly: None, prefixes: &["compile_"] },
    Topic { title: "Memory", formerly: Some("Memory"), prefixes: &["memory_", "snapshot_"] },
    Topic {
        title: "Ranks and communication",
        formerly: Some("Distributed"),
        prefixes: &["comm_", "fsdp_", "moe_"],
    },
    Topic { title: "Hangs (Flight Recorder)", formerly: None, prefixes: &["flight_"] },
    Topic { title: "Pipeline parallelism", formerly: None, prefixes: &["pipeline_"] },
    Topic {
        title: "Machines: processors, memory, disks, networks, GPUs over time",
        formerly: None,
        prefixes: &["system_"],
    },
    Topic {
        title: "Modules and ranges",
        formerly: Some("Module, Lightning"),
        prefixes: &["module_", "lightning_", "annotation_"],
    },
    Topic {
        title: "What decided how long it took",
        formerly: None,
        prefixes: &["critical_", "hta_critical_path"],
    },
    Topic {
        title: "Two runs side by side (read by advisor diff)",
        formerly: Some("Diff"),
        prefixes: &["diff_"],
    },
];

/// The views to read first, from the step to its causes.
pub const START_HERE: &[&str] = &[
    "step_time",
    "step_breakdown",
    "loader_fetches",
    "gpu_utilization",
    "gpu_idle_causes",
    "idle_source_lines",
    "gpu_kernels",
    "op_by_name",
    "critical_what_if",
    "memory_peak",
    "comm_exposed",
    "comm_stragglers",
];

impl Topic {
    /// The views of the topic, sorted by name.
    pub fn views<'a>(&self, catalog: &'a Catalog) -> Vec<&'a ViewDef> {
        let mut views: Vec<_> = catalog
            .views()
            .iter()
            .filter(|view| Self::of(view).is_some_and(|topic| topic.title == self.title))
            .collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// The topic of a view; `None` for the views in `base`.
    pub fn of(view: &ViewDef) -> Option<&'static Self> {
        if view.topic() == "base" {
            return None;
        }
        let length = |topic: &Self| {
            let fits = topic.prefixes.iter().filter(|prefix| view.name.starts_with(**prefix));
            fits.map(|prefix| prefix.len()).max()
        };
        let best = TOPICS.iter().max_by_key(|topic| length(topic))?;
        length(best).map(|_| best)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{START_HERE, TOPICS, Topic};
    use crate::catalog;

    #[test]
    fn every_view_has_a_question_of_its_own() {
        let mut questions = BTreeSet::new();
        for view in catalog().views() {
            assert!(view.question.ends_with('?'), "{}", view.name);
            assert!(view.question.len() <= 100, "{}: {}", view.name, view.question);
            assert!(questions.insert(&view.question), "{}: {}", view.name, view.question);
        }
    }

    #[test]
    fn every_view_says_what_it_counts() {
        for view in catalog().views() {
            assert!(view.window.is_some(), "{}", view.name);
        }
    }

    #[test]
    fn views_to_start_with_exist() {
        for name in START_HERE {
            assert!(catalog().find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_view_outside_base_has_a_topic() {
        for view in catalog().views() {
            let topic = Topic::of(view).map(|topic| topic.title);
            assert_eq!(topic.is_none(), view.topic() == "base", "{}", view.name);
        }
    }

    #[test]
    fn every_prefix_matches_a_view() {
        for prefix in TOPICS.iter().flat_map(|topic| topic.prefixes) {
            let fits = |name: &str| name.starts_with(prefix);
            assert!(catalog().views().iter().any(|m| fits(&m.name)), "{prefix}");
        }
    }
}
