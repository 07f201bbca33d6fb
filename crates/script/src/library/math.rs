//! `math` and `os.clock`.

use super::registry::{Functions, library};
use crate::heap::OutOfMemory;
use crate::host::Host;
use crate::settings::Random;
use crate::value::Value;
use crate::vm::{Args, Ret, Stop, Vm};

macro_rules! functions {
    ($($name:ident => $body:expr),* $(,)?) => {
        $(fn $name(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
            let function: fn(f64) -> f64 = $body;
            Ok(Ret::One(Value::Number(function(vm.check_number(args, 0)?))))
        })*
    };
}

functions! {
    abs => f64::abs, acos => arc_cosine, asin => arc_sine, atan => f64::atan,
    ceil => f64::ceil, cos => f64::cos, cosh => f64::cosh,
    deg => |radians| radians / (std::f64::consts::PI / 180.0),
    exp => f64::exp, floor => f64::floor, log => logarithm, log10 => common_logarithm,
    rad => |degrees| degrees * (std::f64::consts::PI / 180.0), sin => f64::sin,
    sinh => f64::sinh, sqrt => f64::sqrt, tan => f64::tan, tanh => f64::tanh,
}

const FUNCTIONS: Functions = &[
    ("abs", abs),
    ("acos", acos),
    ("asin", asin),
    ("atan2", atan2),
    ("atan", atan),
    ("ceil", ceil),
    ("cosh", cosh),
    ("cos", cos),
    ("deg", deg),
    ("exp", exp),
    ("floor", floor),
    ("fmod", fmod),
    ("frexp", frexp),
    ("ldexp", ldexp),
    ("log10", log10),
    ("log", log),
    ("max", max),
    ("min", min),
    ("modf", modf),
    ("pow", pow),
    ("rad", rad),
    ("random", random),
    ("randomseed", randomseed),
    ("sinh", sinh),
    ("sin", sin),
    ("sqrt", sqrt),
    ("tanh", tanh),
    ("tan", tan),
];

pub(super) fn open(vm: &mut Vm) -> Result<(), OutOfMemory> {
    let table = library(vm, "math", FUNCTIONS)?;
    super::registry::set_number(vm, table, "pi", std::f64::consts::PI)?;
    super::registry::set_number(vm, table, "huge", f64::INFINITY)?;
    super::registry::register(vm, table, &[("mod", fmod)])
}

pub(super) fn open_os(vm: &mut Vm) -> Result<(), OutOfMemory> {
    library(vm, "os", &[("clock", clock)]).map(|_| ())
}

// Outside of their domains these give NaN with the sign that scripts see: none.

fn logarithm(number: f64) -> f64 {
    if number < 0.0 { f64::NAN } else { number.ln() }
}

fn common_logarithm(number: f64) -> f64 {
    if number < 0.0 { f64::NAN } else { number.log10() }
}

fn arc_cosine(number: f64) -> f64 {
    if number.abs() > 1.0 { f64::NAN } else { number.acos() }
}

fn arc_sine(number: f64) -> f64 {
    if number.abs() > 1.0 { f64::NAN } else { number.asin() }
}

fn clock(_: &mut Vm, host: &mut dyn Host, _: Args) -> Result<Ret, Stop> {
    Ok(Ret::One(Value::Number(host.cpu_seconds())))
}

fn binary(vm: &mut Vm, args: Args, function: fn(f64, f64) -> f64) -> Result<Ret, Stop> {
    // C evaluates the second argument first, so its error is the one that scripts see.
    let b = vm.check_number(args, 1)?;
    let a = vm.check_number(args, 0)?;
    Ok(Ret::One(Value::Number(function(a, b))))
}

fn atan2(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    binary(vm, args, f64::atan2)
}

fn fmod(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    binary(vm, args, |a, b| a % b)
}

fn pow(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    binary(vm, args, f64::powf)
}

fn frexp(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let number = vm.check_number(args, 0)?;
    let (mantissa, exponent) = split(number);
    vm.results = vec![Value::Number(mantissa), Value::Number(f64::from(exponent))];
    Ok(Ret::Many)
}

fn split(number: f64) -> (f64, i32) {
    if number == 0.0 || !number.is_finite() {
        return (number, 0);
    }
    let bits = number.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    if exponent == 0 {
        // A subnormal number.
        let (mantissa, exponent) = split(number * 2.0_f64.powi(54));
        return (mantissa, exponent - 54);
    }
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent - 1022)
}

fn ldexp(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let exponent = vm.check_integer(args, 1)? as i32;
    let number = vm.check_number(args, 0)?;
    let exponent = exponent.clamp(-2200, 2200);
    // In halves, so that neither factor overflows alone.
    let third = exponent / 3;
    let power = 2.0_f64.powi(third);
    let rest = 2.0_f64.powi(exponent - 2 * third);
    Ok(Ret::One(Value::Number(number * power * power * rest)))
}

fn extreme(vm: &mut Vm, args: Args, is_better: fn(f64, f64) -> bool) -> Result<Ret, Stop> {
    let mut best = vm.check_number(args, 0)?;
    for index in 1..args.count {
        let number = vm.check_number(args, index)?;
        if is_better(number, best) {
            best = number;
        }
    }
    Ok(Ret::One(Value::Number(best)))
}

fn max(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    extreme(vm, args, |number, best| number > best)
}

fn min(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    extreme(vm, args, |number, best| number < best)
}

fn modf(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let number = vm.check_number(args, 0)?;
    let fraction = if number.is_infinite() { 0.0 } else { number - number.trunc() };
    let fraction = fraction.copysign(number);
    vm.results = vec![Value::Number(number.trunc()), Value::Number(fraction)];
    Ok(Ret::Many)
}

fn random(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let drawn = f64::from(vm.settings.random.next() % 0x7fff_ffff) / f64::from(0x7fff_ffff_u32);
    let (low, high) = match args.count {
        0 => return Ok(Ret::One(Value::Number(drawn))),
        1 => (1, vm.check_integer(args, 0)? as i32),
        2 => (vm.check_integer(args, 0)? as i32, vm.check_integer(args, 1)? as i32),
        _ => return Err(vm.fail("wrong number of arguments")),
    };
    if low > high {
        return Err(vm.argument_error(args.count, "interval is empty"));
    }
    let width = f64::from(high.wrapping_sub(low).wrapping_add(1));
    Ok(Ret::One(Value::Number((drawn * width).floor() + f64::from(low))))
}

fn randomseed(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    vm.settings.random = Random::seeded(vm.check_integer(args, 0)? as i32);
    Ok(Ret::None)
}
