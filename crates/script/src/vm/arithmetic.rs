//! Operations on values: conversions, arithmetic, comparisons, concatenation, indexing.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{Stop, Vm};
use crate::host::Host;
use crate::limits::{JOINED_BYTES_KEPT, NUMBER_BYTES_MAX};
use crate::number;
use crate::program::Op;
use crate::value::{Str, TableId, Value};

/// Metamethods that may follow each other.
const CHAIN_MAX: usize = 100;

impl Vm {
    /// Number that a value is or that its text shows.
    #[inline]
    pub(crate) fn to_number(&self, value: Value) -> Option<f64> {
        match value {
            Value::Number(number) => Some(number),
            Value::Str(text) => {
                let text = self.heap.bytes(text);
                self.heap.spend_bytes(text.len());
                number::parse(text)
            }
            _ => None,
        }
    }

    /// Text of a string or number; `None` for other values.
    pub(crate) fn text_of(&self, value: Value) -> Option<Cow<'_, [u8]>> {
        match value {
            Value::Str(text) => {
                let text = self.heap.bytes(text);
                self.heap.spend_bytes(text.len());
                Some(Cow::Borrowed(text))
            }
            Value::Number(number) => {
                let mut text = Vec::new();
                number::push(&mut text, number);
                Some(Cow::Owned(text))
            }
            _ => None,
        }
    }

    pub(crate) fn metatable(&self, value: Value) -> Option<TableId> {
        match value {
            Value::Table(table) | Value::Proxy(table) => self.heap.table(table).metatable,
            Value::Str(_) => Some(self.string_metatable),
            _ => None,
        }
    }

    pub(crate) fn metamethod(&self, value: Value, name: Str) -> Value {
        match self.metatable(value) {
            Some(table) => self.heap.table(table).get(Value::Str(name)),
            None => Value::Nil,
        }
    }

    /// `value[key]` with metamethods; the register names the value in an error.
    pub(crate) fn index(
        &mut self,
        host: &mut dyn Host,
        value: Value,
        key: Value,
        register: u32,
    ) -> Result<Value, Stop> {
        let mut value = value;
        for _ in 0..CHAIN_MAX {
            let handler = if let Value::Table(table) = value {
                let found = self.heap.table(table).get(key);
                if !found.is_nil() {
                    return Ok(found);
                }
                let handler = self.metamethod(value, self.names.index);
                if handler.is_nil() {
                    return Ok(Value::Nil);
                }
                handler
            } else {
                let handler = self.metamethod(value, self.names.index);
                if handler.is_nil() {
                    return Err(self.type_error("index", register, value));
                }
                handler
            };
            if matches!(handler, Value::Function(_)) {
                return self.call_one(host, handler, &[value, key]);
            }
            value = handler;
        }
        Err(self.operation_error(b"loop in gettable"))
    }

    /// `value[key] = item` with metamethods.
    pub(crate) fn set_index(
        &mut self,
        host: &mut dyn Host,
        value: Value,
        key: Value,
        item: Value,
        register: u32,
    ) -> Result<(), Stop> {
        let mut value = value;
        for _ in 0..CHAIN_MAX {
            let handler = if let Value::Table(table) = value {
                let target = self.heap.table(table);
                let is_plain = target.metatable.is_none() || target.is_readonly;
                // Keys that no table can have are refused before a metamethod is looked for.
                let is_unusable = match key {
                    Value::Nil => true,
                    Value::Number(number) => number.is_nan(),
                    _ => false,
                };
                if is_plain || is_unusable || !target.get(key).is_nil() {
                    return self.raw_set(table, key, item);
                }
                let handler = self.metamethod(value, self.names.newindex);
                if handler.is_nil() {
                    return self.raw_set(table, key, item);
                }
                handler
            } else {
                let handler = self.metamethod(value, self.names.newindex);
                if handler.is_nil() {
                    return Err(self.type_error("index", register, value));
                }
                handler
            };
            if matches!(handler, Value::Function(_)) {
                self.call(host, handler, &[value, key, item])?;
                return Ok(());
            }
            value = handler;
        }
        Err(self.operation_error(b"loop in settable"))
    }

    /// Arithmetic that the instruction itself could not do.
    #[cold]
    pub(super) fn arithmetic(
        &mut self,
        host: &mut dyn Host,
        op: Op,
        left: (Value, u32),
        right: (Value, u32),
    ) -> Result<Value, Stop> {
        if let (Some(a), Some(b)) = (self.to_number(left.0), self.to_number(right.0)) {
            return Ok(Value::Number(number::arithmetic(op, a, b)));
        }
        let name = match op {
            Op::Unm => self.names.unm,
            _ => self.names.arithmetic[op as usize - Op::Add as usize],
        };
        let mut handler = self.metamethod(left.0, name);
        if handler.is_nil() {
            handler = self.metamethod(right.0, name);
        }
        if handler.is_nil() {
            let wrong = if self.to_number(left.0).is_none() { left } else { right };
            return Err(self.type_error("perform arithmetic on", wrong.1, wrong.0));
        }
        self.call_one(host, handler, &[left.0, right.0])
    }

    pub(crate) fn raw_equal(left: Value, right: Value) -> bool {
        left == right
    }

    pub(crate) fn equal(
        &mut self,
        host: &mut dyn Host,
        left: Value,
        right: Value,
    ) -> Result<bool, Stop> {
        if left == right {
            return Ok(true);
        }
        let ((Value::Table(_), Value::Table(_)) | (Value::Proxy(_), Value::Proxy(_))) =
            (left, right)
        else {
            return Ok(false);
        };
        match self.shared_metamethod(left, right, self.names.eq) {
            Some(handler) => Ok(self.call_one(host, handler, &[left, right])?.is_truthy()),
            None => Ok(false),
        }
    }

    /// Metamethod of a comparison: both operands must have the same one.
    fn shared_metamethod(&self, left: Value, right: Value, name: Str) -> Option<Value> {
        let first = self.metamethod(left, name);
        if first.is_nil() {
            return None;
        }
        (first == self.metamethod(right, name)).then_some(first)
    }

    pub(crate) fn less(
        &mut self,
        host: &mut dyn Host,
        left: Value,
        right: Value,
    ) -> Result<bool, Stop> {
        match (left, right) {
            (Value::Number(a), Value::Number(b)) => Ok(a < b),
            (Value::Str(a), Value::Str(b)) => Ok(self.order_texts(a, b) == Ordering::Less),
            _ => match self.order_handler(left, right, self.names.lt) {
                Some(handler) => Ok(self.call_one(host, handler, &[left, right])?.is_truthy()),
                None => Err(self.order_error(left, right)),
            },
        }
    }

    fn order_texts(&self, left: Str, right: Str) -> Ordering {
        let (left, right) = (self.heap.bytes(left), self.heap.bytes(right));
        self.heap.spend_bytes(left.len().min(right.len()));
        left.cmp(right)
    }

    fn order_handler(&self, left: Value, right: Value, name: Str) -> Option<Value> {
        if left.type_name() != right.type_name() {
            return None;
        }
        self.shared_metamethod(left, right, name)
    }

    pub(crate) fn less_equal(
        &mut self,
        host: &mut dyn Host,
        left: Value,
        right: Value,
    ) -> Result<bool, Stop> {
        match (left, right) {
            (Value::Number(a), Value::Number(b)) => Ok(a <= b),
            (Value::Str(a), Value::Str(b)) => Ok(self.order_texts(a, b) != Ordering::Greater),
            _ => {
                if let Some(handler) = self.order_handler(left, right, self.names.le) {
                    return Ok(self.call_one(host, handler, &[left, right])?.is_truthy());
                }
                if let Some(handler) = self.order_handler(right, left, self.names.lt) {
                    return Ok(!self.call_one(host, handler, &[right, left])?.is_truthy());
                }
                Err(self.order_error(left, right))
            }
        }
    }

    /// `..` over registers, from the right, strings and numbers together in one step.
    pub(super) fn concat(
        &mut self,
        host: &mut dyn Host,
        base: usize,
        first: usize,
        last: usize,
    ) -> Result<Value, Stop> {
        let is_text = |value| matches!(value, Value::Str(_) | Value::Number(_));
        let mut right = self.stack[base + last];
        let mut at = last;
        while at > first {
            let left = self.stack[base + at - 1];
            if is_text(left) && is_text(right) {
                let mut start = at - 1;
                while start > first && is_text(self.stack[base + start - 1]) {
                    start -= 1;
                }
                right = self.join(base + start, base + at, right)?;
                at = start;
                continue;
            }
            let mut handler = self.metamethod(left, self.names.concat);
            if handler.is_nil() {
                handler = self.metamethod(right, self.names.concat);
            }
            if handler.is_nil() {
                let (wrong, index) = if is_text(left) { (right, at) } else { (left, at - 1) };
                return Err(self.type_error("concatenate", index as u32, wrong));
            }
            right = self.call_one(host, handler, &[left, right])?;
            at -= 1;
        }
        Ok(right)
    }

    /// Texts of a range of the stack and of one more value.
    fn join(&mut self, from: usize, to: usize, last: Value) -> Result<Value, Stop> {
        let mut length = 0;
        for index in from..=to {
            let value = if index == to { last } else { self.stack[index] };
            length += match value {
                Value::Str(part) => self.heap.bytes(part).len(),
                _ => NUMBER_BYTES_MAX,
            };
        }
        let is_kept = length <= JOINED_BYTES_KEPT;
        let mut text = if is_kept { std::mem::take(&mut self.joined) } else { Vec::new() };
        self.reserve(&mut text, length)?;
        for index in from..=to {
            match if index == to { last } else { self.stack[index] } {
                Value::Str(part) => text.extend_from_slice(self.heap.bytes(part)),
                Value::Number(number) => number::push(&mut text, number),
                _ => {}
            }
        }
        if !is_kept {
            return self.string_of(text);
        }
        let joined = self.string(&text);
        text.clear();
        self.joined = text;
        joined
    }

    /// Text of a number.
    pub(crate) fn text_of_number(&mut self, number: f64) -> Result<Value, Stop> {
        let mut text = std::mem::take(&mut self.joined);
        number::push(&mut text, number);
        let made = self.string(&text);
        text.clear();
        self.joined = text;
        made
    }

    /// Text as `tostring` gives it.
    pub(crate) fn display(&mut self, host: &mut dyn Host, value: Value) -> Result<Value, Stop> {
        let handler = self.metamethod(value, self.names.tostring);
        if !handler.is_nil() {
            return self.call_one(host, handler, &[value]);
        }
        match value {
            Value::Str(_) => Ok(value),
            Value::Nil => self.string(b"nil"),
            Value::Bool(flag) => self.string(if flag { b"true" } else { b"false" }),
            Value::Null => self.string(b"userdata: (nil)"),
            Value::Number(number) => self.text_of_number(number),
            _ => {
                let text = format!("{}: {:#010x}", value.type_name(), Self::address(value));
                self.string(text.as_bytes())
            }
        }
    }
}
