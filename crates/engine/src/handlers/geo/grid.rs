//! Grid of cells over longitudes and latitudes, and the scores that stand for them.
//!
//! A grid of *step* s has 2^s cells in each direction. The number of a cell has the bits of its row
//! and its column by turns, so that it begins with the number of the cell around it in the next
//! coarser grid. The arithmetic follows Valkey's, whose digits clients see.

/// Longitudes of the grid go from minus this to this, in degrees.
pub(super) const LONGITUDE_MAX: f64 = 180.0;

/// Latitudes of the grid: those of the web's map, which is a square.
pub(super) const LATITUDE_MAX: f64 = 85.05112878;

/// Step of the grid whose cells are scores.
pub(super) const STEP_MAX: u32 = 26;

/// Letters of a geohash, five bits each.
const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// Letters of a geohash that have bits of the cell's number.
const LETTER_COUNT: u32 = 10;

/// Mean radius of the earth, m.
pub(super) const EARTH_RADIUS_M: f64 = 6_372_797.560856;

const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

pub(super) fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

pub(super) fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

/// Angle in degrees that an arc of the earth's surface spans.
pub(super) fn arc_degrees(arc_m: f64) -> f64 {
    degrees(arc_m / EARTH_RADIUS_M)
}

/// Place on the earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Position {
    /// Place of a score: the centre of its cell, moved into the grid for scores that are of none.
    pub(super) fn of_score(score: f64) -> Position {
        let area = Cell { bits: truncated(score), step: STEP_MAX }.area();
        let middle = |low: f64, high: f64, max: f64| ((low + high) / 2.0).clamp(-max, max);
        Position {
            longitude: middle(area.west, area.east, LONGITUDE_MAX),
            latitude: middle(area.south, area.north, LATITUDE_MAX),
        }
    }

    /// Score of a position of the grid.
    pub(super) fn score(self) -> f64 {
        Cell::of(self, STEP_MAX).scores().0 as f64
    }

    /// Distance along a great circle, m.
    pub(super) fn distance_m(self, other: Position) -> f64 {
        let half_longitude = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if half_longitude == 0.0 {
            return self.latitude_distance_m(other);
        }
        let (from, to) = (radians(self.latitude), radians(other.latitude));
        let half_latitude = ((to - from) / 2.0).sin();
        let square =
            half_latitude * half_latitude + from.cos() * to.cos() * half_longitude * half_longitude;
        // Of opposite places it can be rounded to more than one, which no angle has.
        2.0 * EARTH_RADIUS_M * square.min(1.0).sqrt().asin()
    }

    /// Distance of the parallels, m.
    pub(super) fn latitude_distance_m(self, other: Position) -> f64 {
        EARTH_RADIUS_M * (radians(other.latitude) - radians(self.latitude)).abs()
    }

    /// Geohash as other programs know it: its latitudes go from pole to pole. It has an eleventh
    /// letter, for which no bits are left.
    pub(super) fn geohash(self) -> [u8; 11] {
        let bits = Cell::within(self, STEP_MAX, 90.0).bits;
        let mut letters = [LETTERS[0]; 11];
        for (letter, nth) in letters.iter_mut().zip(1..=LETTER_COUNT) {
            *letter = LETTERS[(bits >> (2 * STEP_MAX - 5 * nth)) as usize % LETTERS.len()];
        }
        letters
    }
}

/// Score as a number of a cell, as x86's conversion gives it also for those that are out of range.
fn truncated(score: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    let signed = |value: f64| if value.abs() < HALF { value as i64 } else { i64::MIN };
    if score < HALF { signed(score) as u64 } else { signed(score - HALF) as u64 ^ 1 << 63 }
}

/// Rectangle of longitudes and latitudes, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) west: f64,
    pub(super) south: f64,
    pub(super) east: f64,
    pub(super) north: f64,
}

/// Cell of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// Bits of the row in the even places, of the column in the odd ones.
    bits: u64,
    step: u32,
}

impl Cell {
    /// Cell around a position of the grid.
    pub(super) fn of(position: Position, step: u32) -> Cell {
        Cell::within(position, step, LATITUDE_MAX)
    }

