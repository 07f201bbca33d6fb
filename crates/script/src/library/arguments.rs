//! Arguments of library functions, converted and refused as Lua's auxiliary library does.

use crate::value::{Str, TableId, Value};
use crate::vm::{Args, Stop, Vm};

/// Conversion of a number to an integer as C does it on x86-64.
#[inline]
pub(super) fn integer_of(number: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Conversion of a number to an unsigned integer as C does it on x86-64.
pub(super) fn unsigned_of(number: f64) -> u64 {
    if number < 9_223_372_036_854_775_808.0 {
        integer_of(number) as u64
    } else if number < 18_446_744_073_709_551_616.0 {
        number as u64
    } else if number.is_nan() {
        1 << 63
    } else {
        0
    }
}

impl Vm {
    pub(super) fn has(&self, args: Args, index: usize) -> bool {
        !self.arg(args, index).is_nil()
    }

    pub(super) fn check_any(&mut self, args: Args, index: usize) -> Result<Value, Stop> {
        if index >= args.count {
            return Err(self.argument_error(index + 1, "value expected"));
        }
        Ok(self.arg(args, index))
    }

    pub(super) fn check_table(&mut self, args: Args, index: usize) -> Result<TableId, Stop> {
        match self.arg(args, index) {
            Value::Table(table) => Ok(table),
            _ => Err(self.expected(args, index, "table")),
        }
    }

    pub(super) fn check_function(&mut self, args: Args, index: usize) -> Result<Value, Stop> {
        match self.arg(args, index) {
            function @ Value::Function(_) => Ok(function),
            _ => Err(self.expected(args, index, "function")),
        }
    }

    pub(super) fn check_number(&mut self, args: Args, index: usize) -> Result<f64, Stop> {
        match self.to_number(self.arg(args, index)) {
            Some(number) => Ok(number),
            None => Err(self.expected(args, index, "number")),
        }
    }

    pub(super) fn check_integer(&mut self, args: Args, index: usize) -> Result<i64, Stop> {
        self.check_number(args, index).map(integer_of)
    }

    pub(super) fn integer_or(
        &mut self,
        args: Args,
        index: usize,
        default: i64,
    ) -> Result<i64, Stop> {
        if self.has(args, index) { self.check_integer(args, index) } else { Ok(default) }
    }

    pub(super) fn check_str(&mut self, args: Args, index: usize) -> Result<Str, Stop> {
        match self.arg(args, index) {
            Value::Str(text) => Ok(text),
            Value::Number(number) => {
                let mut text = Vec::new();
                crate::number::push(&mut text, number);
                self.heap.string_of(text).map_err(|_| self.out_of_memory())
            }
            _ => Err(self.expected(args, index, "string")),
        }
    }

    pub(super) fn check_text(&mut self, args: Args, index: usize) -> Result<Vec<u8>, Stop> {
        let text = self.check_str(args, index)?;
        let length = self.heap.bytes(text).len();
        self.heap.spend_bytes(length);
        self.copied(self.heap.bytes(text))
    }
}
