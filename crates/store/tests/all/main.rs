//! Integration tests of the store in one binary, with an allocator that overwrites what is freed
//! and counts by thread: `cargo test -p tidemill-store --test all keyspace_model::` runs those of
//! one module.
//!
//! `flush_beside_readers` has a process of its own, for the reason in its header. Tests here join
//! keyspaces with [`tidemill_store::Keyspace::join_beside`] and pin no version, since the domain
//! and the pins are the process's.
#![allow(unsafe_code)]

#[path = "../allocator/mod.rs"]
mod allocator;
mod tree_common;

mod cuts;
mod keyspace_model;
mod keyspace_stress;
mod relocation;
mod tree_hash;
mod tree_list;
mod tree_readers;
mod tree_set;
mod tree_text;
