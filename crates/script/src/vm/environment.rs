//! Globals of functions, which `setfenv` exchanges.
//!
//! A function without globals of its own sees the machine's. What outlives a run keeps the ones
//! that it has: others would be a way from one script to the next.

use super::{Kind, Vm};
use crate::heap::Code;
use crate::value::{FunctionId, TableId, Value};

/// Function at a level of the calls that are active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Function(FunctionId),
    /// A library function.
    Native,
    /// A call that a tail call has taken the place of.
    Lost,
    /// Fewer calls are active.
    Missing,
}

impl Vm {
    /// Table of the globals that a function sees.
    #[cold]
    pub(super) fn environment_of(&self, function: FunctionId) -> TableId {
        self.heap.function(function).environment.unwrap_or(self.globals)
    }

    /// Globals of code that is compiled now.
    pub(crate) fn thread_globals(&self) -> TableId {
        self.run_environment.unwrap_or(self.globals)
    }

    /// The function at a level: 1 is the one that called the library function that runs.
    pub(crate) fn function_at(&self, level: usize) -> Level {
        let mut level = level;
        if self.below_native {
            level -= 1;
            if level == 0 {
                return Level::Native;
            }
        }
        for (index, frame) in self.frames.iter().enumerate().rev() {
            if self.is_passed_over(index) {
                continue;
            }
            level -= 1;
            if level == 0 {
                let is_lua = frame.proto.is_some();
                return match frame.function.filter(|_| is_lua) {
                    Some(function) => Level::Function(function),
                    None => Level::Native,
                };
            }
            if level <= frame.tail_calls as usize {
                return Level::Lost;
            }
            level -= frame.tail_calls as usize;
            if matches!(frame.kind, Kind::Boundary { below_native: true }) {
                level -= 1;
                if level == 0 {
                    return Level::Native;
                }
            }
        }
        Level::Missing
    }

    /// Globals of a function, as `getfenv` shows them.
    pub(crate) fn environment(&self, function: FunctionId) -> TableId {
        match &self.heap.function(function).code {
            Code::Lua(..) => self.environment_of(function),
            Code::Native(..) => self.thread_globals(),
        }
    }

    /// Gives a function other globals; false if it is none of the language, or outlives the run.
    pub(crate) fn set_environment(&mut self, function: FunctionId, table: TableId) -> bool {
        let entry = self.heap.function_mut(function);
        if entry.outlives_runs || matches!(entry.code, Code::Native(..)) {
            return false;
        }
        entry.environment = Some(table);
        self.heap.has_environments = true;
        true
    }

    /// A function of the script that only this run knows.
    pub(crate) fn own_copy(&mut self, function: Value) -> Option<Value> {
        let Value::Function(id) = function else { return None };
        let entry = self.heap.function(id);
        let Code::Lua(proto, upvalues) = &entry.code else { return None };
        let code = Code::Lua(std::rc::Rc::clone(proto), upvalues.clone());
        self.heap.new_function(code).ok().map(Value::Function)
    }
}
