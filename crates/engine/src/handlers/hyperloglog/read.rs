//! `PFCOUNT`.

use tidemill_store::Encoding as Stored;

use super::estimate::Histogram;
use super::registers::REGISTER_COUNT;
use super::sketch::{ESTIMATE_AT, Sketch};
use crate::access::context::Cx;
use crate::access::outcome::{Outcome, Stop};
use crate::commit::Event;
use crate::handlers::string::{make_raw, write};
use crate::memory;

pub(super) fn pfcount(cx: &mut Cx<'_, '_>) -> Outcome {
    if cx.args.len() == 2 {
        return count_one(cx);
    }
    let args = cx.args;
    let mut values = memory::zeros(REGISTER_COUNT)?;
    for key in args.iter().skip(1) {
        if let Some(entry) = cx.read(key) {
            Sketch::of(entry)?.merge_into(&mut values)?;
        }
    }
    cx.reply.integer(Histogram::of_values(&values).estimate() as i64);
    Ok(())
}

/// Answers the estimate of one HyperLogLog, which is kept in it. Although the command reads, that
/// is a change to whom watches the key; no event tells of it.
fn count_one(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let Some(entry) = cx.read(key) else {
        cx.reply.integer(0);
        return Ok(());
    };
    let sketch = Sketch::of(entry)?;
    let kept = sketch.kept_estimate();
    if !cx.is_locked() && (kept.is_none() || entry.encoding() != Stored::Raw) {
        return Err(Box::new(Stop::NeedLocks));
    }
    if cx.is_locked() {
        make_raw(cx, key)?;
    }
    let estimate = match kept {
        Some(estimate) => estimate,
        None => {
            let estimate = sketch.histogram()?.estimate();
            write(cx, key, ESTIMATE_AT as u64, &estimate.to_le_bytes(), Event::SILENT)?;
            estimate
        }
    };
    cx.reply.integer(estimate as i64);
    Ok(())
}
