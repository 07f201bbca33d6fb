//! State of one server that all workers share.
//!
//! May touch: slots, telemetry, configuration. Knows neither workers nor sessions.

mod client_eviction;
pub mod clients;
mod defrag;
mod empty_file;
pub(crate) mod error_counts;
mod host;
mod lazy_free;
mod live_config;
pub(crate) mod loading;
pub(crate) mod memory_limit;
pub mod monitor;
mod pause;
mod rewrites;
mod signalled_end;
mod snapshots;
mod state;
pub mod tracking;
mod write_refusal;

pub use defrag::DefragEffort;
pub use empty_file::EmptyFile;
pub use host::{
    AllocatorMemory, AppendOnlyFacts, DiskFault, Host, LogPosition, ProcessorTime, log_level,
};
pub use lazy_free::PendingFrees;
pub use loading::{Loading, LoadingFigures};
pub use memory_limit::MemoryLimit;
pub use pause::PauseMode;
pub use rewrites::{RewriteFigures, Rewrites};
pub use signalled_end::SignalledEnd;
pub use snapshots::{AlreadySaving, SnapshotFigures, Snapshots};
pub use state::{Shared, SharedSpec};
pub use tidemill_store::Block;
