//! Tables, laid out as Lua 5.1 lays them out: an array part and nodes in one vector, chained by
//! Brent's variation. The order of `pairs`, the value of `#` for arrays with holes and the order of
//! members in `cjson.encode` follow from that layout, and scripts see all three.

use crate::heap::Budget;
use crate::limits::{SPARE_TABLE_VALUES_MAX, VALUES_PER_STEP};
use crate::value::{Str, TableId, Value};

/// An entry of the hash part; `next` is the index of the next node in its chain, or `NONE`.
#[derive(Clone, Copy)]
struct Node {
    key: Value,
    value: Value,
    next: u32,
}

const NONE: u32 = u32::MAX;
const EMPTY: Node = Node { key: Value::Nil, value: Value::Nil, next: NONE };
/// Highest power of two of an array part.
const ARRAY_BITS_MAX: usize = 26;

/// The reason for which an entry cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetError {
    Memory,
    NilKey,
    NanKey,
}

/// A table.
#[derive(Default)]
pub(crate) struct Table {
    array: Vec<Value>,
    nodes: Vec<Node>,
    /// All nodes from here on are taken.
    last_free: usize,
    pub(crate) metatable: Option<TableId>,
    pub(crate) is_readonly: bool,
    pub(crate) is_marked: bool,
    /// It was made by a run whose objects are noted.
    pub(crate) is_of_run: bool,
}

#[inline]
fn index_of(number: f64) -> Option<usize> {
    // Of 32 bits, into which a conversion that saturates takes fewer instructions.
    let integer = number as u32;
    if f64::from(integer) == number && integer > 0 { Some(integer as usize) } else { None }
}

impl Table {
    /// The table as a new one with room for some values; none if it has no such room, or much.
    pub(crate) fn emptied(self) -> Option<Self> {
        let mut array = self.array;
        if !(1..=SPARE_TABLE_VALUES_MAX).contains(&array.capacity()) {
            return None;
        }
        array.clear();
        Some(Self { array, ..Self::default() })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.array.len() * size_of::<Value>() + self.nodes.len() * size_of::<Node>()
    }

    /// Places for entries.
    pub(crate) fn size(&self) -> usize {
        self.array.len() + self.nodes.len()
    }

    /// Makes room in a new table, as the table constructor does.
    pub(crate) fn reserve(
        &mut self,
        array: usize,
        hash: usize,
        budget: &mut Budget,
    ) -> Result<(), SetError> {
        if array > 0 || hash > 0 {
            self.resize(array, hash, budget)?;
        }
        Ok(())
    }

    /// Makes room for a list of a known length; nodes stay.
    pub(crate) fn reserve_list(
        &mut self,
        count: usize,
        budget: &mut Budget,
    ) -> Result<(), SetError> {
        if count > self.array.len() {
            self.resize(count, self.nodes.len(), budget)?;
        }
        Ok(())
    }

    fn main_position(&self, key: Value) -> usize {
        let mask = self.nodes.len() - 1;
        match key {
            Value::Str(string) => string.hash as usize & mask,
            Value::Number(number) => {
                if number == 0.0 {
                    return 0;
                }
                let bits = number.to_bits();
                let sum = (bits as u32).wrapping_add((bits >> 32) as u32);
                sum as usize % (mask | 1)
            }
            Value::Bool(flag) => usize::from(flag) & mask,
            Value::Table(TableId(id)) | Value::Proxy(TableId(id)) => (id as usize * 4) % (mask | 1),
            Value::Function(function) => (function.0 as usize * 4 + 1) % (mask | 1),
            Value::Thread(thread) => (thread.0 as usize * 4 + 2) % (mask | 1),
            Value::Nil | Value::Null => 0,
        }
    }

    #[inline]
    fn find(&self, key: Value) -> Option<usize> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut at = self.main_position(key);
        loop {
            let node = &self.nodes[at];
            if node.key == key {
                return Some(at);
            }
            if node.next == NONE {
                return None;
            }
            at = node.next as usize;
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: Value) -> Value {
        match key {
            Value::Number(number) => {
                if let Some(index) = index_of(number)
                    && let Some(value) = self.array.get(index - 1)
                {
                    return *value;
                }
                self.find(key).map_or(Value::Nil, |at| self.nodes[at].value)
            }
            Value::Str(key) => self.get_str(key),
            Value::Nil => Value::Nil,
            _ => self.find(key).map_or(Value::Nil, |at| self.nodes[at].value),
        }
    }

