//! Values of the language. They are handles into the heap: small, copied, never dereferenced here.

/// A string, interned: two equal strings have one handle. The hash spares a visit of the heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Str {
    pub(crate) index: u32,
    pub(crate) hash: u32,
}

impl PartialEq for Str {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableId(pub(crate) u32);

/// A function with its upvalues, of Lua or of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(pub(crate) u32);

/// A variable that functions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpvalueId(pub(crate) u32);

/// A coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadId(pub(crate) u32);

/// Owner of a stack: a coroutine, or a run with the stack on which it began. The number of a run
/// differs from those of all suspended ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StackOwner {
    Run(u32),
    Coroutine(ThreadId),
}

impl StackOwner {
    pub(crate) fn coroutine(self) -> Option<ThreadId> {
        match self {
            Self::Coroutine(thread) => Some(thread),
            Self::Run(_) => None,
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Nil,
    Bool(bool),
    Number(f64),
    Str(Str),
    Table(TableId),
    Function(FunctionId),
    Thread(ThreadId),
    /// The light userdata that `cjson.null` is.
    Null,
    /// The userdata that `newproxy` makes: an empty table that only its metatable shows.
    Proxy(TableId),
}

impl Value {
    #[inline]
    pub(crate) fn is_truthy(self) -> bool {
        !matches!(self, Self::Nil | Self::Bool(false))
    }

    #[inline]
    pub(crate) fn is_nil(self) -> bool {
        matches!(self, Self::Nil)
    }

    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Str(_) => "string",
            Self::Table(_) => "table",
            Self::Function(_) => "function",
            Self::Thread(_) => "thread",
            Self::Null | Self::Proxy(_) => "userdata",
        }
    }
}
