//! `string.dump`: the code of a function as bytes, equal for equal code. They begin as Lua's own
//! bytecode does, and like that nothing loads them.

use std::rc::Rc;

use crate::heap::{Code, Heap};
use crate::host::Host;
use crate::limits::BYTES_PER_STEP;
use crate::program::Proto;
use crate::value::Value;
use crate::vm::{Args, Ret, Stop, Vm};

/// Begin of all bytecode: what `loadstring` refuses.
const SIGNATURE: &[u8] = b"\x1bLua";

pub(super) fn dump(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let Value::Function(id) = vm.check_function(args, 0)? else { return Ok(Ret::None) };
    let proto = match &vm.heap.function(id).code {
        Code::Lua(proto, _) => Rc::clone(proto),
        Code::Native(..) => return Err(vm.fail("unable to dump given function")),
    };
    let bytes = bytes_of(&vm.heap, &proto);
    let mut out = vm.buffer(bytes + SIGNATURE.len())?;
    out.extend_from_slice(SIGNATURE);
    push(&vm.heap, &mut out, &proto);
    vm.work(host, out.len() / BYTES_PER_STEP)?;
    vm.string_of(out).map(Ret::One)
}

/// Bytes of a function and of those within it, at most. Their nesting is that of the source, which
/// the compiler limits.
fn bytes_of(heap: &Heap, proto: &Proto) -> usize {
    let texts = proto.constants.iter().map(|constant| match constant {
        Value::Str(text) => heap.bytes(*text).len(),
        _ => 0,
    });
    let inner = proto.protos.iter().map(|inner| bytes_of(heap, inner));
    let own = 16 + proto.code.len() * 10 + proto.constants.len() * 9 + proto.upvalues.len() * 2;
    own + texts.chain(inner).sum::<usize>()
}

fn push_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn push(heap: &Heap, out: &mut Vec<u8>, proto: &Proto) {
    out.extend([proto.parameter_count, u8::from(proto.is_vararg), proto.register_count]);
    for upvalue in &proto.upvalues {
        out.extend([u8::from(upvalue.is_local), upvalue.index]);
    }
    push_count(out, proto.code.len());
    for ins in &proto.code {
        out.extend([ins.op as u8, ins.a]);
        out.extend_from_slice(&ins.b.to_le_bytes());
        out.extend_from_slice(&ins.c.to_le_bytes());
    }
    push_count(out, proto.constants.len());
    for constant in &proto.constants {
        match constant {
            Value::Number(number) => {
                out.push(b'n');
                out.extend_from_slice(&number.to_le_bytes());
            }
            Value::Str(text) => {
                let text = heap.bytes(*text);
                out.push(b's');
                push_count(out, text.len());
                out.extend_from_slice(text);
            }
            Value::Bool(flag) => out.extend([b'b', u8::from(*flag)]),
            _ => out.push(b'-'),
        }
    }
    for inner in &proto.protos {
        push(heap, out, inner);
    }
}
