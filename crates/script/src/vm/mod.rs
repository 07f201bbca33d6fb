//! The virtual machine: stacks, frames, calls, errors.
//!
//! A run keeps all its state in frames, none on the stack of the thread, so it can stop between
//! two instructions and go on later. The exception are calls that a library function or a
//! metamethod makes (`Vm::call`): while one is active the run cannot be suspended, only killed.

mod arithmetic;
mod call;
mod coroutine;
mod environment;
mod error;
mod execute;

use std::rc::Rc;

use crate::heap::{Heap, OutOfMemory, Upvalue};
use crate::host::Host;
use crate::limits::{STACK_VALUES_KEPT, STEPS_PER_INTERRUPT};
use crate::program::Proto;
use crate::table::SetError;
use crate::value::{FunctionId, StackOwner, Str, TableId, UpvalueId, Value};

pub(crate) use coroutine::Status;
pub(crate) use environment::Level;

/// The reason for which code does not go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// An error that `pcall` catches.
    Error(Value),
    /// An error that nothing catches.
    Killed(Value),
    /// The host wants to go on later.
    Suspended,
}

/// Arguments of a library function: a range of the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args {
    pub(crate) at: usize,
    pub(crate) count: usize,
}

/// Results of a library function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ret {
    None,
    One(Value),
    /// The values in `Vm::results`.
    Many,
}

pub(crate) type NativeFn = fn(&mut Vm, &mut dyn Host, Args) -> Result<Ret, Stop>;

/// A library function. Those that change frames are part of the machine.
#[derive(Clone, Copy)]
pub(crate) enum Native {
    Plain(NativeFn),
    Pcall,
    Xpcall,
    Resume,
    Wrapped,
    Yield,
}

/// Results that the caller takes: all.
const ALL: i32 = -1;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Lua,
    /// A Lua function that a library function called, or an instruction as a metamethod: the
    /// machine's loop ends with it.
    Boundary {
        below_native: bool,
    },
    /// No function: another one than a Lua function was called so, and what it calls is above.
    Native {
        below_native: bool,
    },
    /// `pcall`, or `xpcall` with its handler.
    Protected(Option<Value>),
    /// `coroutine.resume`, or a wrapped coroutine.
    Resumer {
        is_wrapped: bool,
    },
}

/// An active function.
struct Frame {
    kind: Kind,
    function: Option<FunctionId>,
    proto: Option<Rc<Proto>>,
    /// Place of the function on the stack; its results go there.
    at: usize,
    base: usize,
    pc: usize,
    wanted: i32,
    tail_calls: u32,
}

/// Stack and frames of a coroutine that does not run.
#[derive(Default)]
pub(crate) struct ThreadState {
    stack: Vec<Value>,
    frames: Vec<Frame>,
    open: Vec<(usize, UpvalueId)>,
    status: Status,
}

impl ThreadState {
    pub(crate) fn bytes(&self) -> usize {
        self.stack.capacity() * size_of::<Value>() + self.frames.capacity() * size_of::<Frame>()
    }

    /// Gives the variables on the stack, which ends, places of their own.
    fn close(&self, heap: &mut Heap) {
        for &(at, id) in &self.open {
            heap.set_upvalue(id, Upvalue::Closed(self.stack[at]));
        }
    }

    /// State of a coroutine whose stack is elsewhere, or has ended.
    pub(crate) fn without_stack(status: Status) -> Self {
        Self { status, ..Self::default() }
    }

    pub(crate) fn trace(&self, heap: &mut Heap) {
        for value in &self.stack {
            heap.mark(*value);
        }
        trace_frames(&self.frames, heap);
        for (_, upvalue) in &self.open {
            heap.mark_upvalue(*upvalue);
        }
    }
}

fn trace_frames(frames: &[Frame], heap: &mut Heap) {
    for frame in frames {
        if let Some(function) = frame.function {
            heap.mark(Value::Function(function));
        }
        if let Kind::Protected(Some(handler)) = frame.kind {
            heap.mark(handler);
        }
    }
}

