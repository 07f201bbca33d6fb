//! Integration tests of the script engine.

mod beside_valkey;
mod bounds;
mod callbacks;
mod constructors;
mod fuzz;
mod harness;
mod language;
mod memory;
mod programs;
mod runs;
mod safety;
mod scripts;
mod tokens;
mod variables;
mod withdrawn;
