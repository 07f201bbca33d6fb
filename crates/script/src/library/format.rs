//! `string.format`.

use super::arguments::{integer_of, unsigned_of};
use crate::host::Host;
use crate::number::Format;
use crate::vm::{Args, Ret, Stop, Vm};

/// Reads a conversion behind its `%`; the second result is the place of its letter.
fn conversion(vm: &mut Vm, format: &[u8], start: usize) -> Result<(Format, usize), Stop> {
    let mut spec = Format::default();
    let mut at = start;
    while let Some(flag) = format.get(at).filter(|flag| b"-+ #0".contains(flag)) {
        match flag {
            b'-' => spec.is_left = true,
            b'+' => spec.has_plus = true,
            b' ' => spec.has_space = true,
            b'#' => spec.is_alternate = true,
            _ => spec.is_zero = true,
        }
        at += 1;
    }
    if at - start >= 6 {
        return Err(vm.fail("invalid format (repeated flags)"));
    }
    let digits = |at: &mut usize| {
        let mut number = 0;
        for _ in 0..2 {
            if let Some(digit) = format.get(*at).filter(|digit| digit.is_ascii_digit()) {
                number = number * 10 + usize::from(digit - b'0');
                *at += 1;
            }
        }
        number
    };
    spec.width = digits(&mut at);
    if format.get(at) == Some(&b'.') {
        at += 1;
        spec.precision = Some(digits(&mut at));
    }
    if format.get(at).is_some_and(u8::is_ascii_digit) {
        return Err(vm.fail("invalid format (width or precision too long)"));
    }
    Ok((spec, at))
}

/// Bytes that a conversion of anything but a text makes, at most: the digits of a number, before
/// and behind its point, and its width.
const CONVERTED_BYTES_MAX: usize = 512;

/// Bytes of a byte in quotes, at most.
const QUOTED_BYTES_MAX: usize = 4;

pub(super) fn format(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let format = vm.check_text(args, 0)?;
    let mut out = Vec::new();
    let mut argument = 0;
    let mut at = 0;
    while at < format.len() {
        let end = memchr::memchr(b'%', &format[at..]).map_or(format.len(), |length| at + length);
        vm.reserve(&mut out, end - at + 1)?;
        out.extend_from_slice(&format[at..end]);
        at = end + 1;
        if end == format.len() {
            break;
        }
        if format.get(at) == Some(&b'%') {
            out.push(b'%');
            at += 1;
            continue;
        }
        argument += 1;
        if argument >= args.count {
            return Err(vm.argument_error(argument + 1, "no value"));
        }
        let (spec, letter) = conversion(vm, &format, at)?;
        at = letter + 1;
        vm.reserve(&mut out, CONVERTED_BYTES_MAX)?;
        convert(vm, args, argument, spec, format.get(letter).copied(), &mut out)?;
    }
    vm.string_of(out).map(Ret::One)
}

fn convert(
    vm: &mut Vm,
    args: Args,
    argument: usize,
    spec: Format,
    letter: Option<u8>,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let spec = Format { is_upper: letter.is_some_and(|l| l.is_ascii_uppercase()), ..spec };
    match letter {
        Some(b'c') => {
            // C's conversion to an int, and its text, which ends at a zero byte.
            let number = vm.check_number(args, argument)?;
            let is_int = (-2_147_483_648.0..2_147_483_648.0).contains(&number);
            let byte = if is_int { number as i32 as u8 } else { 0 };
            let mut text = Vec::new();
            spec.pad(&mut text, b"", &[byte], false);
            out.extend(text.into_iter().take_while(|byte| *byte != 0));
        }
        Some(b'd' | b'i') => {
            let number = integer_of(vm.check_number(args, argument)?);
            spec.integer(out, number);
        }
        Some(b'o' | b'u' | b'x' | b'X') => {
            let number = unsigned_of(vm.check_number(args, argument)?);
            let base = match letter {
                Some(b'o') => 8,
                Some(b'u') => 10,
                _ => 16,
            };
            spec.unsigned(out, number, base);
        }
        Some(b'e' | b'E') => spec.exponential(out, vm.check_number(args, argument)?),
        Some(b'f') => spec.fixed(out, vm.check_number(args, argument)?),
        Some(b'g' | b'G') => spec.general(out, vm.check_number(args, argument)?),
        Some(b'q') => {
            let text = vm.check_text(args, argument)?;
            vm.reserve(out, QUOTED_BYTES_MAX * text.len() + 2)?;
            quote(&text, out);
        }
        Some(b's') => {
            let text = vm.check_str(args, argument)?;
            let text = vm.heap.bytes(text);
            let text = &text[..text.len().min(spec.precision.unwrap_or(usize::MAX))];
            vm.heap.spend_bytes(text.len());
            vm.reserve(out, text.len() + CONVERTED_BYTES_MAX)?;
            if spec.precision.is_none() && text.len() >= 100 {
                out.extend_from_slice(text);
            } else {
                // C's own conversion ends at a zero byte.
                let end = memchr::memchr(0, text).unwrap_or(text.len());
                spec.pad(out, b"", &text[..end], false);
            }
        }
        other => {
            let shown: Vec<u8> = other.into_iter().collect();
            let begin = b"invalid option '%".as_slice();
            return Err(vm.fail([begin, &shown, b"' to 'format'"].concat()));
        }
    }
    Ok(())
}

fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' | b'\n' => out.extend_from_slice(&[b'\\', *byte]),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\000"),
            other => out.push(*other),
        }
    }
    out.push(b'"');
}
