//! `PFSELFTEST`: what a client cannot test from outside. Shorter than Valkey's, because a worker's
//! other clients wait for it.

use rand_xoshiro::rand_core::Rng;

use super::estimate::Histogram;
use super::registers::{DENSE_BYTES, REGISTER_COUNT, REGISTER_MAX, Trace, dense_value, set_dense};
use super::sketch::{Draft, HEADER_BYTES};
use super::sparse;
use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::memory;

/// Times that all registers are set to random values.
const CYCLES: usize = 20;

/// Elements that are added to compare estimates.
const ELEMENTS_MAX: u64 = 100_000;

pub(super) fn pfselftest(cx: &mut Cx<'_, '_>) -> Outcome {
    let mut dense = memory::zeros(DENSE_BYTES)?;
    let mut model = memory::zeros(REGISTER_COUNT)?;
    for _ in 0..CYCLES {
        for (register, value) in model.iter_mut().enumerate() {
            *value = cx.random().next_u32() as u8 & REGISTER_MAX;
            set_dense(&mut dense, register, *value);
        }
        for (register, &value) in model.iter().enumerate() {
            let found = dense_value(register, |at| dense[at]);
            if found != value {
                return Err(CommandError::err(format_args!(
                    "TESTFAILED Register {register} should be {value} but is {found}"
                ))
                .into());
            }
        }
    }
    dense.fill(0);
    compare_estimates(cx, dense)?;
    cx.reply.ok();
    Ok(())
}

/// Adds different elements to dense registers and to ones that begin sparse, and compares the two
/// and the error of their estimate at every power of ten.
fn compare_estimates(cx: &mut Cx<'_, '_>, mut dense: Vec<u8>) -> Result<(), CommandError> {
    let mut draft = Draft::empty();
    let sparse_bytes_max = cx.settings().sparse_hyperloglog_bytes_max;
    let seed = cx.random().next_u64();
    let relative_error = 1.04 / (REGISTER_COUNT as f64).sqrt();
    let mut checkpoint = 1;
    for number in 1..=ELEMENTS_MAX {
        let trace = Trace::of(&(number ^ seed).to_le_bytes());
        if trace.value > dense_value(trace.register, |at| dense[at]) {
            set_dense(&mut dense, trace.register, trace.value);
        }
        draft.raise(trace, sparse_bytes_max)?;
        if number < checkpoint {
            continue;
        }
        let histogram = match &draft {
            Draft::Dense(bytes) => Histogram::of_dense(&bytes[HEADER_BYTES..]),
            Draft::Sparse(bytes) => {
                let mut histogram = Histogram::new();
                let _ = sparse::visit(&bytes[HEADER_BYTES..], |_, run| {
                    histogram.add(run.value, run.len)
                });
                histogram
            }
        };
        let estimate = Histogram::of_dense(&dense).estimate();
        if estimate != histogram.estimate() {
            return Err("ERR TESTFAILED dense/sparse disagree".into());
        }
        let error = checkpoint.abs_diff(estimate);
        let error_max = match checkpoint {
            // Two of ten may meet.
            10 => 1,
            _ => (relative_error * 6.0 * checkpoint as f64).ceil() as u64,
        };
        if error > error_max {
            return Err(CommandError::err(format_args!(
                "TESTFAILED Too big error. card:{checkpoint} abserr:{error}"
            )));
        }
        checkpoint *= 10;
    }
    Ok(())
}
