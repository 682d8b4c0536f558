//! What kind of thing a name is.

use std::fmt;

use serde::Serialize;

/// The level of a row: what kind of thing its name is.
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
    /// The device's copy of a range on the host.
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

    /// The name, as views and options write it.
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

    /// Whether it happens on a device.
    pub fn is_device(self) -> bool {
        matches!(self, Self::Kernel | Self::Copy | Self::Fill | Self::Sync | Self::DeviceAnnotation)
    }

    /// Whether a device is busy with it, and nothing else on this list counts the same time again.
    pub fn is_device_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Copy | Self::Fill)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
