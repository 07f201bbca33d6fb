//! `LOLWUT`: a Julia set in letters.

use std::fmt::Write;

use rand_xoshiro::rand_core::Rng;
use tidemill_resp::number::parse_double;

use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::CommandError;

/// The largest picture, in columns and rows.
const COLUMNS_MAX: i64 = 160;
const ROWS_MAX: i64 = 80;

/// From what escapes at once to what never does.
const SHADES: &[u8] = b" .:-=+*%#&@";

/// Rounds after which a point counts as one that never escapes.
const ROUNDS_MAX: usize = 2 * (SHADES.len() - 1);

/// `LOLWUT [VERSION version] [columns rows] [real imaginary]`; only the versions that drew
/// something still do. Those of 5 and 6 drew other things: their sizes are checked, and the picture
/// is the one of 9.
pub(super) fn lolwut(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let mut args: Vec<&[u8]> = cx.args.iter().skip(1).collect();
    let mut wanted = 9_u32;
    if args.len() >= 2 && is(args[0], "VERSION") {
        // As Valkey, of whatever number the lowest 32 bits.
        wanted = integer(args[1])? as u32;
        args.drain(..2);
    }
    let version = env!("CARGO_PKG_VERSION");
    let sizes_max = match wanted {
        5 => 3,
        6 => 2,
        // Valkey compares the first digit.
        _ if wanted.to_string().starts_with('9') => 0,
        _ => {
            cx.reply.verbatim(*b"txt", format!("Tidemill ver.{version}\n"));
            return Ok(());
        }
    };
    if sizes_max > 0 {
        args.iter().take(sizes_max).try_for_each(|size| integer(size).map(drop))?;
        args.clear();
    }
    if !matches!(args.len(), 0 | 2 | 4) {
        return Err("ERR Syntax error. Use: LOLWUT [columns rows] [real imaginary]".into());
    }
    let (mut columns, mut rows) = (80, 40);
    if let [given_columns, given_rows, ..] = args[..] {
        columns = integer(given_columns)?.clamp(1, COLUMNS_MAX);
        rows = integer(given_rows)?.clamp(1, ROWS_MAX);
    }
    let mut random = || (cx.worker.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let (real, imaginary) = match args[..] {
        [_, _, real, imaginary] => (double(real)?, double(imaginary)?),
        // On a circle around the middle most pictures are neither empty nor full.
        _ => (random() * std::f64::consts::TAU).sin_cos(),
    };
    let (real, imaginary) =
        if args.len() == 4 { (real, imaginary) } else { (real * 0.75, imaginary * 0.75) };
    let mut text = draw(columns as usize, rows as usize, (real, imaginary));
    // Writing into a string cannot fail.
    let _ = write!(text, "The Julia set of {real:.2} + {imaginary:.2}i\nTidemill ver. {version}\n");
    cx.reply.verbatim(*b"txt", text);
    Ok(())
}

fn double(argument: &[u8]) -> Result<f64, CommandError> {
    parse_double(argument).ok_or(CommandError::NotAFloat)
}

/// The plane from -1.6 to 1.6 in both directions, a character per point.
fn draw(columns: usize, rows: usize, constant: (f64, f64)) -> String {
    let place = |index: usize, count: usize| (index as f64 + 0.5) / count as f64 * 3.2 - 1.6;
    let mut text = String::with_capacity((columns + 1) * rows);
    for row in 0..rows {
        let shade = |column| shade((place(column, columns), place(row, rows)), constant);
        text.extend((0..columns).map(shade));
        text.push('\n');
    }
    text
}

/// By how many rounds of z² + c a point takes to leave the circle of radius 2.
fn shade(mut point: (f64, f64), constant: (f64, f64)) -> char {
    let is_inside = |(x, y): (f64, f64)| x * x + y * y <= 4.0;
    let mut rounds = 0;
    while rounds < ROUNDS_MAX && is_inside(point) {
        let (x, y) = point;
        point = (x * x - y * y + constant.0, 2.0 * x * y + constant.1);
        rounds += 1;
    }
    char::from(SHADES[rounds / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_of_zero_is_a_disc() {
        let picture = draw(9, 9, (0.0, 0.0));
        let lines: Vec<&str> = picture.lines().collect();
        assert_eq!(lines.len(), 9);
        assert_eq!(lines[4].as_bytes()[4], b'@');
        assert_ne!(lines[0].as_bytes()[0], b'@');
        assert!(lines.iter().all(|line| line.len() == 9));
    }

    #[test]
    fn a_constant_that_is_not_finite_ends() {
        assert_eq!(draw(2, 1, (f64::INFINITY, f64::NAN)).len(), 3);
    }
}
