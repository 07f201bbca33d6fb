//! One load run against one server: what is sent, when, and what is counted.
//!
//! A run is a set of threads that share nothing. Each owns an epoll instance, its connections, its
//! random numbers and its histograms, and its loop is: wait, receive once, count the replies
//! without building objects, render the next requests from templates, send. One clock reading per
//! receive serves as the arrival of the replies and the departure of the next requests. At 4 Hz a
//! thread stores its counters where the progress line reads them; everything else is handed over
//! when the thread ends.
//!
//! It does not repeat runs or compare them: that is `experiment`.

pub(crate) mod cluster;
pub mod command;
pub mod control;
pub(crate) mod files;
pub mod keys;
pub mod observe;
pub(crate) mod preload;
pub mod replay;
pub mod scan;
pub mod settings;
pub mod tls;
pub mod values;

mod connection;
mod counters;
mod opening;
mod run;
mod schedule;
mod worker;

pub use counters::{KindResult, SecondResult};
pub use run::{LoadError, Progress, RunResult, Stop, run};
pub use settings::Settings;
