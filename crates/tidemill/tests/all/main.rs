//! Integration tests of the binary `tidemill`, themselves in one binary: `cargo test -p tidemill
//! --test all load::` runs those of one module. Each starts the processes that it looks at.

mod common;

mod commit;
mod doctor;
mod load;
mod output;
mod redis_rs;
mod tune_ab;
