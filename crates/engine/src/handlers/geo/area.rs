//! Shapes that are searched, and the cells that cover them.

use super::grid::{Area, Cell, LATITUDE_MAX, Position, STEP_MAX, arc_degrees, radians};
use super::polygon::Polygon;

/// Half the side of the map's square, m: a cell of the coarsest grid.
const HALF_MAP_M: f64 = 20_037_726.37;

/// Shape around a centre. Lengths are in the unit of the request.
#[derive(Debug)]
pub(super) enum Shape {
    Circle {
        radius: f64,
    },
    /// Width along the parallel of each point, height along the meridian.
    Box {
        width: f64,
        height: f64,
    },
    Polygon(Polygon),
}

/// Shape with its place and unit.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) shape: Shape,
    pub(super) center: Position,
    /// Metres of the unit of the request.
    pub(super) unit_m: f64,
}

impl Search {
    /// Distance of a position from the centre, m; none if it lies outside.
    pub(super) fn distance_m(&self, position: Position) -> Option<f64> {
        let center = self.center;
        match &self.shape {
            Shape::Circle { radius } => {
                let distance = center.distance_m(position);
                (distance <= radius * self.unit_m).then_some(distance)
            }
            Shape::Box { width, height } => {
                if position.latitude_distance_m(center) > height * self.unit_m / 2.0 {
                    return None;
                }
                let across = Position { latitude: position.latitude, ..center };
                if position.distance_m(across) > width * self.unit_m / 2.0 {
                    return None;
                }
                Some(center.distance_m(position))
            }
            Shape::Polygon(polygon) => {
                polygon.contains(position).then(|| center.distance_m(position))
            }
        }
    }

    /// Cells that cover the shape, in the order in which they are searched: the one around the
    /// centre, then its neighbours. Of a shape that is large beside the earth, two may be one cell.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let latitude = self.center.latitude.clamp(-LATITUDE_MAX, LATITUDE_MAX);
        // The middle of a polygon around a pole lies behind the edge of the grid.
        let center = Position { latitude, ..self.center };
        let mut step = step_for(self.reach_m(bounds), self.center.latitude);
        let mut cell = Cell::of(center, step);
        if step > 1 && !is_covered(cell, bounds) {
            step -= 1;
            cell = Cell::of(center, step);
        }
        let area = cell.area();
        let is_coarse = step < 2;
        let reaches_south = is_coarse || area.south >= bounds.south;
        let reaches_north = is_coarse || area.north <= bounds.north;
        let reaches_west = is_coarse || area.west >= bounds.west;
        let reaches_east = is_coarse || area.east <= bounds.east;
        let mut cells = vec![cell];
        for (east, north) in NEIGHBOURS {
            let is_needed = (north >= 0 || reaches_south)
                && (north <= 0 || reaches_north)
                && (east >= 0 || reaches_west)
                && (east <= 0 || reaches_east);
            let neighbour = cell.moved(east, north);
            // Opposite neighbours are one in the coarsest grid. The cell itself is compared with
            // none: in each grid its neighbours are others.
            if is_needed && (cells.len() == 1 || cells.last() != Some(&neighbour)) {
                cells.push(neighbour);
            }
        }
        cells
    }

    /// Rectangle around the shape. Infinite or no numbers when it is larger than the earth.
    fn bounds(&self) -> Area {
        let (width_m, height_m) = match &self.shape {
            Shape::Polygon(polygon) => return polygon.bounds(),
            Shape::Circle { radius } => (self.unit_m * radius, self.unit_m * radius),
            Shape::Box { width, height } => (self.unit_m * width / 2.0, self.unit_m * height / 2.0),
        };
        let Position { longitude, latitude } = self.center;
        let north = arc_degrees(height_m);
        // The same width spans more degrees of a shorter parallel.
        let edge = if latitude < 0.0 { latitude - north } else { latitude + north };
        let east = degrees_along(width_m, edge);
        Area {
            west: longitude - east,
            south: latitude - north,
            east: longitude + east,
            north: latitude + north,
        }
    }

    /// Distance of the farthest point of the shape, m.
    fn reach_m(&self, bounds: Area) -> f64 {
        match &self.shape {
            Shape::Circle { radius } => radius * self.unit_m,
            Shape::Box { width, height } => {
                let (width, height) = (width / 2.0, height / 2.0);
                (width * width + height * height).sqrt() * self.unit_m
            }
            Shape::Polygon(_) => {
                let distance =
                    |longitude, latitude| self.center.distance_m(Position { longitude, latitude });
                distance(bounds.west, bounds.north)
                    .max(distance(bounds.east, bounds.north))
                    .max(distance(bounds.west, bounds.south))
                    .max(distance(bounds.east, bounds.south))
            }
        }
    }
}

/// Neighbours of a cell, as columns to the east and rows to the north, in the order in which they
/// are searched.
const NEIGHBOURS: [(i32, i32); 8] =
    [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

/// Degrees that a width spans along a parallel.
fn degrees_along(width_m: f64, latitude: f64) -> f64 {
    super::grid::degrees(width_m / super::grid::EARTH_RADIUS_M / radians(latitude).cos())
}

/// Step of the finest grid of which a cell and its neighbours cover a reach, as an estimate.
fn step_for(mut reach_m: f64, latitude: f64) -> u32 {
    if reach_m == 0.0 {
        return STEP_MAX;
    }
    let mut step: i32 = -1;
    while reach_m < HALF_MAP_M {
        reach_m *= 2.0;
        step += 1;
    }
    // Cells are narrower near the poles.
    step -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    step.clamp(1, STEP_MAX as i32) as u32
}

/// True if the neighbours of a cell in the four directions reach to the bounds.
fn is_covered(cell: Cell, bounds: Area) -> bool {
    // Bounds that are no numbers are reached.
    let is_short = cell.moved(0, 1).area().north < bounds.north
        || cell.moved(0, -1).area().south > bounds.south
        || cell.moved(1, 0).area().east < bounds.east
        || cell.moved(-1, 0).area().west > bounds.west;
    !is_short
}
