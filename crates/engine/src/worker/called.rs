//! Commands of requests that a worker has seen lately, recognized by how they begin.

use crate::command::CommandId;

/// Command of a request, by its first argument and the number of those that follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called {
    pub(crate) id: CommandId,
    /// The argument that is its first key, or 0.
    pub(crate) key: u8,
    pub(crate) is_of_collections: bool,
    pub(crate) is_brief_read: bool,
}
