//! Heap of one interpreter: arenas of strings, tables, functions, upvalues and coroutines.
//!
//! Handles are indices, so a wrong one can name a wrong object, but never memory that is not the
//! arena's. Objects that are not reachable are found by marking from the roots and their places are
//! used again. A collection runs only between two instructions, where every live value is in a
//! root; library functions keep what they hold in their arguments or in `Vm::pinned`.

use std::rc::Rc;

use crate::limits::{COLLECT_BYTES_MIN, OBJECT_BYTES};
use crate::program::Proto;
use crate::table::{SetError, Table};
use crate::value::{FunctionId, Str, TableId, ThreadId, UpvalueId, Value};
use crate::vm::ThreadState;

/// Bytes in use and how many may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) used_bytes: usize,
    pub(crate) limit_bytes: usize,
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
}

/// The limit of memory is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

struct StringSlot {
    bytes: Box<[u8]>,
    hash: u32,
    next: u32,
    is_marked: bool,
}

const NONE: u32 = u32::MAX;

/// Interned strings.
struct Strings {
    slots: Vec<Option<StringSlot>>,
    free: Vec<u32>,
    buckets: Vec<u32>,
    count: usize,
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
    is_marked: bool,
}

/// A variable that outlives its function, or a place on a stack while that function is active.
#[derive(Clone, Copy)]
pub(crate) enum Upvalue {
    Open { thread: Option<ThreadId>, at: usize },
    Closed(Value),
}

/// Objects of one kind.
struct Arena<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Arena<T> {
    const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, value: T) -> Result<u32, OutOfMemory> {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(value);
            return Ok(index);
        }
        let index = u32::try_from(self.slots.len()).map_err(|_| OutOfMemory)?;
        self.slots.try_reserve(1).map_err(|_| OutOfMemory)?;
        self.slots.push(Some(value));
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

    /// Removes what `keep` refuses; `keep` also takes the marks away.
    fn sweep(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(value) = slot
                && !keep(value)
            {
                *slot = None;
                self.free.push(index as u32);
            }
        }
    }
}

/// The heap.
pub(crate) struct Heap {
    pub(crate) budget: Budget,
    /// Used bytes at which the next collection begins.
    pub(crate) threshold_bytes: usize,
    strings: Strings,
    tables: Arena<Table>,
    functions: Arena<Function>,
    upvalues: Arena<(Upvalue, bool)>,
    threads: Arena<(ThreadState, bool)>,
    gray: Vec<Value>,
}

