//! The configuration's files: what [`tidemill_engine::config`] reads through, and what CONFIG REWRITE writes with.

mod disk;

pub use disk::{DiskFiles, replace};
