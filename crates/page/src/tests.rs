//! Tests of whole pages are in `tests/integration/page`: they need runs.
