//! Reports of a single run: memtier's text table and JSON.

mod hdr;
mod json;
mod table;

pub(crate) use json::json_report;
pub use table::{Row, Table, write_table};
