//! Polygons on the plane of longitudes and latitudes.

use super::grid::{Area, LATITUDE_MAX, LONGITUDE_MAX, Position, degrees, radians};
use crate::error::CommandError;
use crate::memory;

/// Edges up to which a point is compared with all of them.
const EDGES_WITHOUT_BANDS_MAX: usize = 16;

/// Bands at most.
const BANDS_MAX: usize = 4096;

/// Entries of all bands per edge at most: the bands of a jagged polygon are fewer and higher.
const ENTRIES_PER_EDGE_MAX: usize = 8;

/// Polygon by its corners. Each edge is known by the corner that it ends at.
///
/// A point is inside if a ray from it to the east meets an odd number of edges. Edges that the ray
/// may meet are found by bands of latitude: a member is compared with the edges of its band and not
/// with all of, say, 10^5.
#[derive(Debug)]
pub(super) struct Polygon {
    corners: Vec<Position>,
    bands: Bands,
}

/// Edges by bands of latitude; without any, all edges are in one.
#[derive(Debug, Default)]
struct Bands {
    south: f64,
    per_degree: f64,
    /// Start of each band among the edges, and the end of the last.
    starts: Vec<usize>,
    edges: Vec<usize>,
}

impl Bands {
    fn band_count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Band of a latitude of the polygon. Never falls while the latitude rises.
    fn band_of(&self, latitude: f64, count: usize) -> usize {
        (((latitude - self.south) * self.per_degree) as usize).min(count - 1)
    }

    /// Bands of an edge, of `count`.
    fn span(&self, (from, to): (Position, Position), count: usize) -> (usize, usize) {
        let (south, north) = (from.latitude.min(to.latitude), from.latitude.max(to.latitude));
        (self.band_of(south, count), self.band_of(north, count))
    }
}

impl Polygon {
    /// # Errors
    ///
    /// [`CommandError::NoMemory`].
    pub(super) fn new(corners: Vec<Position>) -> Result<Polygon, CommandError> {
        let mut polygon = Polygon { corners, bands: Bands::default() };
        if polygon.corners.len() > EDGES_WITHOUT_BANDS_MAX {
            polygon.add_bands()?;
        }
        Ok(polygon)
    }

    fn add_bands(&mut self) -> Result<(), CommandError> {
        let bounds = self.bounds();
        let height = bounds.north - bounds.south;
        let entries_max = self.corners.len() * ENTRIES_PER_EDGE_MAX;
        let mut count = self.corners.len().min(BANDS_MAX);
        if height <= 0.0 {
            return Ok(());
        }
        let mut bands = Bands { south: bounds.south, ..Bands::default() };
        loop {
            bands.per_degree = count as f64 / height;
            let spans = (0..self.corners.len()).map(|edge| bands.span(self.edge(edge), count));
            if spans.map(|(first, last)| last - first + 1).sum::<usize>() <= entries_max {
                break;
            }
            count = count.div_ceil(2);
        }
        bands.starts = memory::collect(std::iter::repeat_n(0, count + 1))?;
        for edge in 0..self.corners.len() {
            let (first, last) = bands.span(self.edge(edge), count);
            bands.starts[first..=last].iter_mut().for_each(|entries| *entries += 1);
        }
        let mut total = 0;
        for entries in &mut bands.starts {
            total += std::mem::replace(entries, total);
        }
        bands.edges = memory::collect(std::iter::repeat_n(0, total))?;
        let mut next = memory::collect(bands.starts.iter().copied())?;
        for edge in 0..self.corners.len() {
            let (first, last) = bands.span(self.edge(edge), count);
            for place in &mut next[first..=last] {
                bands.edges[*place] = edge;
                *place += 1;
            }
        }
        self.bands = bands;
        Ok(())
    }

    /// Ends of an edge.
    fn edge(&self, index: usize) -> (Position, Position) {
        let before = index.checked_sub(1).unwrap_or(self.corners.len() - 1);
        (self.corners[index], self.corners[before])
    }

    pub(super) fn bounds(&self) -> Area {
        let empty = Area {
            west: LONGITUDE_MAX,
            south: LATITUDE_MAX,
            east: -LONGITUDE_MAX,
            north: -LATITUDE_MAX,
        };
        self.corners.iter().fold(empty, |bounds, corner| Area {
            west: bounds.west.min(corner.longitude),
            south: bounds.south.min(corner.latitude),
            east: bounds.east.max(corner.longitude),
            north: bounds.north.max(corner.latitude),
        })
    }

    /// Mean of the corners in space, seen from the centre of the earth.
    pub(super) fn middle(&self) -> Position {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for corner in &self.corners {
            let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        Position {
            longitude: degrees(f64::atan2(y, x)),
            latitude: degrees(f64::atan2(z, (x * x + y * y).sqrt())),
        }
    }

    pub(super) fn contains(&self, position: Position) -> bool {
        let meets = |index: usize| is_met(self.edge(index), position);
        let count = self.bands.band_count();
        let met = if count == 0 {
            (0..self.corners.len()).filter(|&index| meets(index)).count()
        } else {
            let band = self.bands.band_of(position.latitude, count);
            let edges = &self.bands.edges[self.bands.starts[band]..self.bands.starts[band + 1]];
            edges.iter().filter(|&&index| meets(index)).count()
        };
        met % 2 == 1
    }
}

/// True if a ray from `position` to the east meets an edge.
fn is_met((from, to): (Position, Position), position: Position) -> bool {
    (from.latitude > position.latitude) != (to.latitude > position.latitude)
        && position.longitude
            < (to.longitude - from.longitude) * (position.latitude - from.latitude)
                / (to.latitude - from.latitude)
                + from.longitude
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_change_no_answer() {
        let mut random = fastrand::Rng::with_seed(14);
        let mut number = |max: f64| (random.f64() * 2.0 - 1.0) * max;
        for count in [3, 16, 17, 40, 500, 5000] {
            for roundness in [0.0, 0.5, 0.99] {
                let corners: Vec<Position> = (0..count)
                    .map(|nth| {
                        let turn = f64::from(nth) / f64::from(count) * std::f64::consts::TAU;
                        let radius = 60.0 * (roundness + number(1.0 - roundness));
                        Position { longitude: radius * turn.cos(), latitude: radius * turn.sin() }
                    })
                    .collect();
                let polygon = Polygon::new(corners.clone()).expect("there is memory");
                assert_eq!(polygon.bands.band_count() > 0, count > 16);
                for nth in 0..2000 {
                    let position = match nth % 3 {
                        // At the height of a corner, where the comparison is sharp.
                        0 => Position { longitude: number(90.0), ..corners[nth % corners.len()] },
                        _ => Position { longitude: number(90.0), latitude: number(85.0) },
                    };
                    let plain = Polygon { corners: corners.clone(), bands: Bands::default() };
                    assert_eq!(polygon.contains(position), plain.contains(position));
                }
            }
        }
    }

    #[test]
    fn the_bands_of_a_jagged_polygon_stay_within_their_memory() {
        let corners: Vec<Position> = (0..100_000)
            .map(|nth: u32| Position {
                longitude: f64::from(nth) / 1000.0,
                latitude: if nth.is_multiple_of(2) { -80.0 } else { 80.0 },
            })
            .collect();
        let polygon = Polygon::new(corners).expect("there is memory");
        assert!(polygon.bands.edges.len() <= 100_000 * ENTRIES_PER_EDGE_MAX);
    }
}
