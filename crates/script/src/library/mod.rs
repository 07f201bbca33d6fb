//! Libraries. Every function checks its arguments, and the limit of memory before it builds
//! something whose size the script chooses.
//!
//! To add a function: a row in the `FUNCTIONS` of its library.

mod arguments;
mod base;
mod bit;
mod cjson;
mod cjson_read;
mod cmsgpack;
mod coroutine;
mod format;
mod math;
mod pattern;
mod server;
mod string;
mod structs;
mod table;

use crate::heap::{Code, OutOfMemory};
use crate::value::{FunctionId, TableId, Value};
use crate::vm::{Native, NativeFn, Vm};

pub(crate) use server::{Registration, reply_of_value};

/// Names and functions of a library.
type Functions = &'static [(&'static str, NativeFn)];

/// State of libraries that a script may change. A new run begins with the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) json: cjson::Settings,
    pub(crate) random: math::Random,
    pub(crate) server: server::State,
}

fn native(vm: &mut Vm, native: Native, state: &[Value]) -> Result<FunctionId, OutOfMemory> {
    vm.heap.new_function(Code::Native(native, state.into()))
}

fn register(vm: &mut Vm, table: TableId, functions: Functions) -> Result<(), OutOfMemory> {
    for (name, function) in functions {
        let id = native(vm, Native::Plain(*function), &[])?;
        vm.heap.set_name(table, name.as_bytes(), Value::Function(id))?;
    }
    Ok(())
}

fn library(vm: &mut Vm, name: &str, functions: Functions) -> Result<TableId, OutOfMemory> {
    let table = vm.heap.new_table()?;
    register(vm, table, functions)?;
    vm.heap.set_name(vm.globals, name.as_bytes(), Value::Table(table))?;
    Ok(table)
}

fn set_text(vm: &mut Vm, table: TableId, name: &str, text: &str) -> Result<(), OutOfMemory> {
    let text = Value::Str(vm.heap.string(text.as_bytes())?);
    vm.heap.set_name(table, name.as_bytes(), text)
}

fn set_number(vm: &mut Vm, table: TableId, name: &str, number: f64) -> Result<(), OutOfMemory> {
    vm.heap.set_name(table, name.as_bytes(), Value::Number(number))
}

/// Fills the globals. The order of the steps decides about the order of `pairs(_G)`.
pub(crate) fn open(
    vm: &mut Vm,
    identity: &crate::Identity,
    is_loading: bool,
) -> Result<(), OutOfMemory> {
    base::open(vm)?;
    coroutine::open(vm)?;
    table::open(vm)?;
    let string = string::open(vm)?;
    vm.heap.set_name(vm.string_metatable, b"__index", Value::Table(string))?;
    math::open(vm)?;
    math::open_os(vm)?;
    cjson::open(vm)?;
    structs::open(vm)?;
    cmsgpack::open(vm)?;
    bit::open(vm)?;
    server::open(vm, identity, is_loading)?;
    protect(vm)
}

/// Makes all tables that scripts share read-only.
fn protect(vm: &mut Vm) -> Result<(), OutOfMemory> {
    let metatable = vm.heap.new_table()?;
    let guard = native(vm, Native::Plain(base::undefined_global), &[])?;
    vm.heap.set_name(metatable, b"__index", Value::Function(guard))?;
    let globals = vm.globals;
    let shared: Vec<Value> = vm.heap.table(globals).entries().map(|(_, value)| value).collect();
    for value in shared {
        if let Value::Table(table) = value {
            vm.heap.table_mut(table).is_readonly = true;
        }
    }
    vm.heap.table_mut(vm.string_metatable).is_readonly = true;
    vm.heap.table_mut(metatable).is_readonly = true;
    vm.heap.table_mut(globals).metatable = Some(metatable);
    vm.heap.table_mut(globals).is_readonly = true;
    Ok(())
}