    /// Cell of a grid whose latitudes go up to `latitude_max`.
    fn within(position: Position, step: u32, latitude_max: f64) -> Cell {
        let count = (1_u64 << step) as f64;
        let place = |degrees: f64, max: f64| ((degrees + max) / (max + max) * count) as u32;
        let row = place(position.latitude, latitude_max);
        let column = place(position.longitude, LONGITUDE_MAX);
        Cell { bits: interleave(row, column), step }
    }

    pub(super) fn area(self) -> Area {
        let count = (1_u64 << self.step) as f64;
        let edge = |index: u32, max: f64| -max + f64::from(index) / count * (max + max);
        let (row, column) = deinterleave(self.bits);
        Area {
            west: edge(column, LONGITUDE_MAX),
            south: edge(row, LATITUDE_MAX),
            east: edge(column.wrapping_add(1), LONGITUDE_MAX),
            north: edge(row.wrapping_add(1), LATITUDE_MAX),
        }
    }

    /// Cell that many columns to the east and rows to the north; the grid has no edge.
    pub(super) fn moved(self, east: i32, north: i32) -> Cell {
        let last = u32::MAX >> (u32::BITS - self.step);
        // Only a direction in which it is moved is brought back into the grid.
        let shifted = |index: u32, by: i32| match by {
            0 => index,
            _ => index.wrapping_add_signed(by) & last,
        };
        let (row, column) = deinterleave(self.bits);
        Cell { bits: interleave(shifted(row, north), shifted(column, east)), ..self }
    }

    /// First score of the cell, and the one behind its last.
    pub(super) fn scores(self) -> (u64, u64) {
        let shift = 2 * (STEP_MAX - self.step);
        (self.bits << shift, (self.bits + 1) << shift)
    }
}

/// Number with the bits of `even` in the even places and those of `odd` in the odd ones.
fn interleave(even: u32, odd: u32) -> u64 {
    spread(even) | spread(odd) << 1
}

fn deinterleave(bits: u64) -> (u32, u32) {
    (gather(bits), gather(bits >> 1))
}

/// Masks of runs of 1, 2, 4, 8 and 16 bits, each followed by as many others.
const RUNS: [u64; 5] = [
    0x5555_5555_5555_5555,
    0x3333_3333_3333_3333,
    0x0f0f_0f0f_0f0f_0f0f,
    0x00ff_00ff_00ff_00ff,
    0x0000_ffff_0000_ffff,
];

/// Moves bit n to place 2 n.
fn spread(bits: u32) -> u64 {
    RUNS.iter()
        .enumerate()
        .rev()
        .fold(u64::from(bits), |spread, (level, run)| (spread | spread << (1 << level)) & run)
}

/// Moves bit 2 n to place n; drops the others.
fn gather(bits: u64) -> u32 {
    let even = bits & RUNS[0];
    let gathered = RUNS
        .iter()
        .enumerate()
        .skip(1)
        .fold(even, |gathered, (level, run)| (gathered | gathered >> (1 << (level - 1))) & run);
    (gathered | gathered >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_parted_and_put_together() {
        for (even, odd) in [(0, 0), (1, 0), (0, 1), (u32::MAX, 0), (0x1234_5678, 0x9abc_def0)] {
            let bits = interleave(even, odd);
            for place in 0..32 {
                assert_eq!(bits >> (2 * place) & 1, u64::from(even >> place & 1));
                assert_eq!(bits >> (2 * place + 1) & 1, u64::from(odd >> place & 1));
            }
            assert_eq!(deinterleave(bits), (even, odd));
        }
    }

    #[test]
    fn cells_have_neighbours_across_the_date_line() {
        let cell = Cell { bits: interleave(5, 7), step: 3 };
        assert_eq!(deinterleave(cell.moved(1, 0).bits), (5, 0));
        assert_eq!(deinterleave(cell.moved(-1, 1).bits), (6, 6));
        assert_eq!(deinterleave(cell.moved(1, -1).bits), (4, 0));
    }

    #[test]
    fn scores_that_are_no_cells_are_converted_as_x86_does() {
        assert_eq!(truncated(-1.0), u64::MAX);
        assert_eq!(truncated(1.5), 1);
        assert_eq!(truncated(f64::INFINITY), 0);
        assert_eq!(truncated(1e300), 0);
        assert_eq!(truncated(f64::NEG_INFINITY), 1 << 63);
        assert_eq!(truncated(18_446_744_073_709_549_568.0), 18_446_744_073_709_549_568);
    }
}
