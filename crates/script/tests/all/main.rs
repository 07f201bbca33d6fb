//! Integration tests of the script engine.

mod beside_valkey;
mod fuzz;
mod harness;
mod programs;
mod runs;
mod safety;
mod scripts;
