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
mod dump;
mod format;
mod math;
mod pattern;
mod registry;
mod server;
mod string;
mod structs;
mod table;
mod withdrawn;

use crate::heap::OutOfMemory;
use crate::value::Value;
use crate::vm::{Native, Vm};
use registry::native;

pub(crate) use server::{Phase, begin_phase, reply_of_value};
pub(crate) use withdrawn::offer;

/// Fills the globals. The order of the steps decides about the order of `pairs(_G)`.
pub(crate) fn open(
    vm: &mut Vm,
    identity: &crate::Identity,
    is_for_functions: bool,
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
    server::open(vm, identity, is_for_functions)?;
    protect(vm)?;
    if is_for_functions {
        server::open_phases(vm, identity)?;
    }
    Ok(())
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
