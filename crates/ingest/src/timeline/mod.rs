//! The timeline of one rank, whatever format it was read from: the columns that its events fill, what is known of its
//! process, and its conversion to tables. Formats that are not JSON fill the columns through a [`builder`].

pub(crate) mod begin_end_event;
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "only formats that are not JSON build timelines, and so far only the format of the tests is one"
    )
)]
pub(crate) mod builder;
pub(crate) mod capabilities;
pub(crate) mod columns;
pub(crate) mod copy_name;
pub(crate) mod graph_marks;
pub(crate) mod kernel_name;
pub(crate) mod metadata;
pub(crate) mod outline;
pub(crate) mod placement;
mod tables;
mod tensor_cores;
mod thin;
pub(crate) mod trace;
