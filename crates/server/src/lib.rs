//! The server: workers, event loop and configuration around the engine.

pub mod cli;
