//! Lua 5.1 as scripts of Redis see it: compiler, interpreter and libraries, without a server.
//!
//! The interpreter is our own, in safe Rust: handles are indices, so no script can reach memory
//! that is not its own; error texts, the order of `pairs` and the form of numbers are those of the
//! C implementation; a run is suspended between two instructions. The reasons and figures are in
//! docs/decisions/script-engine.md.
//!
//! It is no server: commands, logs and time belong to a [`Host`]; locks, the cache of scripts and
//! the store of function libraries belong to the engine.

mod compile;
mod heap;
mod host;
mod interpreter;
mod library;
mod limits;
mod number;
mod program;
mod reply;
mod settings;
mod shebang;
mod table;
mod value;
mod vm;

pub use host::{Abort, Host, Interrupt, Protocol};
pub use interpreter::{
    Function, Identity, Interpreter, LoadError, Progress, Run, Script, ScriptError,
};
pub use reply::{Answer, Reply};
pub use shebang::Flags;

/// SHA-1 of a source, by which `EVALSHA` names it.
#[must_use]
pub fn digest(source: &[u8]) -> [u8; 20] {
    sha1_smol::Sha1::from(source).digest().bytes()
}
