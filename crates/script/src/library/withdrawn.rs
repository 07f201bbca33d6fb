//! Functions that Valkey has withdrawn: `getfenv`, `setfenv`, `newproxy`. They are globals only
//! while `lua-enable-insecure-api` says so. `__gc` of a proxy is never called.

use super::registry::native;
use crate::heap::OutOfMemory;
use crate::host::Host;
use crate::value::{FunctionId, Value};
use crate::vm::{Args, Level, Native, NativeFn, Ret, Stop, Vm};

const FUNCTIONS: [(&str, NativeFn); 3] =
    [("newproxy", newproxy), ("setfenv", setfenv), ("getfenv", getfenv)];

/// Makes the functions globals, or takes them away.
pub(crate) fn offer(vm: &mut Vm, offers: bool) -> Result<(), OutOfMemory> {
    for (name, function) in FUNCTIONS {
        let globals = vm.globals;
        let value = match offers {
            true => Value::Function(native(vm, Native::Plain(function), &[])?),
            false => Value::Nil,
        };
        vm.heap.set_name(globals, name.as_bytes(), value)?;
    }
    vm.has_withdrawn = offers;
    Ok(())
}

/// A function, or that at a level of the active calls.
enum Target {
    Function(FunctionId),
    /// One of a library.
    Native,
    /// Level 0: the code that is compiled from now on.
    Thread,
}

fn target(vm: &mut Vm, args: Args, is_optional: bool) -> Result<Target, Stop> {
    if let Value::Function(id) = vm.arg(args, 0) {
        return Ok(Target::Function(id));
    }
    let level = if is_optional { vm.integer_or(args, 0, 1)? } else { vm.check_integer(args, 0)? };
    let level = i64::from(level as i32);
    if level < 0 {
        return Err(vm.argument_error(1, "level must be non-negative"));
    }
    if level == 0 {
        return Ok(Target::Thread);
    }
    match vm.function_at(level as usize) {
        Level::Function(id) => Ok(Target::Function(id)),
        Level::Native => Ok(Target::Native),
        Level::Missing => Err(vm.argument_error(1, "invalid level")),
        Level::Lost => {
            let text = format!("no function environment for tail call at level {level}");
            Err(vm.fail(text))
        }
    }
}

fn getfenv(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = match target(vm, args, true)? {
        Target::Function(id) => vm.environment(id),
        Target::Native | Target::Thread => vm.thread_globals(),
    };
    Ok(Ret::One(Value::Table(table)))
}

fn setfenv(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 1)?;
    let function = match target(vm, args, false)? {
        Target::Thread => {
            vm.run_environment = Some(table);
            vm.heap.has_environments = true;
            return Ok(Ret::None);
        }
        Target::Function(id) => Some(id),
        Target::Native => None,
    };
    match function.filter(|id| vm.set_environment(*id, table)) {
        Some(id) => Ok(Ret::One(Value::Function(id))),
        None => Err(vm.fail("'setfenv' cannot change environment of given object")),
    }
}

fn newproxy(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let metatable = match vm.arg(args, 0) {
        Value::Nil | Value::Bool(false) => None,
        Value::Bool(true) => Some(vm.table(0, 0)?),
        Value::Proxy(other) if vm.heap.table(other).metatable.is_some() => {
            vm.heap.table(other).metatable
        }
        _ => return Err(vm.argument_error(1, "boolean or proxy expected")),
    };
    // Nothing collects between the two tables.
    let proxy = vm.table(0, 0)?;
    vm.heap.table_mut(proxy).metatable = metatable;
    Ok(Ret::One(Value::Proxy(proxy)))
}
