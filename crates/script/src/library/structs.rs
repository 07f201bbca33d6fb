//! `struct`: binary layouts.

use super::arguments::unsigned_of;
use super::registry::{Functions, library};
use super::string::part;
use crate::heap::OutOfMemory;
use crate::host::Host;
use crate::value::{Str, Value};
use crate::vm::{Args, Ret, Stop, Vm};

/// Highest size of an integer, bytes.
const INTEGER_BYTES_MAX: usize = 32;
const ALIGNMENT_MAX: usize = 8;

const FUNCTIONS: Functions = &[("pack", pack), ("unpack", unpack), ("size", size)];

pub(super) fn open(vm: &mut Vm) -> Result<(), OutOfMemory> {
    library(vm, "struct", FUNCTIONS).map(|_| ())
}

/// Format with the byte order and the alignment that hold at its cursor.
struct Layout {
    format: Vec<u8>,
    at: usize,
    is_little: bool,
    alignment: usize,
}

impl Layout {
    fn new(format: Vec<u8>) -> Self {
        Self { format, at: 0, is_little: true, alignment: 1 }
    }

    fn next_option(&mut self) -> Option<u8> {
        // The format is a C string.
        let option = self.format.get(self.at).copied().filter(|option| *option != 0)?;
        self.at += 1;
        Some(option)
    }

    fn number(&mut self, vm: &mut Vm, default: usize) -> Result<usize, Stop> {
        if !self.format.get(self.at).is_some_and(u8::is_ascii_digit) {
            return Ok(default);
        }
        let mut number = 0_i32;
        while let Some(digit) = self.format.get(self.at).filter(|digit| digit.is_ascii_digit()) {
            let next = number.checked_mul(10);
            let Some(next) = next.and_then(|next| next.checked_add(i32::from(digit - b'0'))) else {
                return Err(vm.fail("integral size overflow"));
            };
            number = next;
            self.at += 1;
        }
        Ok(number as usize)
    }

    fn option_size(&mut self, vm: &mut Vm, option: u8) -> Result<usize, Stop> {
        Ok(match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(vm, 1)?,
            b'i' | b'I' => {
                let bytes = self.number(vm, 4)?;
                if bytes > INTEGER_BYTES_MAX {
                    let limit = INTEGER_BYTES_MAX;
                    let text = format!("integral size {bytes} is larger than limit of {limit}");
                    return Err(vm.fail(text));
                }
                bytes
            }
            _ => 0,
        })
    }

    fn padding(&self, length: usize, option: u8, bytes: usize) -> usize {
        if bytes == 0 || option == b'c' {
            return 0;
        }
        let bytes = bytes.min(self.alignment);
        (bytes.wrapping_sub(length & (bytes - 1))) & (bytes - 1)
    }

    fn control(&mut self, vm: &mut Vm, option: u8) -> Result<(), Stop> {
        match option {
            b' ' => {}
            b'>' => self.is_little = false,
            b'<' => self.is_little = true,
            b'!' => {
                let alignment = self.number(vm, ALIGNMENT_MAX)?;
                if !alignment.is_power_of_two() {
                    let text = format!("alignment {alignment} is not a power of 2");
                    return Err(vm.fail(text));
                }
                self.alignment = alignment;
            }
            other => {
                let text = format!("invalid format option '{}'", char::from(other));
                return Err(vm.argument_error(1, &text));
            }
        }
        Ok(())
    }

    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.is_little {
            bytes.reverse();
        }
        bytes
    }
}

fn pack(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let mut layout = Layout::new(vm.check_text(args, 0)?);
    let mut out: Vec<u8> = Vec::new();
    let mut argument = 1;
    while let Some(option) = layout.next_option() {
        let bytes = layout.option_size(vm, option)?;
        let padding = layout.padding(out.len(), option, bytes);
        vm.reserve(&mut out, padding + bytes)?;
        out.resize(out.len() + padding, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = vm.check_number(args, argument)?;
                argument += 1;
                let value = unsigned_of(number).to_le_bytes();
                let mut digits = vec![0; bytes];
                let count = bytes.min(8);
                digits[..count].copy_from_slice(&value[..count]);
                out.extend(layout.ordered(digits));
            }
            b'x' => out.push(0),
            b'f' => {
                let number = vm.check_number(args, argument)? as f32;
                argument += 1;
                out.extend(layout.ordered(number.to_le_bytes().to_vec()));
            }
            b'd' => {
                let number = vm.check_number(args, argument)?;
                argument += 1;
                out.extend(layout.ordered(number.to_le_bytes().to_vec()));
            }
            b'c' | b's' => {
                let text = vm.check_str(args, argument)?;
                argument += 1;
                let text = vm.heap.bytes(text);
                let count = if bytes == 0 { text.len() } else { bytes };
                if text.len() < count {
                    return Err(vm.argument_error(argument + 1, "string too short"));
                }
                vm.heap.spend_bytes(count);
                vm.reserve(&mut out, count + 1)?;
                out.extend_from_slice(&text[..count]);
                if option == b's' {
                    out.push(0);
                }
            }
            _ => layout.control(vm, option)?,
        }
    }
    vm.string_of(out).map(Ret::One)
}

