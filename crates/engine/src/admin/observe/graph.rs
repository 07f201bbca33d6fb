//! The drawing of `LATENCY GRAPH`: a column per sample, its age below.

use crate::telemetry::latency::Sample;

const COLUMNS: usize = 80;
const ROWS: usize = 4;
/// Heights within a row.
const TOPS: [u8; 3] = [b'_', b'o', b'#'];

/// Age of something, in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn cell(height: usize, row: usize) -> u8 {
    match (height / TOPS.len()).cmp(&row) {
        std::cmp::Ordering::Less => b' ',
        std::cmp::Ordering::Equal => TOPS[height % TOPS.len()],
        std::cmp::Ordering::Greater => b'|',
    }
}

/// Draws samples as of a Unix time in seconds.
pub(super) fn draw(samples: &[Sample], now_s: u64) -> String {
    let low = samples.iter().map(|sample| sample.ms).min().unwrap_or(0);
    let high = samples.iter().map(|sample| sample.ms).max().unwrap_or(0);
    let steps = ROWS * TOPS.len();
    let span = (high - low).max(1);
    let height = |sample: &Sample| {
        let height = (sample.ms - low) as u128 * steps as u128 / u128::from(span);
        (height as usize).min(steps - 1)
    };
    let mut text = String::new();
    for (index, chunk) in samples.chunks(COLUMNS).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let mut line = |column: &dyn Fn(&Sample) -> u8| {
            text.extend(chunk.iter().map(|sample| char::from(column(sample))));
            text.push('\n');
        };
        (0..ROWS).rev().for_each(|row| line(&|sample| cell(height(sample), row)));
        line(&|_| b' ');
        let label = |sample: &Sample| age(now_s.saturating_sub(sample.unix_s));
        let longest = chunk.iter().map(|sample| label(sample).len()).max().unwrap_or(0);
        for place in 0..longest {
            line(&|sample| label(sample).as_bytes().get(place).copied().unwrap_or(b' '));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples and the drawing of a Valkey 9.1.
    #[test]
    fn a_drawing_is_valkeys() {
        let all_ms = [20, 300, 45, 700, 120, 500, 85, 260, 640, 33, 410, 150];
        let samples: Vec<Sample> =
            (625_u64..).zip(all_ms).map(|(unix_s, ms)| Sample { unix_s, ms }).collect();
        let drawing = [
            "   #    o   ",
            "   | #  | _ ",
            " o | | o| | ",
            "_|_|o|o||_|#",
            "            ",
            "111987654321",
            "210sssssssss",
            "sss         ",
            "",
        ];
        assert_eq!(draw(&samples, 637), drawing.join("\n"));
    }

    #[test]
    fn a_long_history_is_drawn_in_pieces_and_a_flat_one_at_the_bottom() {
        let samples: Vec<Sample> = (0..100).map(|unix_s| Sample { unix_s, ms: u64::MAX }).collect();
        let drawing = draw(&samples, 90_000);
        let lines: Vec<&str> = drawing.lines().collect();
        assert_eq!(lines[3], "_".repeat(80));
        assert_eq!(lines[lines.len() - 3], " ".repeat(20));
        assert_eq!(lines[lines.len() - 2..], ["1".repeat(20), "d".repeat(20)]);
        assert_eq!(draw(&[], 0), "");
    }
}
