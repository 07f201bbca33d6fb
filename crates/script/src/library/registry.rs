//! Functions and constants put into the tables of libraries.

use crate::heap::{Code, OutOfMemory};
use crate::value::{FunctionId, TableId, Value};
use crate::vm::{Native, NativeFn, Vm};

/// Names and functions of a library.
pub(super) type Functions = &'static [(&'static str, NativeFn)];

pub(super) fn native(
    vm: &mut Vm,
    native: Native,
    state: &[Value],
) -> Result<FunctionId, OutOfMemory> {
    vm.heap.new_function(Code::Native(native, state.into()))
}

pub(super) fn register(
    vm: &mut Vm,
    table: TableId,
    functions: Functions,
) -> Result<(), OutOfMemory> {
    for (name, function) in functions {
        let id = native(vm, Native::Plain(*function), &[])?;
        vm.heap.set_name(table, name.as_bytes(), Value::Function(id))?;
    }
    Ok(())
}

pub(super) fn library(
    vm: &mut Vm,
    name: &str,
    functions: Functions,
) -> Result<TableId, OutOfMemory> {
    let table = vm.heap.new_table()?;
    register(vm, table, functions)?;
    vm.heap.set_name(vm.globals, name.as_bytes(), Value::Table(table))?;
    Ok(table)
}

pub(super) fn set_text(
    vm: &mut Vm,
    table: TableId,
    name: &str,
    text: &str,
) -> Result<(), OutOfMemory> {
    let text = Value::Str(vm.heap.string(text.as_bytes())?);
    vm.heap.set_name(table, name.as_bytes(), text)
}

pub(super) fn set_number(
    vm: &mut Vm,
    table: TableId,
    name: &str,
    number: f64,
) -> Result<(), OutOfMemory> {
    vm.heap.set_name(table, name.as_bytes(), Value::Number(number))
}
