//! Compiled functions: instructions on registers, after the virtual machine of Lua 5.1.
//!
//! Error texts name variables ("field 'x'") by looking back through the instructions, so their
//! shapes are part of what scripts see.

use std::cell::Cell;
use std::rc::Rc;

use crate::value::{Str, Value};

/// Operations. `R` is a register, `K` a constant, `RK` one of both (constants from `RK` on).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// R(a) = R(b)
    Move,
    /// R(a) = K(b)
    LoadK,
    /// R(a) = bool b; skip the next if c
    LoadBool,
    /// R(a..=b) = nil
    LoadNil,
    GetUpvalue,
    /// R(a) = globals[K(b)]
    GetGlobal,
    /// R(a) = R(b)[RK(c)]
    GetTable,
    SetGlobal,
    SetUpvalue,
    /// R(a)[RK(b)] = RK(c)
    SetTable,
    NewTable,
    /// R(a+1) = R(b); R(a) = R(b)[RK(c)]
    SelfIndex,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Unm,
    Not,
    Len,
    /// R(a) = R(b) .. ... .. R(c)
    Concat,
    Jump,
    /// if (RK(b) == RK(c)) != a then skip
    Eq,
    Lt,
    Le,
    /// if truthy(R(a)) != c then skip
    Test,
    /// if truthy(R(b)) == c then R(a) = R(b) else skip
    TestSet,
    Call,
    TailCall,
    Return,
    ForLoop,
    ForPrep,
    /// R(a+3..) = R(a)(R(a+1), R(a+2)), c results
    TForLoop,
    /// skip if R(a+3) is nil, else R(a+2) = R(a+3)
    TForTest,
    SetList,
    Close,
    Closure,
    Vararg,
}

/// First operand that names a constant.
pub(crate) const RK: u32 = 1 << 20;

/// An instruction. `b` holds a jump's distance as `i32`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ins {
    pub(crate) op: Op,
    pub(crate) a: u8,
    pub(crate) b: u32,
    pub(crate) c: u32,
}

impl Ins {
    pub(crate) fn jump(self) -> i32 {
        self.b as i32
    }
}

/// A local variable and the instructions between which it exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalName {
    pub(crate) name: Str,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Source of an upvalue of a new function: a register of the enclosing one, or an upvalue of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpvalueSource {
    pub(crate) is_local: bool,
    pub(crate) index: u8,
}

/// A compiled function.
#[derive(Debug)]
pub(crate) struct Proto {
    pub(crate) code: Vec<Ins>,
    pub(crate) constants: Vec<Value>,
    pub(crate) protos: Vec<Rc<Proto>>,
    pub(crate) lines: Vec<u32>,
    pub(crate) locals: Vec<LocalName>,
    pub(crate) upvalue_names: Vec<Str>,
    pub(crate) upvalues: Vec<UpvalueSource>,
    /// Name of the chunk as error texts show it.
    pub(crate) chunk: Rc<[u8]>,
    pub(crate) parameter_count: u8,
    pub(crate) is_vararg: bool,
    /// The function has an implicit parameter `arg`.
    pub(crate) needs_arg: bool,
    pub(crate) register_count: u8,
    /// Number of the collection that has counted its bytes.
    pub(crate) counted_by: Cell<u32>,
}

impl Proto {
    fn own_bytes(&self) -> usize {
        size_of::<Proto>()
            + self.code.capacity() * size_of::<Ins>()
            + self.constants.capacity() * size_of::<Value>()
            + self.protos.capacity() * size_of::<Rc<Proto>>()
            + self.lines.capacity() * size_of::<u32>()
            + self.locals.capacity() * size_of::<LocalName>()
            + self.upvalues.capacity() * (size_of::<Str>() + size_of::<UpvalueSource>())
    }

    /// Bytes of it and of the functions within.
    pub(crate) fn bytes(&self) -> usize {
        self.own_bytes() + self.protos.iter().map(|inner| inner.bytes()).sum::<usize>()
    }

    /// As [`Proto::bytes`], without those that the collection of this number has counted already:
    /// any number of functions are made of one.
    pub(crate) fn count(&self, collection: u32) -> usize {
        if self.counted_by.replace(collection) == collection {
            return 0;
        }
        self.own_bytes() + self.protos.iter().map(|inner| inner.count(collection)).sum::<usize>()
    }
}
