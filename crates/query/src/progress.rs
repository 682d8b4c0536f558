//! Progress of computing views.

use std::fmt;

/// Callbacks for the progress of computing views, called from several threads. Views that become part of other queries
/// are not counted.
pub trait ViewProgress: fmt::Debug + Send + Sync {
    /// This many more views will be computed.
    fn planned(&self, views: usize);
    /// A view was computed.
    fn computed(&self, view: &str);
}
