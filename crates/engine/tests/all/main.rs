//! Integration tests of the engine in one binary: `cargo test -p tidemill-engine --test all
//! waits::` runs those of one module.
//!
//! Three have a process of their own, each for the reason in its header: `complexity`,
//! `long_replies` and `read_path`. To add a module: a file beside this one and a line here. Tests
//! of a module run beside those of others, so a server, a port and a directory belong to one test.

#[path = "../harness/mod.rs"]
mod harness;

mod acl;
mod acl_beside_valkey;
mod acl_matrix;
mod answered;
mod blocked_clients;
mod clients;
mod config_beside_valkey;
mod cursors;
mod eviction;
mod expired_for_all;
mod field_expiry;
mod flushes;
mod geo;
mod hash_random;
mod hashes;
mod hot_keys;
mod hyperloglog;
mod import_mode;
mod journal;
mod journal_numbers;
mod like_valkey;
mod lists_beside_valkey;
mod many_keys;
mod one_change;
mod pauses;
mod plain_sets;
mod pubsub;
mod reads_beside_writes;
mod registrations;
mod restored;
mod save_points;
mod script_attempts;
mod scripts;
mod scripts_beside_valkey;
mod sets;
mod sorted_sets;
mod stored_results;
mod streams;
mod streams_beside_valkey;
mod strings;
mod turns;
mod waits;
mod write_runs;
