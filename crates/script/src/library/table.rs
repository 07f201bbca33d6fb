//! `table`.

use super::registry::{Functions, library};
use crate::heap::OutOfMemory;
use crate::host::Host;
use crate::limits::{BYTES_PER_STEP, VALUES_PER_STEP};
use crate::value::{TableId, Value};
use crate::vm::{Args, Ret, Stop, Vm};

const FUNCTIONS: Functions = &[
    ("concat", concat),
    ("foreach", foreach),
    ("foreachi", foreachi),
    ("getn", getn),
    ("insert", insert),
    ("maxn", maxn),
    ("remove", remove),
    ("setn", setn),
    ("sort", sort),
];

pub(super) fn open(vm: &mut Vm) -> Result<(), OutOfMemory> {
    library(vm, "table", FUNCTIONS).map(|_| ())
}

fn get(vm: &Vm, table: TableId, index: i64) -> Value {
    vm.heap.table(table).get(Value::Number(index as f64))
}

fn set(vm: &mut Vm, table: TableId, index: i64, value: Value) -> Result<(), Stop> {
    vm.raw_set(table, Value::Number(index as f64), value)
}

fn concat(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let separator = if vm.has(args, 1) { Some(vm.check_str(args, 1)?) } else { None };
    let table = vm.check_table(args, 0)?;
    let first = i64::from(vm.integer_or(args, 2, 1)? as i32);
    let length = vm.heap.table(table).len() as i64;
    let last = i64::from(vm.integer_or(args, 3, length)? as i32);
    let mut out = Vec::new();
    for index in first..=last {
        vm.work(host, 1)?;
        let value = get(vm, table, index);
        let Some(text) = vm.text_of(value) else {
            let kind = value.type_name();
            let text = format!("invalid value ({kind}) at index {index} in table for 'concat'");
            return Err(vm.fail(text));
        };
        let separator = separator.filter(|_| index < last);
        let separator = separator.map_or(&[][..], |separator| vm.heap.bytes(separator));
        vm.reserve(&mut out, text.len() + separator.len())?;
        out.extend_from_slice(&text);
        out.extend_from_slice(separator);
    }
    vm.string_of(out).map(Ret::One)
}

fn foreach(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let function = vm.check_function(args, 1)?;
    let mut key = Value::Nil;
    loop {
        let Some(entry) = vm.heap.next(table, key) else {
            return Err(vm.operation_error(b"invalid key to 'next'"));
        };
        let Some((next, value)) = entry else { return Ok(Ret::None) };
        vm.work(host, 1)?;
        // The function may take the key out of the table.
        let result = vm.holding(&[next], |vm| vm.call_one(host, function, &[next, value]))?;
        if !result.is_nil() {
            return Ok(Ret::One(result));
        }
        key = next;
    }
}

fn foreachi(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let length = vm.heap.table(table).len() as i64;
    let function = vm.check_function(args, 1)?;
    for index in 1..=length {
        vm.work(host, 1)?;
        let value = get(vm, table, index);
        let result = vm.call_one(host, function, &[Value::Number(index as f64), value])?;
        if !result.is_nil() {
            return Ok(Ret::One(result));
        }
    }
    Ok(Ret::None)
}

fn getn(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    Ok(Ret::One(Value::Number(vm.heap.table(table).len() as f64)))
}

fn maxn(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    vm.heap.spend(vm.heap.table(table).size() / VALUES_PER_STEP);
    let number = |key| if let Value::Number(number) = key { number } else { 0.0 };
    let keys = vm.heap.table(table).entries().map(|(key, _)| number(key));
    Ok(Ret::One(Value::Number(keys.fold(0.0, |most, key| if key > most { key } else { most }))))
}

fn setn(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    vm.check_table(args, 0)?;
    Err(vm.fail("'setn' is obsolete"))
}

fn insert(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let end = vm.heap.table(table).len() as i64 + 1;
    let position = match args.count {
        2 => end,
        3 => i64::from(vm.check_integer(args, 1)? as i32),
        _ => return Err(vm.fail("wrong number of arguments to 'insert'")),
    };
    let mut index = end.max(position);
    while index > position {
        vm.work(host, 1)?;
        let value = get(vm, table, index - 1);
        set(vm, table, index, value)?;
        index -= 1;
    }
    set(vm, table, position, vm.arg(args, args.count - 1))?;
    Ok(Ret::None)
}

