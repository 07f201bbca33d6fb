//! `LCS`: the longest common subsequence.

use tidemill_resp::encode::Aggregate;
use tidemill_store::{EntryRef, Kind, StringValue};

use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::memory;
use crate::reply;

#[derive(Default)]
struct LcsOptions {
    only_length: bool,
    as_matches: bool,
    with_match_length: bool,
    match_length_min: u64,
}

fn lcs_options(cx: &Cx<'_, '_>) -> Result<LcsOptions, CommandError> {
    let mut options = LcsOptions::default();
    let mut index = 3;
    while index < cx.args.len() {
        let option = cx.arg(index);
        if is(option, "LEN") {
            options.only_length = true;
        } else if is(option, "IDX") {
            options.as_matches = true;
        } else if is(option, "WITHMATCHLEN") {
            options.with_match_length = true;
        } else if is(option, "MINMATCHLEN") && index + 1 < cx.args.len() {
            index += 1;
            options.match_length_min = integer(cx.arg(index))?.max(0) as u64;
        } else {
            return Err(CommandError::Syntax);
        }
        index += 1;
    }
    Ok(options)
}

fn operand<'g>(cx: &mut Cx<'_, 'g>, index: usize) -> Result<Option<StringValue<'g>>, CommandError> {
    let entry = cx.read(cx.arg(index));
    match entry {
        Some(entry) if entry.kind() != Kind::String => {
            Err(CommandError::from("ERR The specified keys must contain string values"))
        }
        entry => Ok(entry.and_then(EntryRef::string)),
    }
}

/// Cells of the table for strings of these lengths.
///
/// # Errors
///
/// When the table would be larger than a string may be: as Valkey has it, what `LCS` takes for a
/// moment is limited by `proto-max-bulk-len`.
fn cell_count(lengths: [u64; 2], bytes_max: u64) -> Result<usize, CommandError> {
    if lengths.iter().any(|&length| length >= u64::from(u32::MAX) - 1) {
        return Err("ERR String too long for LCS".into());
    }
    let cells = (lengths[0] + 1) * (lengths[1] + 1);
    match cells.checked_mul(size_of::<u32>() as u64) {
        Some(bytes) if bytes <= bytes_max => Ok(cells as usize),
        Some(_) => {
            let text =
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
            Err(text.into())
        }
        None => Err(NO_MEMORY.into()),
    }
}

const NO_MEMORY: &str = "ERR Insufficient memory, failed allocating transient memory for LCS";

/// Lengths of the longest common subsequences of all pairs of prefixes.
struct Table {
    lengths: Vec<u32>,
    width: usize,
}

impl Table {
    fn new(a: &[u8], b: &[u8], cell_count: usize) -> Result<Table, CommandError> {
        let width = b.len() + 1;
        let mut lengths = memory::with_capacity(cell_count).map_err(|_| NO_MEMORY)?;
        lengths.resize(cell_count, 0_u32);
        for (row, x) in a.iter().enumerate() {
            for (column, y) in b.iter().enumerate() {
                let (above, left) = (row * width + column + 1, (row + 1) * width + column);
                lengths[left + 1] = if x == y {
                    lengths[row * width + column] + 1
                } else {
                    lengths[above].max(lengths[left])
                };
            }
        }
        Ok(Table { lengths, width })
    }

    fn at(&self, row: usize, column: usize) -> u32 {
        self.lengths[row * self.width + column]
    }
}

/// A run that both strings share: its first and last position in each.
#[derive(Clone, Copy)]
struct Run {
    a: (usize, usize),
    b: (usize, usize),
}

/// The subsequence, and its runs from the last to the first.
fn trace(table: &Table, a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<Run>) {
    let (mut row, mut column) = (a.len(), b.len());
    let mut reversed = Vec::new();
    let mut runs = Vec::new();
    let mut open: Option<Run> = None;
    while row > 0 && column > 0 {
        if a[row - 1] == b[column - 1] {
            reversed.push(a[row - 1]);
            let (x, y) = (row - 1, column - 1);
            open = Some(match open {
                Some(run) if run.a.0 == x + 1 && run.b.0 == y + 1 => {
                    Run { a: (x, run.a.1), b: (y, run.b.1) }
                }
                previous => {
                    runs.extend(previous);
                    Run { a: (x, x), b: (y, y) }
                }
            });
            row -= 1;
            column -= 1;
        } else if table.at(row - 1, column) > table.at(row, column - 1) {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    runs.extend(open);
    reversed.reverse();
    (reversed, runs)
}

pub(super) fn lcs(cx: &mut Cx<'_, '_>) -> Outcome {
    let a = operand(cx, 1)?;
    let b = operand(cx, 2)?;
    let options = lcs_options(cx)?;
    if options.only_length && options.as_matches {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    let length = |operand: Option<StringValue<'_>>| operand.map_or(0, |value| value.len());
    let bytes_max = cx.settings().bulk_bytes_max as u64;
    let cells = cell_count([length(a), length(b)], bytes_max)?;
    let copy = |operand: Option<StringValue<'_>>| operand.map_or(Ok(Vec::new()), memory::copy);
    let (a, b) = (copy(a)?, copy(b)?);
    let table = Table::new(&a, &b, cells)?;
    let length = table.at(a.len(), b.len());
    if options.only_length {
        cx.reply.integer(i64::from(length));
        return Ok(());
    }
    let (subsequence, runs) = trace(&table, &a, &b);
    if !options.as_matches {
        reply::owned(cx.reply, subsequence);
        return Ok(());
    }
    cx.reply.map(2);
    cx.reply.bulk(b"matches");
    let matches = cx.reply.begin(Aggregate::Array);
    let mut count = 0;
    for run in runs {
        let run_length = (run.a.1 - run.a.0 + 1) as u64;
        if run_length < options.match_length_min {
            continue;
        }
        count += 1;
        cx.reply.array(if options.with_match_length { 3 } else { 2 });
        for (first, last) in [run.a, run.b] {
            cx.reply.array(2);
            cx.reply.integer(first as i64);
            cx.reply.integer(last as i64);
        }
        if options.with_match_length {
            cx.reply.integer(run_length as i64);
        }
    }
    cx.reply.end_with(matches, count);
    cx.reply.bulk(b"len");
    cx.reply.integer(i64::from(length));
    Ok(())
}
