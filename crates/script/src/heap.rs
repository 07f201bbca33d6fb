//! Heap of one interpreter: arenas of strings, tables, functions, upvalues and coroutines.
//!
//! Handles are indices, so a wrong one can name a wrong object, but never memory that is not the
//! arena's. Objects that are not reachable are found by marking from the roots and their places are
//! used again. A collection runs only between two instructions, where every live value is in a
//! root; library functions keep what they hold in their arguments or in `Vm::pinned`.
//!
//! A run of a script leaves nothing behind, because all that outlives it is read-only. So what it
//! makes is noted, and freed at its end without looking at anything else: see [`Heap::begin_run`].
//! A collection is for runs that make much, for those that were suspended, and for libraries, whose
//! variables live on.

use std::cell::Cell;
use std::rc::Rc;

use crate::limits::{
    ASKED_BYTES_MIN, BYTES_PER_STEP, COLLECT_BYTES_MIN, FREE_PLACES_KEPT, NOTED_OBJECTS_KEPT,
    OBJECT_BYTES, SPARE_STRING_BYTES_MAX, SPARE_STRINGS_MAX, SPARE_TABLES_MAX, STEPS_PER_INTERRUPT,
    VALUES_PER_STEP,
};
use crate::program::Proto;
use crate::table::{SetError, Table};
use crate::value::{FunctionId, StackOwner, Str, TableId, ThreadId, UpvalueId, Value};
use crate::vm::{Status, ThreadState};

/// Bytes in use and how many may be; steps of the run until the host is asked.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) used_bytes: usize,
    pub(crate) limit_bytes: usize,
    pub(crate) steps_left: Cell<u32>,
}

impl Budget {
    pub(crate) fn may_grow(&self, bytes: usize) -> bool {
        self.used_bytes.saturating_add(bytes) <= self.limit_bytes
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        self.used_bytes += bytes;
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }

    /// Counts work that takes as long as a number of steps: the next step of the run asks the host
    /// if that was much. Without it, steps on large values would follow each other for minutes.
    #[inline]
    pub(crate) fn spend(&self, steps: usize) {
        if steps > 0 {
            let left = self.steps_left.get() as usize;
            self.steps_left.set(left.saturating_sub(steps).max(1) as u32);
        }
    }
}

/// The limit of memory is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

struct StringSlot {
    bytes: Vec<u8>,
    hash: u32,
    next: u32,
    is_marked: bool,
}

const NONE: u32 = u32::MAX;

/// Lists of strings with the same end of their hash, at least.
const BUCKETS_MIN: usize = 1024;

/// Interned strings.
struct Strings {
    arena: Arena<StringSlot>,
    buckets: Vec<u32>,
    /// Empty buffers of short strings of runs that have ended.
    spare: Vec<Vec<u8>>,
}

