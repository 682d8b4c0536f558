//! The table of contents: what question each view answers, in the order in which one asks.

use query::Catalog;
use query::ViewDef;

/// A chapter of the table of contents.
#[derive(Debug, Clone, Copy)]
pub struct Topic {
    /// What it is about.
    pub title: &'static str,
    /// What the PyTorch Profiler's TensorBoard plugin called it.
    pub formerly: Option<&'static str>,
    /// How the names of its views begin. The longest beginning that fits a name decides.
    prefixes: &'static [&'static str],
}

/// All chapters. What other views are made of belongs to none.
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
        prefixes: &["kernel_", "gpu_kernel", "gpu_top_kernels", "gpu_copies", "cupti_"],
    },
    Topic { title: "Memory", formerly: Some("Memory"), prefixes: &["memory_", "snapshot_"] },
    Topic { title: "Ranks and communication", formerly: Some("Distributed"), prefixes: &["comm_"] },
    Topic {
        title: "Machines: processors, memory, disks, networks, GPUs over time",
        formerly: None,
        prefixes: &["system_"],
    },
    Topic {
        title: "Modules and ranges",
        formerly: Some("ViewDef, Lightning"),
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

impl Topic {
    /// Its views, by name.
    pub fn views<'a>(&self, catalog: &'a Catalog) -> Vec<&'a ViewDef> {
        let mut views: Vec<_> = catalog
            .views()
            .iter()
            .filter(|view| Self::of(view).is_some_and(|topic| topic.title == self.title))
            .collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// The chapter of a view; none for the views that others are made of.
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
    use super::{TOPICS, Topic};
    use crate::catalog;

    #[test]
    fn every_view_is_in_the_table_of_contents() {
        for view in catalog().views() {
            let topic = Topic::of(view).map(|topic| topic.title);
            assert_eq!(topic.is_none(), view.topic() == "base", "{}", view.name);
        }
    }

    #[test]
    fn every_beginning_is_that_of_a_view() {
        for prefix in TOPICS.iter().flat_map(|topic| topic.prefixes) {
            let fits = |name: &str| name.starts_with(prefix);
            assert!(catalog().views().iter().any(|m| fits(&m.name)), "{prefix}");
        }
    }
}
