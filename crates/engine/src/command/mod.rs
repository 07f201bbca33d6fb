//! What a command is: one constant that declares it, from which everything else is derived: dispatch, arity errors,
//! execution mode, `COMMAND`, `COMMAND DOCS`, `COMMAND GETKEYS`, queueing in `MULTI`, and `docs/commands.md`.

mod arguments;
mod declaration;
mod keys;
mod table;

pub use arguments::{Argument, ArgumentKind};
pub use declaration::{
    Categories, Command, Flags, Group, Handler, KeyFlagsOf, MoreKeys, Outcome, Stop,
};
pub use keys::{Find, KeyFlags, KeyPositions, KeySpec, Start};
pub use table::{CommandId, CommandTable};