/// Names that the machine looks up.
pub(crate) struct Names {
    pub(crate) index: Str,
    pub(crate) newindex: Str,
    pub(crate) call: Str,
    pub(crate) eq: Str,
    pub(crate) lt: Str,
    pub(crate) le: Str,
    pub(crate) concat: Str,
    pub(crate) unm: Str,
    pub(crate) len: Str,
    pub(crate) arithmetic: [Str; 6],
    pub(crate) tostring: Str,
    pub(crate) metatable: Str,
    pub(crate) n: Str,
    pub(crate) ok: Str,
    pub(crate) err: Str,
    pub(crate) out_of_memory: Str,
    pub(crate) unknown: Str,
    pub(crate) keys: Str,
    pub(crate) arguments: Str,
    /// Names of globals by which a script reaches others that it does not name.
    pub(crate) ways_to_globals: [Str; 4],
}

impl Names {
    fn new(heap: &mut Heap) -> Result<Self, OutOfMemory> {
        Ok(Self {
            index: heap.string(b"__index")?,
            newindex: heap.string(b"__newindex")?,
            call: heap.string(b"__call")?,
            eq: heap.string(b"__eq")?,
            lt: heap.string(b"__lt")?,
            le: heap.string(b"__le")?,
            concat: heap.string(b"__concat")?,
            unm: heap.string(b"__unm")?,
            len: heap.string(b"__len")?,
            arithmetic: [
                heap.string(b"__add")?,
                heap.string(b"__sub")?,
                heap.string(b"__mul")?,
                heap.string(b"__div")?,
                heap.string(b"__mod")?,
                heap.string(b"__pow")?,
            ],
            tostring: heap.string(b"__tostring")?,
            metatable: heap.string(b"__metatable")?,
            n: heap.string(b"n")?,
            ok: heap.string(b"ok")?,
            err: heap.string(b"err")?,
            out_of_memory: heap.string(b"not enough memory")?,
            unknown: heap.string(b"?")?,
            keys: heap.string(b"KEYS")?,
            arguments: heap.string(b"ARGV")?,
            ways_to_globals: [
                heap.string(b"_G")?,
                heap.string(b"load")?,
                heap.string(b"loadstring")?,
                heap.string(b"getfenv")?,
            ],
        })
    }

    fn trace(&self, heap: &mut Heap) {
        let single = [
            self.index,
            self.newindex,
            self.call,
            self.eq,
            self.lt,
            self.le,
            self.concat,
            self.unm,
            self.len,
            self.tostring,
            self.metatable,
            self.n,
            self.ok,
            self.err,
            self.out_of_memory,
            self.unknown,
            self.keys,
            self.arguments,
        ];
        for name in single.into_iter().chain(self.arithmetic).chain(self.ways_to_globals) {
            heap.mark(Value::Str(name));
        }
    }
}

