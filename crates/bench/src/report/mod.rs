//! Reports of a single run: memtier's text table and JSON.

mod bottleneck;
pub(crate) mod hdr;
mod json;
mod table;

pub use bottleneck::{ServerUsage, littles_law, warnings, write_bottleneck};
pub(crate) use json::json_report;
pub use table::{Row, Table, write_table};