    /// Member with a name: what most instructions ask for.
    #[inline]
    pub(crate) fn get_str(&self, key: Str) -> Value {
        // Zero nodes have no main position.
        let mut at = key.hash as usize & self.nodes.len().wrapping_sub(1);
        while let Some(node) = self.nodes.get(at) {
            if let Value::Str(other) = node.key
                && other.index == key.index
            {
                return node.value;
            }
            at = node.next as usize;
        }
        Value::Nil
    }

    /// Place of a member among the nodes.
    pub(crate) fn place_of(&self, key: Value) -> Option<usize> {
        self.find(key)
    }

    /// Sets the member at a place.
    pub(crate) fn set_at(&mut self, place: usize, value: Value) {
        self.nodes[place].value = value;
    }

    pub(crate) fn get_index(&self, index: usize) -> Value {
        match self.array.get(index.wrapping_sub(1)) {
            Some(value) => *value,
            None => self.get(Value::Number(index as f64)),
        }
    }

    /// Sets an entry; the caller has looked at `is_readonly` and metamethods.
    #[inline]
    pub(crate) fn set(
        &mut self,
        key: Value,
        value: Value,
        budget: &mut Budget,
    ) -> Result<(), SetError> {
        if let Value::Number(number) = key
            && let Some(index) = index_of(number)
            && let Some(slot) = self.array.get_mut(index - 1)
        {
            *slot = value;
            return Ok(());
        }
        if let Some(at) = self.find(key) {
            self.nodes[at].value = value;
            return Ok(());
        }
        match key {
            Value::Nil => return Err(SetError::NilKey),
            Value::Number(number) if number.is_nan() => return Err(SetError::NanKey),
            _ => {}
        }
        self.insert(key, value, budget)
    }

    /// Inserts a key that the table does not hold. Lua makes a node even for a nil value.
    fn insert(&mut self, key: Value, value: Value, budget: &mut Budget) -> Result<(), SetError> {
        if self.nodes.is_empty() {
            self.rehash(key, budget)?;
            return self.set(key, value, budget);
        }
        let main = self.main_position(key);
        if self.nodes[main].value.is_nil() {
            let next = self.nodes[main].next;
            self.nodes[main] = Node { key, value, next };
            return Ok(());
        }
        let Some(free) = self.free_node() else {
            self.rehash(key, budget)?;
            return self.set(key, value, budget);
        };
        let other = self.main_position(self.nodes[main].key);
        if other == main {
            let next = self.nodes[main].next;
            self.nodes[free] = Node { key, value, next };
            self.nodes[main].next = free as u32;
        } else {
            let mut before = other;
            while self.nodes[before].next as usize != main {
                before = self.nodes[before].next as usize;
            }
            self.nodes[before].next = free as u32;
            self.nodes[free] = self.nodes[main];
            self.nodes[main] = Node { key, value, next: NONE };
        }
        Ok(())
    }

    fn free_node(&mut self) -> Option<usize> {
        while self.last_free > 0 {
            self.last_free -= 1;
            if self.nodes[self.last_free].key.is_nil() {
                return Some(self.last_free);
            }
        }
        None
    }

    /// Gives both parts the sizes that fit the keys and one more.
    fn rehash(&mut self, extra: Value, budget: &mut Budget) -> Result<(), SetError> {
        budget.spend((self.array.len() + self.nodes.len()) / VALUES_PER_STEP);
        // counts[n]: keys k with 2^(n-1) < k <= 2^n
        let mut counts = [0_usize; ARRAY_BITS_MAX + 1];
        let mut candidates = 0;
        let mut count_key = |key: Value| {
            if let Value::Number(number) = key
                && let Some(index) = index_of(number)
                && index <= 1 << ARRAY_BITS_MAX
            {
                counts[(usize::BITS - (index - 1).leading_zeros()) as usize] += 1;
                candidates += 1;
            }
        };
        let mut total = 1;
        for (index, value) in self.array.iter().enumerate() {
            if !value.is_nil() {
                count_key(Value::Number((index + 1) as f64));
                total += 1;
            }
        }
        for node in self.nodes.iter().filter(|node| !node.value.is_nil()) {
            count_key(node.key);
            total += 1;
        }
        count_key(extra);
        let (mut below, mut in_array, mut size, mut power) = (0, 0, 0, 1_usize);
        for count in counts {
            if power / 2 >= candidates {
                break;
            }
            below += count;
            if below > power / 2 {
                size = power;
                in_array = below;
            }
            if below == candidates {
                break;
            }
            power *= 2;
        }
        self.resize(size, total - in_array, budget)
    }