fn murmur_block(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

/// MurmurHash3 of 32 bits with the length as its seed: the order of `pairs` in Valkey 9.1.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u32 {
    let length = bytes.len() as u32;
    let mut hash = length;
    let (blocks, tail) = bytes.as_chunks::<4>();
    for block in blocks {
        hash ^= murmur_block(u32::from_le_bytes(*block));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let mut last = [0; 4];
    last[..tail.len()].copy_from_slice(tail);
    hash ^= murmur_block(u32::from_le_bytes(last));
    hash ^= length;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Code of a function.
pub(crate) enum Code {
    /// A function of the language with its upvalues.
    Lua(Rc<Proto>, Box<[UpvalueId]>),
    /// A function of a library with its state.
    Native(crate::vm::Native, Box<[Value]>),
}

pub(crate) struct Function {
    pub(crate) code: Code,
    /// Its globals, if `setfenv` has given it others than the machine's, or its maker had some.
    pub(crate) environment: Option<TableId>,
    /// Runs do not change it: it is there for the next ones, too.
    pub(crate) outlives_runs: bool,
    is_marked: bool,
}

impl Function {
    /// Bytes of it, and of its code if the collection of this number has not counted that.
    fn bytes(&self, collection: u32) -> usize {
        let held = match &self.code {
            Code::Lua(proto, upvalues) => proto.count(collection) + size_of_val(&**upvalues),
            Code::Native(_, state) => size_of_val(&**state),
        };
        OBJECT_BYTES + held
    }
}

/// A variable that outlives its function, or a place on a stack while that function is active. None
/// is open on the stack of a run that has ended.
#[derive(Clone, Copy)]
pub(crate) enum Upvalue {
    Open { owner: StackOwner, at: usize },
    Closed(Value),
}

/// Objects of one kind.
struct Arena<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    /// Objects that the present run has made, if they are noted.
    made: Vec<u32>,
    is_noting: bool,
}

impl<T> Arena<T> {
    const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), made: Vec::new(), is_noting: false }
    }

    fn insert(&mut self, value: T) -> Result<u32, OutOfMemory> {
        if self.is_noting {
            self.made.try_reserve(1).map_err(|_| OutOfMemory)?;
        }
        let index = if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(value);
            index
        } else {
            let index = u32::try_from(self.slots.len()).map_err(|_| OutOfMemory)?;
            self.slots.try_reserve(1).map_err(|_| OutOfMemory)?;
            self.slots.push(Some(value));
            index
        };
        if self.is_noting {
            self.made.push(index);
        }
        Ok(index)
    }

    #[inline]
    fn at(&self, index: u32) -> &T {
        self.slots[index as usize].as_ref().expect("a handle names a live object")
    }

    #[inline]
    fn at_mut(&mut self, index: u32) -> &mut T {
        self.slots[index as usize].as_mut().expect("a handle names a live object")
    }

    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn begin_noting(&mut self) {
        debug_assert!(self.made.is_empty(), "a run has ended before the next one begins");
        self.is_noting = true;
    }

    fn end_noting(&mut self) {
        self.is_noting = false;
        self.made.clear();
        if self.made.capacity() > NOTED_OBJECTS_KEPT {
            self.made.shrink_to(NOTED_OBJECTS_KEPT);
        }
    }

    /// Frees what was noted.
    fn free_noted(&mut self) {
        // From the last to the first, so that the next run finds the places in the same order.
        for &index in self.made.iter().rev() {
            self.slots[index as usize] = None;
            self.free.push(index);
        }
        self.end_noting();
    }

    /// Removes what `keep` refuses; `keep` also takes the marks away. Places are then used from the
    /// lowest one on, and those behind the last object are given back, so that a run that made much
    /// does not lengthen all later sweeps.
    fn sweep(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        self.free.clear();
        let mut end = 0;
        for (index, slot) in self.slots.iter_mut().enumerate().rev() {
            if slot.as_mut().is_some_and(&mut keep) {
                end = end.max(index + 1);
                continue;
            }
            *slot = None;
            if end > 0 {
                self.free.push(index as u32);
            }
        }
        self.slots.truncate(end);
        if self.slots.capacity() > 4 * end + FREE_PLACES_KEPT {
            self.slots.shrink_to(2 * end + FREE_PLACES_KEPT / 2);
            self.free.shrink_to(self.slots.len());
        }
    }
}

/// The heap.
pub(crate) struct Heap {
    pub(crate) budget: Budget,
    /// Used bytes at which the next collection begins.
    pub(crate) threshold_bytes: usize,
    /// Number of collections.
    collections: u32,
    /// There may be functions with globals of their own.
    pub(crate) has_environments: bool,
    strings: Strings,
    tables: Arena<Table>,
    /// Empty tables, with room for some values, of runs that have ended.
    spare_tables: Vec<Table>,
    functions: Arena<Function>,
    upvalues: Arena<(Upvalue, bool)>,
    threads: Arena<(ThreadState, bool)>,
    gray: Vec<Value>,
}

