//! Facts about a host at one moment: topology, limits, the inspected server, two samples of
//! counters.
//!
//! Files are read on demand through [`Host`], each reading leaving its evidence. Counters count
//! since boot and say nothing alone, so they are read twice, an interval apart; a capture keeps its
//! second sample below `second/`. Facts judge nothing: that is [`crate::rules`].

mod ask;
mod channels;
mod host;
mod listen;
mod processes;
mod sample;
mod server;

pub use ask::{Answers, AskError, Credentials, ask};
pub(crate) use channels::{
    CAPTURED_CHANNELS, captured as captured_channels, channels_interface, channels_path,
    set_channels,
};
pub use channels::{Channels, channels};
pub use host::{Host, HostError, Inspect, Knob, Probe};
pub use listen::{Listening, address_of, listening};
pub(crate) use processes::CAPTURED_PROCESSES;
pub use processes::{process_names, runs, unit_of};
pub use sample::{Growth, Sample};
pub use server::{Kind, Server};
