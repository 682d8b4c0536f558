//! The levels that names belong to.

use std::fmt;

use serde::Serialize;

/// The level of a row: the kind of event that its name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// An operator on a host thread.
    Operator,
    /// A call into the device's runtime or driver.
    Runtime,
    /// A range on the host: `record_function`, steps, loading, the optimizer.
    Annotation,
    /// A Python function.
    Python,
    /// A call of an `nn.Module`.
    Module,
    /// Anything else with a duration, such as the profiler's overhead.
    Span,
    /// Host time in which nothing was recorded.
    None,
    /// A kernel.
    Kernel,
    /// A copy by a device.
    Copy,
    /// A fill by a device.
    Fill,
    /// A synchronization recorded on a stream.
    Sync,
    /// A range of the host as recorded on the device.
    DeviceAnnotation,
}

impl Level {
    /// All levels, host first.
    pub const ALL: [Self; 12] = [
        Self::Operator,
        Self::Runtime,
        Self::Annotation,
        Self::Python,
        Self::Module,
        Self::Span,
        Self::None,
        Self::Kernel,
        Self::Copy,
        Self::Fill,
        Self::Sync,
        Self::DeviceAnnotation,
    ];

    /// The name in views and options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Runtime => "runtime",
            Self::Annotation => "annotation",
            Self::Python => "python",
            Self::Module => "module",
            Self::Span => "span",
            Self::None => "none",
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Fill => "fill",
            Self::Sync => "sync",
            Self::DeviceAnnotation => "device_annotation",
        }
    }

    /// The level of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }

    /// Whether its events are on a device.
    pub fn is_device(self) -> bool {
        matches!(self, Self::Kernel | Self::Copy | Self::Fill | Self::Sync | Self::DeviceAnnotation)
    }

    /// Whether its events keep a device busy and no other level counts the same time again.
    pub fn is_device_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Copy | Self::Fill)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
