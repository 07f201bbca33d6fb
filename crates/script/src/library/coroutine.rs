//! `coroutine`.

use super::registry::{Functions, library, native};
use crate::heap::{Code, OutOfMemory};
use crate::host::Host;
use crate::value::Value;
use crate::vm::{Args, Native, Ret, Status, Stop, Vm};

const FUNCTIONS: Functions =
    &[("create", create), ("running", running), ("status", status), ("wrap", wrap)];

pub(super) fn open(vm: &mut Vm) -> Result<(), OutOfMemory> {
    let table = library(vm, "coroutine", FUNCTIONS)?;
    for (name, function) in [("resume", Native::Resume), ("yield", Native::Yield)] {
        let id = native(vm, function, &[])?;
        vm.heap.set_name(table, name.as_bytes(), Value::Function(id))?;
    }
    Ok(())
}

fn create(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let function = match vm.arg(args, 0) {
        function @ Value::Function(id) if matches!(vm.heap.function(id).code, Code::Lua(..)) => {
            function
        }
        _ => return Err(vm.argument_error(1, "Lua function expected")),
    };
    Ok(Ret::One(Value::Thread(vm.new_coroutine(function)?)))
}

fn running(vm: &mut Vm, _: &mut dyn Host, _: Args) -> Result<Ret, Stop> {
    Ok(Ret::One(vm.running().map_or(Value::Nil, Value::Thread)))
}

fn status(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let Value::Thread(thread) = vm.arg(args, 0) else {
        return Err(vm.argument_error(1, "coroutine expected"));
    };
    let text: &[u8] = match vm.status(thread) {
        Status::Suspended => b"suspended",
        Status::Running => b"running",
        Status::Normal => b"normal",
        Status::Dead => b"dead",
    };
    vm.string(text).map(Ret::One)
}

fn wrap(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let Ret::One(thread) = create(vm, host, args)? else { return Ok(Ret::None) };
    match native(vm, Native::Wrapped, &[thread]) {
        Ok(id) => Ok(Ret::One(Value::Function(id))),
        Err(_) => Err(vm.out_of_memory()),
    }
}