/// The virtual machine.
pub(crate) struct Vm {
    pub(crate) heap: Heap,
    pub(crate) names: Names,
    pub(crate) globals: TableId,
    pub(crate) string_metatable: TableId,
    /// Values that library functions hold across calls.
    pub(crate) pinned: Vec<Value>,
    /// Several results of a library function.
    pub(crate) results: Vec<Value>,
    pub(crate) settings: crate::settings::Settings,
    /// An empty buffer, in which short texts are joined.
    joined: Vec<u8>,
    stack: Vec<Value>,
    /// End of the values that an open call, return or list takes.
    top: usize,
    frames: Vec<Frame>,
    open: Vec<(usize, UpvalueId)>,
    current: StackOwner,
    parents: Vec<(StackOwner, ThreadState)>,
    /// Number of the next run as the owner of a stack.
    run: u32,
    nested: usize,
    /// Steps within library functions since the last question to the host.
    native_steps: usize,
    /// The host has wanted to suspend the run while that could not be.
    is_overdue: bool,
    /// Used bytes, the stack's left out, when the run began.
    bytes_before: usize,
    /// End of the arguments of the library function that runs.
    native_end: usize,
    /// A library function runs: errors of operations have no line.
    in_native: bool,
    /// The library function was called by an instruction, which has its name.
    has_call_site: bool,
    /// It was called by another library function.
    below_native: bool,
    /// Runs that wait, with the number of each.
    pub(crate) parked: Vec<(u64, Parked)>,
    /// Compiled scripts, by number.
    pub(crate) scripts: TableId,
    /// The library's `next`.
    pub(crate) next_function: FunctionId,
    /// Globals of code that the run compiles from now on, if `setfenv` has chosen some.
    pub(crate) run_environment: Option<TableId>,
    /// Functions that Valkey has withdrawn may be called: `getfenv`, `setfenv`, `newproxy`.
    pub(crate) has_withdrawn: bool,
    /// Chunk and line of the last error that nothing caught.
    pub(crate) error_place: Option<(Vec<u8>, u32)>,
}

/// A run that was taken out of a machine.
pub(crate) struct Parked {
    state: ThreadState,
    top: usize,
    current: StackOwner,
    parents: Vec<(StackOwner, ThreadState)>,
    run_environment: Option<TableId>,
    kept: Vec<Value>,
}

impl Parked {
    /// Keeps values while the run waits.
    pub(crate) fn keep(&mut self, values: &[Value]) {
        self.kept.extend_from_slice(values);
    }
}

impl Vm {
    pub(crate) fn new(limit_bytes: usize) -> Result<Self, OutOfMemory> {
        let mut heap = Heap::new(limit_bytes);
        let names = Names::new(&mut heap)?;
        let globals = heap.new_table()?;
        let string_metatable = heap.new_table()?;
        let scripts = heap.new_table()?;
        let stack = Vec::with_capacity(STACK_VALUES_KEPT);
        heap.budget.add(stack.capacity() * size_of::<Value>());
        Ok(Self {
            heap,
            names,
            globals,
            string_metatable,
            pinned: Vec::new(),
            results: Vec::new(),
            settings: crate::settings::Settings::default(),
            joined: Vec::new(),
            stack,
            top: 0,
            frames: Vec::new(),
            open: Vec::new(),
            current: StackOwner::Run(0),
            parents: Vec::new(),
            run: 0,
            nested: 0,
            native_steps: 0,
            is_overdue: false,
            bytes_before: 0,
            native_end: 0,
            in_native: false,
            has_call_site: false,
            below_native: false,
            parked: Vec::new(),
            scripts,
            next_function: FunctionId(u32::MAX),
            run_environment: None,
            has_withdrawn: false,
            error_place: None,
        })
    }

    /// Takes the run out, so that another one can begin. That has another number: variables on the
    /// stack of this one are not looked for on its stack.
    pub(crate) fn park(&mut self) -> Parked {
        self.run = self.run.wrapping_add(1);
        Parked {
            state: ThreadState {
                stack: std::mem::take(&mut self.stack),
                frames: std::mem::take(&mut self.frames),
                open: std::mem::take(&mut self.open),
                status: Status::Normal,
            },
            top: std::mem::take(&mut self.top),
            current: std::mem::replace(&mut self.current, StackOwner::Run(self.run)),
            parents: std::mem::take(&mut self.parents),
            run_environment: self.run_environment.take(),
            kept: Vec::new(),
        }
    }

    pub(crate) fn unpark(&mut self, parked: Parked) {
        self.stack = parked.state.stack;
        self.frames = parked.state.frames;
        self.open = parked.state.open;
        self.top = parked.top;
        self.current = parked.current;
        self.parents = parked.parents;
        self.run_environment = parked.run_environment;
    }

