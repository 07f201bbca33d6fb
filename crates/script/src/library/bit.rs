//! `bit`: operations on 32 bits.

use super::registry::{Functions, library};
use crate::heap::OutOfMemory;
use crate::host::Host;
use crate::value::Value;
use crate::vm::{Args, Ret, Stop, Vm};

const FUNCTIONS: Functions = &[
    ("tobit", tobit),
    ("bnot", bnot),
    ("band", band),
    ("bor", bor),
    ("bxor", bxor),
    ("lshift", lshift),
    ("rshift", rshift),
    ("arshift", arshift),
    ("rol", rol),
    ("ror", ror),
    ("bswap", bswap),
    ("tohex", tohex),
];

pub(super) fn open(vm: &mut Vm) -> Result<(), OutOfMemory> {
    library(vm, "bit", FUNCTIONS).map(|_| ())
}

/// Low 32 bits of a number, rounded by the trick of adding 2^52 + 2^51.
fn bits(vm: &mut Vm, args: Args, index: usize) -> Result<u32, Stop> {
    let number = vm.check_number(args, index)?;
    Ok((number + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn answer(bits: u32) -> Result<Ret, Stop> {
    Ok(Ret::One(Value::Number(f64::from(bits as i32))))
}

fn tobit(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    answer(bits(vm, args, 0)?)
}

fn bnot(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    answer(!bits(vm, args, 0)?)
}

fn bswap(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    answer(bits(vm, args, 0)?.swap_bytes())
}

fn fold(vm: &mut Vm, args: Args, function: fn(u32, u32) -> u32) -> Result<Ret, Stop> {
    let mut result = bits(vm, args, 0)?;
    // From the last one on, as errors tell.
    for index in (1..args.count).rev() {
        result = function(result, bits(vm, args, index)?);
    }
    answer(result)
}

fn band(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    fold(vm, args, |a, b| a & b)
}

fn bor(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    fold(vm, args, |a, b| a | b)
}

fn bxor(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    fold(vm, args, |a, b| a ^ b)
}

fn shift(vm: &mut Vm, args: Args, function: fn(u32, u32) -> u32) -> Result<Ret, Stop> {
    let (value, count) = (bits(vm, args, 0)?, bits(vm, args, 1)? & 31);
    answer(function(value, count))
}

fn lshift(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    shift(vm, args, |value, count| value << count)
}

fn rshift(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    shift(vm, args, |value, count| value >> count)
}

fn arshift(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    shift(vm, args, |value, count| (value as i32 >> count) as u32)
}

fn rol(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    shift(vm, args, u32::rotate_left)
}

fn ror(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    shift(vm, args, u32::rotate_right)
}

fn tohex(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let value = bits(vm, args, 0)?;
    let digits = if args.count > 1 { bits(vm, args, 1)? as i32 } else { 8 };
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    vm.string(&text.as_bytes()[8 - count..]).map(Ret::One)
}
