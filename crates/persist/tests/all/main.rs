//! Integration tests of persistence in one binary.
#![allow(unsafe_code)]

mod loads;
mod saves;
mod server;