    /// Ends whatever runs.
    pub(crate) fn reset(&mut self) {
        self.close_run();
        self.frames.clear();
        self.pinned.clear();
        self.results.clear();
        self.run_environment = None;
        self.top = 0;
        self.nested = 0;
        self.native_end = 0;
        self.in_native = false;
        self.below_native = false;
        // The next run fills with nil what it takes.
        self.stack.clear();
        self.results.shrink_to(STACK_VALUES_KEPT);
        if self.stack.capacity().max(self.frames.capacity()) > STACK_VALUES_KEPT {
            self.stack.shrink_to(STACK_VALUES_KEPT);
            self.frames.shrink_to(STACK_VALUES_KEPT);
        }
        self.heap.budget.steps_left.set(STEPS_PER_INTERRUPT);
        self.is_overdue = false;
    }

    /// Closes the variables on the stacks of the run, which functions of a library may go on to
    /// use, and ends its active coroutines.
    fn close_run(&mut self) {
        self.close_upvalues(0);
        let owner = std::mem::replace(&mut self.current, StackOwner::Run(self.run));
        self.heap.end_thread(owner);
        while let Some((owner, state)) = self.parents.pop() {
            state.close(&mut self.heap);
            self.heap.end_thread(owner);
        }
    }

    /// Ends a run that was taken out.
    pub(crate) fn drop_parked(&mut self, parked: Parked) {
        let mut stacks = parked.parents;
        stacks.push((parked.current, parked.state));
        for (owner, state) in stacks {
            state.close(&mut self.heap);
            self.heap.end_thread(owner);
        }
    }

    /// Begins a run that leaves nothing behind, if it ends without having been suspended: nothing
    /// that it can change outlives it.
    pub(crate) fn begin_run(&mut self) {
        self.heap.begin_run();
        self.bytes_before = self.heap.budget.used_bytes.saturating_sub(self.stack_bytes());
    }

    /// Ends whatever runs, and frees what a run since [`Vm::begin_run`] has made.
    pub(crate) fn end_run(&mut self) {
        self.reset();
        if self.heap.end_run() {
            self.heap.budget.used_bytes = self.bytes_before + self.stack_bytes();
        }
    }

    fn stack_bytes(&self) -> usize {
        self.stack.capacity() * size_of::<Value>()
    }

    /// Frees what the roots of the machine do not reach.
    pub(crate) fn collect(&mut self) {
        let end = self.live_end();
        let stack_bytes = self.stack_bytes() + self.frames.capacity() * size_of::<Frame>();
        let heap = &mut self.heap;
        self.names.trace(heap);
        heap.mark(Value::Table(self.globals));
        heap.mark(Value::Table(self.string_metatable));
        heap.mark(Value::Table(self.scripts));
        for value in &self.stack[..end.min(self.stack.len())] {
            heap.mark(*value);
        }
        for value in self.pinned.iter().chain(&self.results) {
            heap.mark(*value);
        }
        for registration in &self.settings.server.registrations {
            registration.values().for_each(|value| heap.mark(value));
        }
        let environments = self.parked.iter().map(|(_, parked)| parked.run_environment);
        for table in environments.chain([self.run_environment]).flatten() {
            heap.mark(Value::Table(table));
        }
        trace_frames(&self.frames, heap);
        for (_, upvalue) in &self.open {
            heap.mark_upvalue(*upvalue);
        }
        let states = self.parents.iter().map(|parent| (&parent.0, &parent.1));
        let mut roots: Vec<&ThreadState> = Vec::new();
        let mut owners: Vec<StackOwner> = vec![self.current];
        for (owner, state) in states {
            owners.push(*owner);
            roots.push(state);
        }
        for (_, parked) in &self.parked {
            roots.push(&parked.state);
            owners.push(parked.current);
            for value in &parked.kept {
                heap.mark(*value);
            }
            for (owner, state) in &parked.parents {
                owners.push(*owner);
                roots.push(state);
            }
        }
        for state in roots {
            state.trace(heap);
        }
        for thread in owners.into_iter().filter_map(StackOwner::coroutine) {
            heap.mark(Value::Thread(thread));
        }
        heap.collect(stack_bytes);
        // Registers beyond the live ones may hold handles of what was freed.
        for value in &mut self.stack[end..] {
            *value = Value::Nil;
        }
    }