    fn resize(&mut self, array: usize, hash: usize, budget: &mut Budget) -> Result<(), SetError> {
        let node_count = if hash == 0 { 0 } else { hash.next_power_of_two() };
        let before = self.bytes();
        let after = array * size_of::<Value>() + node_count * size_of::<Node>();
        if !budget.may_grow(after) {
            return Err(SetError::Memory);
        }
        let mut nodes = Vec::new();
        nodes.try_reserve_exact(node_count).map_err(|_| SetError::Memory)?;
        nodes.resize(node_count, EMPTY);
        if array > self.array.capacity() {
            let additional = array - self.array.len();
            self.array.try_reserve_exact(additional).map_err(|_| SetError::Memory)?;
        }
        let old_nodes = std::mem::replace(&mut self.nodes, nodes);
        self.last_free = node_count;
        let vanishing =
            if array < self.array.len() { self.array.split_off(array) } else { Vec::new() };
        self.array.resize(array, Value::Nil);
        if self.array.capacity() > SPARE_TABLE_VALUES_MAX {
            self.array.shrink_to_fit();
        }
        budget.release(before);
        budget.add(after);
        for (index, value) in vanishing.into_iter().enumerate() {
            if !value.is_nil() {
                self.set(Value::Number((array + index + 1) as f64), value, budget)?;
            }
        }
        for node in old_nodes.into_iter().rev().filter(|node| !node.value.is_nil()) {
            self.set(node.key, node.value, budget)?;
        }
        Ok(())
    }

    /// A border, found as Lua 5.1 finds it.
    pub(crate) fn len(&self) -> usize {
        let size = self.array.len();
        if size > 0 && self.array[size - 1].is_nil() {
            let (mut low, mut high) = (0, size);
            while high - low > 1 {
                let middle = usize::midpoint(low, high);
                if self.array[middle - 1].is_nil() { high = middle } else { low = middle }
            }
            return low;
        }
        if self.nodes.is_empty() {
            return size;
        }
        let (mut low, mut high) = (size, size + 1);
        while !self.get_index(high).is_nil() {
            low = high;
            high *= 2;
            if high > i32::MAX as usize - 2 {
                let mut index = 1;
                while !self.get_index(index).is_nil() {
                    index += 1;
                }
                return index - 1;
            }
        }
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if self.get_index(middle).is_nil() { high = middle } else { low = middle }
        }
        low
    }

    /// Entry behind a key in the order of `pairs`, and the number of empty places before it; the
    /// outer `None` if the key is not known.
    pub(crate) fn next(&self, key: Value) -> Option<(Option<(Value, Value)>, usize)> {
        let start = match key {
            Value::Nil => 0,
            Value::Number(number)
                if index_of(number).is_some_and(|index| index <= self.array.len()) =>
            {
                number as usize
            }
            _ => self.array.len() + self.find(key)? + 1,
        };
        Some(self.entry_from(start))
    }

    /// First entry at a position or behind it, and the number of empty places before that.
    fn entry_from(&self, start: usize) -> (Option<(Value, Value)>, usize) {
        for index in start..self.array.len() {
            if !self.array[index].is_nil() {
                let key = Value::Number((index + 1) as f64);
                return (Some((key, self.array[index])), index - start);
            }
        }
        let passed = self.array.len().saturating_sub(start);
        let first = start.saturating_sub(self.array.len());
        let nodes = self.nodes.get(first..).unwrap_or_default();
        match nodes.iter().position(|node| !node.value.is_nil()) {
            Some(at) => (Some((nodes[at].key, nodes[at].value)), passed + at),
            None => (None, passed + nodes.len()),
        }
    }

    /// All entries in the order of `pairs`.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Value, Value)> + '_ {
        let array = self.array.iter().enumerate();
        let array = array.map(|(index, value)| (Value::Number((index + 1) as f64), *value));
        let nodes = self.nodes.iter().map(|node| (node.key, node.value));
        array.chain(nodes).filter(|(_, value)| !value.is_nil())
    }

    /// All values that a collection must keep. Dead keys are included: `next` may continue at one.
    pub(crate) fn references(&self) -> impl Iterator<Item = Value> + '_ {
        let nodes = self.nodes.iter().flat_map(|node| [node.key, node.value]);
        self.array.iter().copied().chain(nodes)
    }
}
