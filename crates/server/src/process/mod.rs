//! The process around the workers: background, supervisor, signals, crashes, descriptors.

pub(crate) mod background;
pub(crate) mod crash;
pub(crate) mod descriptors;
pub(crate) mod signals;
pub(crate) mod supervisor;
