//! Errors of operations, with the names of variables found as Lua 5.1 finds them: by looking for
//! the instruction that put the value into its register.

use super::{Kind, Stop, Vm};
use crate::program::{Ins, Op, Proto, RK};
use crate::value::{Str, Value};

/// Kind and name of a variable.
type Named = (&'static str, Str);

/// Name of the local variable that is in a register at an instruction.
fn local_at(proto: &Proto, register: usize, pc: usize) -> Option<Str> {
    let is_active = |local: &&crate::program::LocalName| local.start <= pc && pc < local.end;
    proto.locals.iter().filter(is_active).nth(register).map(|local| local.name)
}

fn changes(ins: Ins, register: usize) -> bool {
    let a = usize::from(ins.a);
    match ins.op {
        Op::LoadNil => a <= register && register <= ins.b as usize,
        Op::TForLoop => register >= a + 2,
        Op::Call | Op::TailCall => register >= a,
        Op::SelfIndex => register == a || register == a + 1,
        Op::Vararg => register >= a,
        Op::SetGlobal
        | Op::SetUpvalue
        | Op::SetTable
        | Op::Jump
        | Op::Eq
        | Op::Lt
        | Op::Le
        | Op::Return
        | Op::SetList
        | Op::Close => false,
        _ => register == a,
    }
}

/// Last instruction before `pc` that changed a register, on the straight way to it.
fn setter(proto: &Proto, register: usize, pc: usize) -> Option<Ins> {
    let mut found = None;
    let mut at = 0;
    while at < pc {
        let ins = *proto.code.get(at)?;
        let is_jump = matches!(ins.op, Op::Jump | Op::ForLoop | Op::ForPrep);
        if changes(ins, register) {
            found = Some(ins);
        }
        if is_jump {
            let target = (at as i64 + 1 + i64::from(ins.jump())) as usize;
            if at < target && target <= pc {
                at = target;
                continue;
            }
        }
        at += 1;
    }
    found
}

fn constant_name(proto: &Proto, operand: u32) -> Option<Str> {
    match proto.constants.get(operand.checked_sub(RK)? as usize) {
        Some(Value::Str(name)) => Some(*name),
        _ => None,
    }
}

impl Vm {
    fn name_of(&self, proto: &Proto, register: usize, pc: usize, depth: usize) -> Option<Named> {
        if let Some(name) = local_at(proto, register, pc) {
            return Some(("local", name));
        }
        let ins = setter(proto, register, pc)?;
        let named = |operand| constant_name(proto, operand).unwrap_or(self.names.unknown);
        match ins.op {
            Op::GetGlobal => match proto.constants.get(ins.b as usize) {
                Some(Value::Str(name)) => Some(("global", *name)),
                _ => None,
            },
            Op::Move if ins.b < u32::from(ins.a) && depth < 200 => {
                self.name_of(proto, ins.b as usize, pc, depth + 1)
            }
            Op::GetTable => Some(("field", named(ins.c))),
            Op::GetUpvalue => Some(("upvalue", *proto.upvalue_names.get(ins.b as usize)?)),
            Op::SelfIndex => Some(("method", named(ins.c))),
            _ => None,
        }
    }

    /// Name of what is in a register of the active function.
    fn register_name(&self, register: u32) -> Option<Named> {
        let frame = self.frames.last()?;
        let proto = frame.proto.as_deref()?;
        if register >= RK {
            return None;
        }
        self.name_of(proto, register as usize, frame.pc.saturating_sub(1), 0)
    }

    /// Name under which the active function called the library function that runs.
    fn call_site(&self) -> Option<Named> {
        if !self.has_call_site {
            return None;
        }
        let frame = self.frames.last()?;
        let ins = *frame.proto.as_deref()?.code.get(frame.pc.checked_sub(1)?)?;
        if !matches!(ins.op, Op::Call | Op::TailCall | Op::TForLoop) {
            return None;
        }
        self.register_name(u32::from(ins.a))
    }

    /// True for a frame that is no level of the calls: that of a call by a metamethod, or of a
    /// library function that runs, whose caller is a level already.
    pub(super) fn is_passed_over(&self, index: usize) -> bool {
        match self.frames[index].kind {
            Kind::Native { below_native } => !below_native || index + 1 == self.frames.len(),
            _ => false,
        }
    }

    /// Chunk and line of an active function, as error texts begin; empty for library functions.
    pub(crate) fn position(&self, level: usize) -> Vec<u8> {
        let mut level = level;
        if self.below_native {
            level -= 1;
            if level == 0 {
                return Vec::new();
            }
        }
        for (index, frame) in self.frames.iter().enumerate().rev() {
            if self.is_passed_over(index) {
                continue;
            }
            level -= 1;
            if level == 0 {
                let Some(proto) = &frame.proto else { return Vec::new() };
                let line = proto.lines.get(frame.pc.saturating_sub(1)).copied().unwrap_or(0);
                return [&*proto.chunk, format!(":{line}: ").as_bytes()].concat();
            }
            if level <= frame.tail_calls as usize {
                return Vec::new();
            }
            level -= frame.tail_calls as usize;
            if matches!(frame.kind, Kind::Boundary { below_native: true }) {
                // The library function that called it.
                level -= 1;
                if level == 0 {
                    return Vec::new();
                }
            }
        }
        Vec::new()
    }

    /// Chunk and line of the function that runs, if it is one of the language.
    pub(crate) fn current_line(&self) -> Option<(Vec<u8>, u32)> {
        let frame = self.frames.iter().rev().find(|frame| frame.proto.is_some())?;
        let proto = frame.proto.as_ref()?;
        let line = proto.lines.get(frame.pc.saturating_sub(1)).copied().unwrap_or(0);
        Some((proto.chunk.to_vec(), line))
    }

    pub(crate) fn out_of_memory(&self) -> Stop {
        Stop::Error(Value::Str(self.names.out_of_memory))
    }

    /// An error without a position.
    pub(crate) fn plain_error(&mut self, text: &[u8]) -> Stop {
        match self.string(text) {
            Ok(text) => Stop::Error(text),
            Err(stop) => stop,
        }
    }

    /// An error of a library function: it has the position of the calling function.
    pub(crate) fn fail(&mut self, text: impl AsRef<[u8]>) -> Stop {
        match self.concatenated(&[&self.position(1), text.as_ref()]) {
            Ok(message) => self.plain_error(&message),
            Err(stop) => stop,
        }
    }

    /// An error of an operation: with a position when an instruction makes it.
    pub(crate) fn operation_error(&mut self, text: &[u8]) -> Stop {
        if self.in_native { self.plain_error(text) } else { self.fail(text) }
    }

    /// "attempt to index field 'x' (a nil value)".
    pub(super) fn type_error(&mut self, verb: &str, register: u32, value: Value) -> Stop {
        let kind = value.type_name();
        let named = if self.in_native { None } else { self.register_name(register) };
        let text = match named {
            Some((what, name)) => {
                let name = self.heap.bytes(name);
                let begin = format!("attempt to {verb} {what} '");
                [begin.as_bytes(), name, format!("' (a {kind} value)").as_bytes()].concat()
            }
            None => format!("attempt to {verb} a {kind} value").into_bytes(),
        };
        self.operation_error(&text)
    }

    /// "attempt to compare number with nil".
    pub(super) fn order_error(&mut self, left: Value, right: Value) -> Stop {
        let (left, right) = (left.type_name(), right.type_name());
        // As Lua 5.1, which looks at the third letter only: "two string values" of a thread too.
        let text = if left.as_bytes()[2] == right.as_bytes()[2] {
            format!("attempt to compare two {left} values")
        } else {
            format!("attempt to compare {left} with {right}")
        };
        self.operation_error(text.as_bytes())
    }

    /// "bad argument #1 to 'rep' (...)".
    pub(crate) fn argument_error(&mut self, number: usize, text: &str) -> Stop {
        let mut number = number;
        let named = self.call_site();
        let name = named.map_or(b"?".to_vec(), |(_, name)| self.heap.bytes(name).to_vec());
        if named.is_some_and(|(what, _)| what == "method") {
            number -= 1;
            if number == 0 {
                let end = format!("' on bad self ({text})");
                return self.fail([b"calling '".as_slice(), &name, end.as_bytes()].concat());
            }
        }
        let begin = format!("bad argument #{number} to '");
        self.fail([begin.as_bytes(), &name, format!("' ({text})").as_bytes()].concat())
    }

    /// "bad argument #1 to 'rep' (string expected, got nil)".
    pub(crate) fn expected(&mut self, args: super::Args, index: usize, what: &str) -> Stop {
        let got = if index < args.count { self.arg(args, index).type_name() } else { "no value" };
        self.argument_error(index + 1, &format!("{what} expected, got {got}"))
    }
}
