//! The process around the workers: background, supervisor, signals, crashes, descriptors, the
//! kernel's score of it, syslog.

pub(crate) mod background;
pub(crate) mod crash;
pub(crate) mod descriptors;
pub(crate) mod oom_score;
pub(crate) mod signals;
pub(crate) mod supervisor;
pub(crate) mod syslog;