    fn live_end(&self) -> usize {
        let registers = self.frames.last().map_or(0, |frame| {
            frame.base + frame.proto.as_ref().map_or(2, |proto| proto.register_count.into())
        });
        registers.max(self.top).max(self.native_end).min(self.stack.len())
    }

    /// A number of a kind of object, as `tostring` shows instead of an address.
    pub(crate) fn address(value: Value) -> usize {
        let index = match value {
            Value::Table(TableId(index)) => 3 * index as usize,
            Value::Function(function) => 3 * function.0 as usize + 1,
            Value::Thread(thread) => 3 * thread.0 as usize + 2,
            Value::Proxy(TableId(index)) => 3 * index as usize,
            _ => return 0,
        };
        0x5500_0000 + index * 16
    }

    #[inline]
    pub(crate) fn arg(&self, args: Args, index: usize) -> Value {
        if index < args.count { self.stack[args.at + index] } else { Value::Nil }
    }

    pub(crate) fn string(&mut self, bytes: &[u8]) -> Result<Value, Stop> {
        match self.heap.string(bytes) {
            Ok(string) => Ok(Value::Str(string)),
            Err(_) => Err(self.out_of_memory()),
        }
    }

    pub(crate) fn string_of(&mut self, bytes: Vec<u8>) -> Result<Value, Stop> {
        match self.heap.string_of(bytes) {
            Ok(string) => Ok(Value::Str(string)),
            Err(_) => Err(self.out_of_memory()),
        }
    }

    pub(crate) fn table(&mut self, array: usize, hash: usize) -> Result<TableId, Stop> {
        self.heap.sized_table(array, hash).map_err(|_| self.out_of_memory())
    }

    /// Sets an entry without metamethods.
    pub(crate) fn raw_set(&mut self, table: TableId, key: Value, value: Value) -> Result<(), Stop> {
        if self.heap.table(table).is_readonly {
            return Err(self.operation_error(b"Attempt to modify a readonly table"));
        }
        match self.heap.set(table, key, value) {
            Ok(()) => Ok(()),
            Err(SetError::Memory) => Err(self.out_of_memory()),
            Err(SetError::NilKey) => Err(self.operation_error(b"table index is nil")),
            Err(SetError::NanKey) => Err(self.operation_error(b"table index is NaN")),
        }
    }

    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), Stop> {
        self.heap.check_room(bytes).map_err(|_| self.out_of_memory())
    }

    /// Makes room in a buffer for `more` bytes.
    pub(crate) fn reserve(&self, buffer: &mut Vec<u8>, more: usize) -> Result<(), Stop> {
        self.heap.reserve(buffer, more).map_err(|_| self.out_of_memory())
    }

    /// An empty buffer with room for `bytes` bytes.
    pub(crate) fn buffer(&self, bytes: usize) -> Result<Vec<u8>, Stop> {
        let mut buffer = Vec::new();
        self.reserve(&mut buffer, bytes)?;
        Ok(buffer)
    }

    /// A copy of bytes.
    pub(crate) fn copied(&self, bytes: &[u8]) -> Result<Vec<u8>, Stop> {
        self.concatenated(&[bytes])
    }

    /// Several pieces as one.
    pub(crate) fn concatenated(&self, pieces: &[&[u8]]) -> Result<Vec<u8>, Stop> {
        let mut whole = self.buffer(pieces.iter().map(|piece| piece.len()).sum())?;
        pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
        Ok(whole)
    }

    /// Stack as library functions may rearrange it: arguments only.
    pub(crate) fn args_slice(&self, args: Args) -> &[Value] {
        &self.stack[args.at..args.at + args.count]
    }
}
