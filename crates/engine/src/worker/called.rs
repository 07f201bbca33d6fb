//! Commands of requests that a worker has seen lately, recognized by how they begin.

use crate::command::{CommandId, WriteRunFamily};

/// Way in which a request may be executed, where that is not by itself and after every question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// None of these.
    Full,
    /// A small and complete request of a brief reading command.
    BriefRead,
    /// A brief read that is a `GET`.
    Get,
    /// A small and complete request of a brief command that writes to its keys and does not block.
    BriefWrite,
    /// A brief write that is a `SET` without options.
    Set,
    /// A brief write that may be part of a write run.
    WriteRun(WriteRunFamily),
}

impl Course {
    /// True of the requests of brief reading commands.
    #[inline]
    pub(crate) fn is_brief_read(self) -> bool {
        matches!(self, Course::BriefRead | Course::Get)
    }

    /// True of the requests of brief writing commands.
    #[inline]
    pub(crate) fn is_brief_write(self) -> bool {
        matches!(self, Course::BriefWrite | Course::Set | Course::WriteRun(_))
    }
}

/// Command of a request, by its first argument and the number of those that follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called {
    pub(crate) id: CommandId,
    /// The argument that is its first key, or 0.
    pub(crate) key: u8,
    pub(crate) is_of_collections: bool,
    pub(crate) course: Course,
}