impl Heap {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            budget: Budget {
                used_bytes: 0,
                limit_bytes,
                steps_left: Cell::new(STEPS_PER_INTERRUPT),
            },
            threshold_bytes: COLLECT_BYTES_MIN,
            collections: 0,
            has_environments: false,
            strings: Strings {
                arena: Arena::new(),
                buckets: vec![NONE; BUCKETS_MIN],
                spare: Vec::new(),
            },
            tables: Arena::new(),
            spare_tables: Vec::new(),
            functions: Arena::new(),
            upvalues: Arena::new(),
            threads: Arena::new(),
            gray: Vec::new(),
        }
    }

    /// As [`Budget::spend`].
    #[inline]
    pub(crate) fn spend(&self, steps: usize) {
        self.budget.spend(steps);
    }

    /// Counts work on a number of bytes.
    #[inline]
    pub(crate) fn spend_bytes(&self, bytes: usize) {
        if bytes >= BYTES_PER_STEP {
            self.spend(bytes / BYTES_PER_STEP);
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        if !self.budget.may_grow(bytes) {
            return Err(OutOfMemory);
        }
        self.budget.add(bytes);
        Ok(())
    }

    /// Fails if that many bytes would exceed the limit, or if they are many and the system has no
    /// such block: what is made next, in pieces, could not fail by itself.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), OutOfMemory> {
        if bytes < ASKED_BYTES_MIN {
            return if self.budget.may_grow(bytes) { Ok(()) } else { Err(OutOfMemory) };
        }
        let mut block = Vec::new();
        let is_there = self.reserve(&mut block, bytes);
        // Without this the compiler may leave the allocation out, and take it for successful.
        std::hint::black_box(&block);
        is_there
    }

    /// Makes room in a buffer for `more` bytes, within the limit of a buffer's size.
    pub(crate) fn reserve(&self, buffer: &mut Vec<u8>, more: usize) -> Result<(), OutOfMemory> {
        if !self.budget.may_grow(buffer.len().saturating_add(more)) {
            return Err(OutOfMemory);
        }
        // A buffer that grows gets twice its size, as long as that can be had.
        buffer
            .try_reserve(more)
            .or_else(|_| buffer.try_reserve_exact(more))
            .map_err(|_| OutOfMemory)
    }

    pub(crate) fn string(&mut self, bytes: &[u8]) -> Result<Str, OutOfMemory> {
        self.spend_bytes(bytes.len());
        let hash = hash_bytes(bytes);
        if let Some(found) = self.find_string(bytes, hash) {
            return Ok(found);
        }
        self.charge(bytes.len() + OBJECT_BYTES / 2)?;
        let mut copy = self.strings.spare.pop().unwrap_or_default();
        if copy.capacity() < bytes.len() {
            copy.try_reserve_exact(bytes.len()).map_err(|_| OutOfMemory)?;
        }
        copy.extend_from_slice(bytes);
        self.intern(copy, hash)
    }

    pub(crate) fn string_of(&mut self, mut bytes: Vec<u8>) -> Result<Str, OutOfMemory> {
        self.spend_bytes(bytes.len());
        let hash = hash_bytes(&bytes);
        if let Some(found) = self.find_string(&bytes, hash) {
            return Ok(found);
        }
        self.charge(bytes.len() + OBJECT_BYTES / 2)?;
        // Room that is not charged.
        bytes.shrink_to_fit();
        self.intern(bytes, hash)
    }

    fn find_string(&self, bytes: &[u8], hash: u32) -> Option<Str> {
        let strings = &self.strings;
        let mut at = strings.buckets[hash as usize & (strings.buckets.len() - 1)];
        while at != NONE {
            let slot = strings.arena.at(at);
            if slot.hash == hash && *slot.bytes == *bytes {
                return Some(Str { index: at, hash });
            }
            at = slot.next;
        }
        None
    }

    fn intern(&mut self, bytes: Vec<u8>, hash: u32) -> Result<Str, OutOfMemory> {
        let strings = &mut self.strings;
        if strings.arena.len() >= strings.buckets.len() {
            let size = strings.buckets.len() * 2;
            strings.relink(size);
        }
        let bucket = hash as usize & (strings.buckets.len() - 1);
        let next = strings.buckets[bucket];
        let index = strings.arena.insert(StringSlot { bytes, hash, next, is_marked: false })?;
        strings.buckets[bucket] = index;
        Ok(Str { index, hash })
    }

    #[inline]
    pub(crate) fn bytes(&self, string: Str) -> &[u8] {
        self.strings.arena.slots[string.index as usize].as_ref().map_or(&[], |slot| &slot.bytes)
    }

    pub(crate) fn new_table(&mut self) -> Result<TableId, OutOfMemory> {
        self.charge(OBJECT_BYTES)?;
        let mut table = self.spare_tables.pop().unwrap_or_default();
        table.is_of_run = self.tables.is_noting;
        self.tables.insert(table).map(TableId)
    }

    /// Tables that are older than the present run outlive it, so none of them may name what the run
    /// makes.
    #[inline]
    fn assert_is_of_run(&self, id: TableId) {
        debug_assert!(
            !self.tables.is_noting || self.tables.at(id.0).is_of_run,
            "a run changes a table that outlives it"
        );
    }

    pub(crate) fn sized_table(
        &mut self,
        array: usize,
        hash: usize,
    ) -> Result<TableId, OutOfMemory> {
        let id = self.new_table()?;
        let Self { tables, budget, .. } = self;
        tables.at_mut(id.0).reserve(array, hash, budget).map_err(|_| OutOfMemory)?;
        Ok(id)
    }

    /// Makes room for a list of a known length, as a constructor does behind its last one.
    pub(crate) fn reserve_list(&mut self, id: TableId, count: usize) -> Result<(), OutOfMemory> {
        self.assert_is_of_run(id);
        let Self { tables, budget, .. } = self;
        tables.at_mut(id.0).reserve_list(count, budget).map_err(|_| OutOfMemory)
    }

    #[inline]
    pub(crate) fn table(&self, id: TableId) -> &Table {
        self.tables.at(id.0)
    }

    #[inline]
    pub(crate) fn table_mut(&mut self, id: TableId) -> &mut Table {
        self.assert_is_of_run(id);
        self.tables.at_mut(id.0)
    }

    /// Entry behind a key in the order of `pairs`; the outer `None` if the key is not known.
    #[expect(clippy::option_option, reason = "an unknown key is not the end")]
    pub(crate) fn next(&self, id: TableId, key: Value) -> Option<Option<(Value, Value)>> {
        let (entry, passed) = self.table(id).next(key)?;
        self.spend(passed / VALUES_PER_STEP);
        Some(entry)
    }

    #[inline]
    pub(crate) fn set(&mut self, id: TableId, key: Value, value: Value) -> Result<(), SetError> {
        self.assert_is_of_run(id);
        self.tables.at_mut(id.0).set(key, value, &mut self.budget)
    }

    /// Sets an entry of a table that is not read-only and has no metatable. It does nothing and
    /// gives false if it cannot, whatever the reason.
    #[inline]
    pub(crate) fn set_plain(&mut self, id: TableId, key: Value, value: Value) -> bool {
        let is_noting = self.tables.is_noting;
        let table = self.tables.at_mut(id.0);
        if table.metatable.is_some() || table.is_readonly {
            return false;
        }
        debug_assert!(!is_noting || table.is_of_run, "a run changes a table that outlives it");
        table.set(key, value, &mut self.budget).is_ok()
    }

    /// Place of a member of a table, which stays the same while no member is added.
    pub(crate) fn place_of(&self, id: TableId, key: Value) -> Option<usize> {
        self.tables.at(id.0).place_of(key)
    }

    /// Changes the member at a place of a table that outlives the run. The caller takes the value
    /// out again before the run ends.
    pub(crate) fn lend(&mut self, id: TableId, place: usize, value: Value) {
        self.tables.at_mut(id.0).set_at(place, value);
    }

    /// Sets a member with a name; names are never nil or NaN.
    pub(crate) fn set_name(
        &mut self,
        id: TableId,
        name: &[u8],
        value: Value,
    ) -> Result<(), OutOfMemory> {
        let key = Value::Str(self.string(name)?);
        self.set(id, key, value).map_err(|_| OutOfMemory)
    }

    pub(crate) fn set_index(
        &mut self,
        id: TableId,
        index: usize,
        value: Value,
    ) -> Result<(), OutOfMemory> {
        self.set(id, Value::Number(index as f64), value).map_err(|_| OutOfMemory)
    }

    /// Member with a name, without metamethods.
    pub(crate) fn name(&self, id: TableId, name: &[u8]) -> Value {
        match self.find_string(name, hash_bytes(name)) {
            Some(key) => self.table(id).get(Value::Str(key)),
            None => Value::Nil,
        }
    }

    /// A function with the machine's globals.
    pub(crate) fn new_function(&mut self, code: Code) -> Result<FunctionId, OutOfMemory> {
        self.new_function_in(code, None)
    }

    pub(crate) fn new_function_in(
        &mut self,
        code: Code,
        environment: Option<TableId>,
    ) -> Result<FunctionId, OutOfMemory> {
        let held = match &code {
            Code::Lua(_, upvalues) => size_of_val(&**upvalues),
            Code::Native(_, state) => size_of_val(&**state),
        };
        self.charge(OBJECT_BYTES + held)?;
        let function = Function { code, environment, outlives_runs: false, is_marked: false };
        self.functions.insert(function).map(FunctionId)
    }

    #[inline]
    pub(crate) fn function(&self, id: FunctionId) -> &Function {
        self.functions.at(id.0)
    }

    pub(crate) fn function_mut(&mut self, id: FunctionId) -> &mut Function {
        self.functions.at_mut(id.0)
    }

    pub(crate) fn new_upvalue(&mut self, upvalue: Upvalue) -> Result<UpvalueId, OutOfMemory> {
        self.charge(OBJECT_BYTES / 2)?;
        self.upvalues.insert((upvalue, false)).map(UpvalueId)
    }

    #[inline]
    pub(crate) fn upvalue(&self, id: UpvalueId) -> Upvalue {
        self.upvalues.at(id.0).0
    }

    pub(crate) fn set_upvalue(&mut self, id: UpvalueId, upvalue: Upvalue) {
        self.upvalues.at_mut(id.0).0 = upvalue;
    }

    pub(crate) fn new_thread(&mut self, state: ThreadState) -> Result<ThreadId, OutOfMemory> {
        self.charge(OBJECT_BYTES * 8)?;
        self.threads.insert((state, false)).map(ThreadId)
    }

    pub(crate) fn thread(&self, id: ThreadId) -> &ThreadState {
        &self.threads.at(id.0).0
    }

    pub(crate) fn thread_mut(&mut self, id: ThreadId) -> &mut ThreadState {
        &mut self.threads.at_mut(id.0).0
    }

    /// Ends the coroutine that owns a stack, if one does.
    pub(crate) fn end_thread(&mut self, owner: StackOwner) {
        if let StackOwner::Coroutine(thread) = owner {
            *self.thread_mut(thread) = ThreadState::without_stack(Status::Dead);
        }
    }

    /// Notes a value as reachable.
    pub(crate) fn mark(&mut self, value: Value) {
        match value {
            Value::Str(string) => {
                if let Some(slot) = &mut self.strings.arena.slots[string.index as usize] {
                    slot.is_marked = true;
                }
            }
            Value::Table(id) | Value::Proxy(id) => {
                let table = self.tables.at_mut(id.0);
                if !table.is_marked {
                    table.is_marked = true;
                    self.gray.push(Value::Table(id));
                }
            }
            Value::Function(id) => {
                let function = self.functions.at_mut(id.0);
                if !function.is_marked {
                    function.is_marked = true;
                    self.gray.push(value);
                }
            }
            Value::Thread(id) => {
                let thread = self.threads.at_mut(id.0);
                if !thread.1 {
                    thread.1 = true;
                    self.gray.push(value);
                }
            }
            Value::Nil | Value::Bool(_) | Value::Number(_) | Value::Null => {}
        }
    }

    pub(crate) fn mark_upvalue(&mut self, id: UpvalueId) {
        let slot = self.upvalues.at_mut(id.0);
        if slot.1 {
            return;
        }
        slot.1 = true;
        match slot.0 {
            Upvalue::Closed(value) => self.mark(value),
            // The coroutine must live, since its stack holds the value.
            Upvalue::Open { owner: StackOwner::Coroutine(thread), .. } => {
                self.mark(Value::Thread(thread));
            }
            Upvalue::Open { owner: StackOwner::Run(_), .. } => {}
        }
    }

    /// Marks the strings that a function's code names, those of the functions within it, and the
    /// names of variables, which errors tell.
    pub(crate) fn mark_proto(&mut self, proto: &Proto) {
        for constant in &proto.constants {
            self.mark(*constant);
        }
        let locals = proto.locals.iter().map(|local| local.name);
        for name in locals.chain(proto.upvalue_names.iter().copied()) {
            self.mark(Value::Str(name));
        }
        for inner in &proto.protos {
            self.mark_proto(inner);
        }
    }

    /// Follows everything that is marked.
    fn trace(&mut self) {
        let mut found: Vec<Value> = Vec::new();
        while let Some(value) = self.gray.pop() {
            match value {
                Value::Table(id) => {
                    let table = self.tables.at(id.0);
                    found.extend(table.references());
                    found.extend(table.metatable.map(Value::Table));
                }
                Value::Function(id) => match &self.functions.at(id.0).code {
                    Code::Lua(proto, upvalues) => {
                        let environment = self.functions.at(id.0).environment;
                        found.extend(environment.map(Value::Table));
                        let (proto, upvalues) = (Rc::clone(proto), upvalues.clone());
                        self.mark_proto(&proto);
                        for upvalue in upvalues {
                            self.mark_upvalue(upvalue);
                        }
                    }
                    Code::Native(_, state) => found.extend(state.iter().copied()),
                },
                Value::Thread(id) => {
                    let state = std::mem::take(&mut self.threads.at_mut(id.0).0);
                    state.trace(self);
                    self.threads.at_mut(id.0).0 = state;
                }
                _ => {}
            }
            for value in found.drain(..) {
                self.mark(value);
            }
        }
    }

    /// Begins a run whose objects nothing else will name: [`Heap::end_run`] frees all that is made
    /// from now on.
    pub(crate) fn begin_run(&mut self) {
        self.strings.arena.begin_noting();
        self.tables.begin_noting();
        self.functions.begin_noting();
        self.upvalues.begin_noting();
        self.threads.begin_noting();
    }

    /// Frees what the run has made, if it is noted, and tells whether it was.
    pub(crate) fn end_run(&mut self) -> bool {
        if !self.tables.is_noting {
            return false;
        }
        self.strings.free_noted();
        self.free_noted_tables();
        self.functions.free_noted();
        self.upvalues.free_noted();
        self.threads.free_noted();
        true
    }

    /// As [`Arena::free_noted`]; some tables are kept empty for the next runs.
    fn free_noted_tables(&mut self) {
        let Self { tables, spare_tables, .. } = self;
        for &index in tables.made.iter().rev() {
            let freed = tables.slots[index as usize].take();
            tables.free.push(index);
            if spare_tables.len() < SPARE_TABLES_MAX
                && let Some(emptied) = freed.and_then(Table::emptied)
            {
                spare_tables.push(emptied);
            }
        }
        tables.end_noting();
    }

    /// Leaves what the run makes to collections.
    pub(crate) fn keep_run(&mut self) {
        self.strings.arena.end_noting();
        self.tables.end_noting();
        self.functions.end_noting();
        self.upvalues.end_noting();
        self.threads.end_noting();
    }

    /// Frees what is not reachable from the marked values. The bytes of stacks count as used, too.
    pub(crate) fn collect(&mut self, stack_bytes: usize) {
        // Places that a sweep frees are used again, so the notes do not name the run's objects any
        // more.
        self.keep_run();
        self.trace();
        let mut used = stack_bytes;
        self.strings.arena.sweep(|string| {
            used += if string.is_marked { string.bytes.len() + OBJECT_BYTES / 2 } else { 0 };
            std::mem::take(&mut string.is_marked)
        });
        let size = self.strings.arena.len().next_power_of_two().max(BUCKETS_MIN);
        self.strings.relink(size);
        self.tables.sweep(|table| {
            used += if table.is_marked { OBJECT_BYTES + table.bytes() } else { 0 };
            std::mem::take(&mut table.is_marked)
        });
        self.collections = self.collections.wrapping_add(1);
        let number = self.collections;
        self.functions.sweep(|function| {
            used += if function.is_marked { function.bytes(number) } else { 0 };
            std::mem::take(&mut function.is_marked)
        });
        self.upvalues.sweep(|upvalue| {
            used += if upvalue.1 { OBJECT_BYTES / 2 } else { 0 };
            std::mem::take(&mut upvalue.1)
        });
        self.threads.sweep(|thread| {
            used += if thread.1 { OBJECT_BYTES * 8 + thread.0.bytes() } else { 0 };
            std::mem::take(&mut thread.1)
        });
        self.budget.used_bytes = used;
        // A sweep visits all places: as many objects are made before the next one.
        let swept_bytes = self.place_count() * (OBJECT_BYTES / 2);
        let threshold_bytes = (used * 2).max(used + swept_bytes).max(COLLECT_BYTES_MIN);
        // Near the limit, half of what is left: garbage must not be what exceeds it.
        let limit_bytes = self.budget.limit_bytes;
        let half_of_rest = limit_bytes.saturating_sub(used) / 2;
        let most_bytes = half_of_rest.max(COLLECT_BYTES_MIN).min(limit_bytes / 4);
        self.threshold_bytes = threshold_bytes.min(used + most_bytes);
    }

    pub(crate) fn place_count(&self) -> usize {
        self.strings.arena.slots.len()
            + self.tables.slots.len()
            + self.functions.slots.len()
            + self.upvalues.slots.len()
            + self.threads.slots.len()
    }
}