fn too_short(vm: &mut Vm) -> Stop {
    vm.argument_error(2, "data string too short")
}

/// Bytes of a number in the data, from the lowest one on.
fn digits_of(vm: &Vm, layout: &Layout, data: Str, (at, bytes): (usize, usize)) -> Vec<u8> {
    layout.ordered(vm.heap.bytes(data)[at..at + bytes].to_vec())
}

/// Length of the text that begins at a place and ends at a zero byte.
fn text_length(vm: &mut Vm, data: Str, at: usize) -> Result<usize, Stop> {
    let rest = &vm.heap.bytes(data)[at..];
    let end = memchr::memchr(0, rest);
    vm.heap.spend_bytes(end.unwrap_or(rest.len()));
    end.ok_or_else(|| vm.fail("unfinished string in data"))
}

fn unpack(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let mut layout = Layout::new(vm.check_text(args, 0)?);
    // Not copied: a script may unpack a long text record by record.
    let data = vm.check_str(args, 1)?;
    let length = vm.heap.bytes(data).len();
    let position = vm.integer_or(args, 2, 1)?;
    if position == 0 {
        return Err(vm.argument_error(3, "offset must be 1 or greater"));
    }
    let mut at = (position as usize).wrapping_sub(1);
    let mut values: Vec<Value> = Vec::new();
    while let Some(option) = layout.next_option() {
        let mut bytes = layout.option_size(vm, option)?;
        at = at.wrapping_add(layout.padding(at, option, bytes));
        if bytes > length || at > length - bytes {
            return Err(too_short(vm));
        }
        if values.len() >= crate::limits::UNPACK_VALUES_MAX {
            return Err(vm.fail("stack overflow (too many results)"));
        }
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let digits = digits_of(vm, &layout, data, (at, bytes));
                values.push(Value::Number(integer(&digits, option.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' => {
                let digits = digits_of(vm, &layout, data, (at, 4));
                let mut word = [0; 4];
                word.copy_from_slice(&digits);
                values.push(Value::Number(f64::from(f32::from_le_bytes(word))));
            }
            b'd' => {
                let digits = digits_of(vm, &layout, data, (at, 8));
                let mut word = [0; 8];
                word.copy_from_slice(&digits);
                values.push(Value::Number(f64::from_le_bytes(word)));
            }
            b'c' => {
                if bytes == 0 {
                    bytes = previous_size(vm, &mut values)?;
                    if bytes > length || at > length - bytes {
                        return Err(too_short(vm));
                    }
                }
                values.push(part(vm, data, at, at + bytes)?);
            }
            b's' => {
                let text_bytes = text_length(vm, data, at)?;
                values.push(part(vm, data, at, at + text_bytes)?);
                bytes = text_bytes + 1;
            }
            _ => layout.control(vm, option)?,
        }
        at += bytes;
    }
    values.push(Value::Number(at.wrapping_add(1) as i64 as f64));
    vm.results = values;
    Ok(Ret::Many)
}

fn previous_size(vm: &mut Vm, values: &mut Vec<Value>) -> Result<usize, Stop> {
    let last = values.last().copied().unwrap_or(Value::Nil);
    match vm.to_number(last) {
        Some(number) => {
            values.pop();
            Ok(super::arguments::integer_of(number) as usize)
        }
        None => Err(vm.fail("format 'c0' needs a previous size")),
    }
}

/// Little-endian integer of up to 32 bytes, of which the low eight count.
fn integer(digits: &[u8], is_signed: bool) -> f64 {
    let mut word = [0; 8];
    let count = digits.len().min(8);
    word[..count].copy_from_slice(&digits[..count]);
    let bits = u64::from_le_bytes(word);
    if !is_signed {
        return bits as f64;
    }
    let unused = 64 - 8 * count as u32;
    if count == 0 { 0.0 } else { ((bits << unused) as i64 >> unused) as f64 }
}

fn size(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let mut layout = Layout::new(vm.check_text(args, 0)?);
    let mut total = 0_usize;
    while let Some(option) = layout.next_option() {
        let bytes = layout.option_size(vm, option)?;
        total += layout.padding(total, option, bytes);
        match option {
            b's' => return Err(vm.argument_error(1, "option 's' has no fixed size")),
            b'c' if bytes == 0 => {
                return Err(vm.argument_error(1, "option 'c0' has no fixed size"));
            }
            _ if !option.is_ascii_alphanumeric() => layout.control(vm, option)?,
            _ => {}
        }
        total += bytes;
    }
    Ok(Ret::One(Value::Number(total as f64)))
}
