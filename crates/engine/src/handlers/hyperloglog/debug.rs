//! `PFDEBUG`.

use super::add::put;
use super::registers::{REGISTER_COUNT, dense_value};
use super::sketch::{Draft, Encoding, HEADER_BYTES, Sketch, corrupt};
use super::sparse::runs;
use crate::access::context::Cx;
use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::commit::Event;
use crate::error::CommandError;
use crate::handlers::string::make_raw;

pub(super) fn pfdebug(cx: &mut Cx<'_, '_>) -> Outcome {
    let (subcommand, key) = (cx.arg(1), cx.arg(2));
    if is(subcommand, "SIMD") {
        // Valkey's vector instructions; the compiler's are chosen when Tidemill is built.
        return match () {
            () if is(key, "ON") || is(key, "OFF") => {
                cx.reply.simple_string("disabled");
                Ok(())
            }
            () => Err("ERR Argument must be ON or OFF".into()),
        };
    }
    let entry = cx.edit(key).counted().entry();
    let sketch = Sketch::of(entry.ok_or("ERR The specified key does not exist")?)?;
    match () {
        () if is(subcommand, "GETREG") => {
            let registers = make_dense(cx, key, &sketch)?;
            cx.reply.array(REGISTER_COUNT);
            for register in 0..REGISTER_COUNT {
                let value = dense_value(register, |at| registers[HEADER_BYTES + at]);
                cx.reply.integer(i64::from(value));
            }
        }
        () if is(subcommand, "DECODE") => {
            make_raw(cx, key)?;
            if sketch.encoding != Encoding::Sparse {
                return Err("ERR HLL encoding is not sparse".into());
            }
            let (mut shown, mut registers) = (Vec::new(), 0);
            for run in runs(&sketch.contiguous()?[HEADER_BYTES..]) {
                registers += run.len;
                if registers > REGISTER_COUNT {
                    return Err(corrupt().into());
                }
                let text = match (run.value, run.bytes) {
                    (0, 1) => format!("z:{}", run.len),
                    (0, _) => format!("Z:{}", run.len),
                    (value, _) => format!("v:{value},{}", run.len),
                };
                let separator = if shown.is_empty() { "" } else { " " };
                shown.extend_from_slice(format!("{separator}{text}").as_bytes());
            }
            cx.reply.bulk(shown);
        }
        () if is(subcommand, "ENCODING") => {
            make_raw(cx, key)?;
            let is_dense = sketch.encoding == Encoding::Dense;
            cx.reply.simple_string(if is_dense { "dense" } else { "sparse" });
        }
        () if is(subcommand, "TODENSE") => {
            make_dense(cx, key, &sketch)?;
            cx.reply.integer(i64::from(sketch.encoding == Encoding::Sparse));
        }
        () => {
            let text = "ERR Unknown PFDEBUG subcommand '";
            return Err(CommandError::quoting(text, subcommand, "'").into());
        }
    }
    Ok(())
}

/// Makes a stored HyperLogLog dense, if it is not, and returns its bytes.
fn make_dense(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    sketch: &Sketch<'_>,
) -> Result<Vec<u8>, CommandError> {
    let mut draft = Draft::of(sketch)?;
    draft.make_dense()?;
    let Draft::Dense(bytes) = draft else { unreachable!("it was made dense") };
    if sketch.encoding == Encoding::Sparse {
        // The elements are the same.
        put(cx, key, Draft::Dense(bytes.clone()), Event::UNTOLD)?;
    } else {
        make_raw(cx, key)?;
    }
    Ok(bytes)
}