impl Heap {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            budget: Budget { used_bytes: 0, limit_bytes },
            threshold_bytes: COLLECT_BYTES_MIN,
            strings: Strings {
                slots: Vec::new(),
                free: Vec::new(),
                buckets: vec![NONE; 1024],
                count: 0,
            },
            tables: Arena::new(),
            functions: Arena::new(),
            upvalues: Arena::new(),
            threads: Arena::new(),
            gray: Vec::new(),
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        if !self.budget.may_grow(bytes) {
            return Err(OutOfMemory);
        }
        self.budget.add(bytes);
        Ok(())
    }

    /// Fails if a buffer of that size would exceed the limit.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), OutOfMemory> {
        if self.budget.may_grow(bytes) { Ok(()) } else { Err(OutOfMemory) }
    }

    pub(crate) fn string(&mut self, bytes: &[u8]) -> Result<Str, OutOfMemory> {
        let hash = hash_bytes(bytes);
        if let Some(found) = self.find_string(bytes, hash) {
            return Ok(found);
        }
        self.charge(bytes.len() + OBJECT_BYTES / 2)?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes.len()).map_err(|_| OutOfMemory)?;
        copy.extend_from_slice(bytes);
        self.intern(copy.into_boxed_slice(), hash)
    }

    pub(crate) fn string_of(&mut self, bytes: Vec<u8>) -> Result<Str, OutOfMemory> {
        let hash = hash_bytes(&bytes);
        if let Some(found) = self.find_string(&bytes, hash) {
            return Ok(found);
        }
        self.charge(bytes.len() + OBJECT_BYTES / 2)?;
        self.intern(bytes.into_boxed_slice(), hash)
    }

    fn find_string(&self, bytes: &[u8], hash: u32) -> Option<Str> {
        let strings = &self.strings;
        let mut at = strings.buckets[hash as usize & (strings.buckets.len() - 1)];
        while at != NONE {
            let slot = strings.slots[at as usize].as_ref()?;
            if slot.hash == hash && *slot.bytes == *bytes {
                return Some(Str { index: at, hash });
            }
            at = slot.next;
        }
        None
    }

    fn intern(&mut self, bytes: Box<[u8]>, hash: u32) -> Result<Str, OutOfMemory> {
        let strings = &mut self.strings;
        if strings.count >= strings.buckets.len() {
            let size = strings.buckets.len() * 2;
            strings.relink(size);
        }
        let bucket = hash as usize & (strings.buckets.len() - 1);
        let next = strings.buckets[bucket];
        let slot = Some(StringSlot { bytes, hash, next, is_marked: false });
        let index = if let Some(index) = strings.free.pop() {
            strings.slots[index as usize] = slot;
            index
        } else {
            let index = u32::try_from(strings.slots.len()).map_err(|_| OutOfMemory)?;
            strings.slots.try_reserve(1).map_err(|_| OutOfMemory)?;
            strings.slots.push(slot);
            index
        };
        strings.buckets[bucket] = index;
        strings.count += 1;
        Ok(Str { index, hash })
    }

    #[inline]
    pub(crate) fn bytes(&self, string: Str) -> &[u8] {
        self.strings.slots[string.index as usize].as_ref().map_or(&[], |slot| &slot.bytes)
    }

    pub(crate) fn new_table(&mut self) -> Result<TableId, OutOfMemory> {
        self.charge(OBJECT_BYTES)?;
        self.tables.insert(Table::new()).map(TableId)
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

    #[inline]
    pub(crate) fn table(&self, id: TableId) -> &Table {
        self.tables.at(id.0)
    }

    #[inline]
    pub(crate) fn table_mut(&mut self, id: TableId) -> &mut Table {
        self.tables.at_mut(id.0)
    }

    #[inline]
    pub(crate) fn set(&mut self, id: TableId, key: Value, value: Value) -> Result<(), SetError> {
        self.tables.at_mut(id.0).set(key, value, &mut self.budget)
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

    pub(crate) fn new_function(&mut self, code: Code) -> Result<FunctionId, OutOfMemory> {
        let held = match &code {
            Code::Lua(_, upvalues) => size_of_val(&**upvalues),
            Code::Native(_, state) => size_of_val(&**state),
        };
        self.charge(OBJECT_BYTES + held)?;
        self.functions.insert(Function { code, is_marked: false }).map(FunctionId)
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

    /// Notes a value as reachable.
    pub(crate) fn mark(&mut self, value: Value) {
        match value {
            Value::Str(string) => {
                if let Some(slot) = &mut self.strings.slots[string.index as usize] {
                    slot.is_marked = true;
                }
            }
            Value::Table(id) => {
                let table = self.tables.at_mut(id.0);
                if !table.is_marked {
                    table.is_marked = true;
                    self.gray.push(value);
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
            Upvalue::Open { thread: Some(thread), .. } => self.mark(Value::Thread(thread)),
            Upvalue::Open { thread: None, .. } => {}
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

    /// Frees what is not reachable from the marked values.
    pub(crate) fn collect(&mut self) {
        self.trace();
        let budget = &mut self.budget;
        let mut used = 0;
        let strings = &mut self.strings;
        for (index, slot) in strings.slots.iter_mut().enumerate() {
            let Some(string) = slot else { continue };
            if string.is_marked {
                string.is_marked = false;
                used += string.bytes.len() + OBJECT_BYTES / 2;
            } else {
                *slot = None;
                strings.free.push(index as u32);
                strings.count -= 1;
            }
        }
        let size = strings.buckets.len();
        strings.relink(size);
        self.tables.sweep(|table| {
            used += if table.is_marked { OBJECT_BYTES + table.bytes() } else { 0 };
            std::mem::take(&mut table.is_marked)
        });
        self.functions.sweep(|function| {
            used += if function.is_marked { OBJECT_BYTES } else { 0 };
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
        budget.used_bytes = used;
        self.threshold_bytes = (used * 2).max(COLLECT_BYTES_MIN).min(used + budget.limit_bytes / 4);
    }
}

impl Strings {
    fn relink(&mut self, size: usize) {
        self.buckets.clear();
        self.buckets.resize(size, NONE);
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(string) = slot {
                let bucket = string.hash as usize & (size - 1);
                string.next = self.buckets[bucket];
                self.buckets[bucket] = index as u32;
            }
        }
    }
}