fn remove(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let length = vm.heap.table(table).len() as i64;
    let position = i64::from(vm.integer_or(args, 1, length)? as i32);
    if !(1..=length).contains(&position) {
        return Ok(Ret::None);
    }
    let removed = get(vm, table, position);
    for index in position..length {
        vm.work(host, 1)?;
        let value = get(vm, table, index + 1);
        set(vm, table, index, value)?;
    }
    set(vm, table, length, Value::Nil)?;
    Ok(Ret::One(removed))
}

fn sort(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let length = vm.heap.table(table).len() as i64;
    let comparator = if vm.has(args, 1) { Some(vm.check_function(args, 1)?) } else { None };
    Sorter { table, comparator }.sort(vm, host, 1, length)?;
    Ok(Ret::None)
}

/// Quicksort with the pivots of Lua 5.1: elements that compare as equal end in the same order.
struct Sorter {
    table: TableId,
    comparator: Option<Value>,
}

impl Sorter {
    fn less(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        left: Value,
        right: Value,
    ) -> Result<bool, Stop> {
        let steps = match (left, right) {
            (Value::Str(left), Value::Str(_)) => vm.heap.bytes(left).len() / BYTES_PER_STEP,
            _ => 0,
        };
        vm.work(host, 1 + steps)?;
        match self.comparator {
            Some(function) => Ok(vm.call_one(host, function, &[left, right])?.is_truthy()),
            None => vm.less(host, left, right),
        }
    }

    fn exchange(&self, vm: &mut Vm, i: i64, j: i64) -> Result<(), Stop> {
        let (a, b) = (get(vm, self.table, i), get(vm, self.table, j));
        set(vm, self.table, i, b)?;
        set(vm, self.table, j, a)
    }

    /// Exchanges two elements if the second is less than the first. The comparator may take both
    /// out of the table.
    fn order(&mut self, vm: &mut Vm, host: &mut dyn Host, i: i64, j: i64) -> Result<bool, Stop> {
        let (a, b) = (get(vm, self.table, i), get(vm, self.table, j));
        let is_less = vm.holding(&[a, b], |vm| self.less(vm, host, b, a))?;
        if is_less {
            set(vm, self.table, i, b)?;
            set(vm, self.table, j, a)?;
        }
        Ok(is_less)
    }

    fn sort(&mut self, vm: &mut Vm, host: &mut dyn Host, low: i64, high: i64) -> Result<(), Stop> {
        let (mut low, mut high) = (low, high);
        while low < high {
            self.order(vm, host, low, high)?;
            if high - low == 1 {
                break;
            }
            let middle = i64::midpoint(low, high);
            if !self.order(vm, host, low, middle)? {
                self.order(vm, host, middle, high)?;
            }
            if high - low == 2 {
                break;
            }
            let pivot = get(vm, self.table, middle);
            self.exchange(vm, middle, high - 1)?;
            let split = vm.holding(&[pivot], |vm| self.partition(vm, host, low, high, pivot))?;
            self.exchange(vm, high - 1, split)?;
            // The smaller part is sorted by recursion, so its depth is bounded.
            let (first, last) = if split - low < high - split {
                let part = (low, split - 1);
                low = split + 1;
                part
            } else {
                let part = (split + 1, high);
                high = split - 1;
                part
            };
            self.sort(vm, host, first, last)?;
        }
        Ok(())
    }

    fn partition(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        low: i64,
        high: i64,
        pivot: Value,
    ) -> Result<i64, Stop> {
        let (mut i, mut j) = (low, high - 1);
        loop {
            loop {
                i += 1;
                if !self.less(vm, host, get(vm, self.table, i), pivot)? {
                    break;
                }
                if i > high {
                    return Err(vm.fail("invalid order function for sorting"));
                }
            }
            loop {
                j -= 1;
                if !self.less(vm, host, pivot, get(vm, self.table, j))? {
                    break;
                }
                if j < low {
                    return Err(vm.fail("invalid order function for sorting"));
                }
            }
            if j < i {
                return Ok(i);
            }
            self.exchange(vm, i, j)?;
        }
    }
}