impl Strings {
    /// As [`Arena::free_noted`]; some buffers are kept for the next runs.
    fn free_noted(&mut self) {
        let Strings { arena, buckets, spare } = self;
        let made = std::mem::take(&mut arena.made);
        for &index in made.iter().rev() {
            let Some(string) = arena.slots[index as usize].take() else { continue };
            arena.free.push(index);
            let bucket = string.hash as usize & (buckets.len() - 1);
            if buckets[bucket] == index {
                buckets[bucket] = string.next;
            } else {
                let mut at = buckets[bucket];
                while arena.at(at).next != index {
                    at = arena.at(at).next;
                }
                arena.at_mut(at).next = string.next;
            }
            let mut bytes = string.bytes;
            if spare.len() < SPARE_STRINGS_MAX && bytes.capacity() <= SPARE_STRING_BYTES_MAX {
                bytes.clear();
                spare.push(bytes);
            }
        }
        arena.made = made;
        arena.end_noting();
    }

    fn relink(&mut self, size: usize) {
        self.buckets.clear();
        self.buckets.resize(size, NONE);
        self.buckets.shrink_to(2 * size);
        for (index, slot) in self.arena.slots.iter_mut().enumerate() {
            if let Some(string) = slot {
                let bucket = string.hash as usize & (size - 1);
                string.next = self.buckets[bucket];
                self.buckets[bucket] = index as u32;
            }
        }
    }
}
