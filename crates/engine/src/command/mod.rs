//! Commands: each is one constant that declares it, from which everything else is derived:
//! dispatch, arity errors, execution mode, `COMMAND`, `COMMAND DOCS`, `COMMAND GETKEYS`, queueing
//! in `MULTI`, docs/commands.md and the Go client's table. The constants are in the
//! `declarations.rs` of each family; `builders` says how one reads.

mod arguments;
mod builders;
mod declaration;
mod keys;
#[cfg(test)]
mod manual;
mod names;
pub(crate) mod prelude;
mod table;
#[cfg(test)]
mod tests;
mod touched;
mod write_run;

pub use arguments::{Argument, ArgumentKind};
pub use declaration::{Categories, Command, Flags, Group, KeyFlagsOf, MoreKeys, Scope};
pub use keys::{Find, KeyFlags, KeyPositions, KeySpec, Start};
pub(crate) use table::FIRST_SCRIPT_KEY;
pub use table::{CommandId, CommandTable};
pub use touched::{Channels, DatabasePositions, Databases, KeyAccess, KeyAccesses};
pub use write_run::WriteRunFamily;
