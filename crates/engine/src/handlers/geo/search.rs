//! `GEOSEARCH` and `GEORADIUS` with their forms that store.

use std::cmp::Ordering;

use tidemill_resp::number::parse_double;
use tidemill_resp::request::ArgumentView;
use tidemill_store::value::sorted_set::{Item, SortedSet};

use super::area::{Search, Shape};
use super::grid::Position;
use super::polygon::Polygon;
use super::position::{answer_distance, answer_position, position, unit_m};
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::command::{Flags, KeyPositions};
use crate::error::CommandError;
use crate::handlers::sorted_set::{self, Limits};
use crate::memory;

/// Order in which members are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// That of the cells, and of the scores within them.
    Unsorted,
    Nearest,
    Farthest,
}

/// Sorted set that takes the result.
#[derive(Clone, Copy, Debug)]
struct Target<'a> {
    key: &'a [u8],
    /// Scores are distances.
    has_distances: bool,
}

/// Request as it is read, from left to right: later options may replace earlier ones.
#[derive(Debug)]
struct Request<'a> {
    /// The command is `GEOSEARCH` or `GEOSEARCHSTORE`.
    is_search: bool,
    is_stored: bool,
    may_store: bool,
    /// Centre; the member that is the centre may be missing with its set.
    center: Option<Position>,
    has_member: bool,
    has_position: bool,
    shape: Option<Shape>,
    unit_m: f64,
    direction: Direction,
    /// Members that are answered at most.
    count: Option<u64>,
    /// Any members that are found first will do.
    is_any: bool,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    target: Option<Target<'a>>,
}

impl<'a> Request<'a> {
    fn new(name: &str) -> Request<'a> {
        Request {
            is_search: name.starts_with("geosearch"),
            is_stored: name == "geosearchstore",
            may_store: matches!(name, "georadius" | "georadiusbymember"),
            center: None,
            has_member: false,
            has_position: false,
            shape: None,
            unit_m: 1.0,
            direction: Direction::Unsorted,
            count: None,
            is_any: false,
            with_distance: false,
            with_hash: false,
            with_position: false,
            target: None,
        }
    }

    /// Reads the options from argument `index` on.
    fn parse(
        &mut self,
        args: &ArgumentView<'a>,
        mut index: usize,
        set: Option<SortedSet<'_>>,
    ) -> Result<(), CommandError> {
        while index < args.len() {
            let (option, left) = (args.get(index), args.len() - index - 1);
            let value = |nth: usize| args.get(index + nth);
            let taken = match () {
                () if is(option, "WITHDIST") => flag(&mut self.with_distance),
                () if is(option, "WITHHASH") => flag(&mut self.with_hash),
                () if is(option, "WITHCOORD") => flag(&mut self.with_position),
                () if is(option, "ANY") => flag(&mut self.is_any),
                () if is(option, "ASC") => {
                    self.direction = Direction::Nearest;
                    0
                }
                () if is(option, "DESC") => {
                    self.direction = Direction::Farthest;
                    0
                }
                () if is(option, "COUNT") && left >= 1 => {
                    let count = u64::try_from(integer(value(1))?).ok().filter(|&count| count > 0);
                    self.count = Some(count.ok_or("ERR COUNT must be > 0")?);
                    1
                }
                () if self.may_store && left >= 1 && is_target(option) => {
                    let has_distances = is(option, "STOREDIST");
                    self.target = Some(Target { key: value(1), has_distances });
                    1
                }
                () if self.is_search => self.parse_search(args, index, set)?,
                () => return Err(CommandError::Syntax),
            };
            index += 1 + taken;
        }
        Ok(())
    }

    /// Reads an option at argument `index` that only `GEOSEARCH` has; returns the number of its
    /// values.
    fn parse_search(
        &mut self,
        args: &ArgumentView<'a>,
        index: usize,
        set: Option<SortedSet<'_>>,
    ) -> Result<usize, CommandError> {
        let (option, left) = (args.get(index), args.len() - index - 1);
        let value = |nth: usize| args.get(index + nth);
        let is_circle = matches!(self.shape, Some(Shape::Circle { .. }));
        let is_box = matches!(self.shape, Some(Shape::Box { .. }));
        let is_polygon = matches!(self.shape, Some(Shape::Polygon(_)));
        match () {
            () if self.is_stored && is(option, "STOREDIST") => {
                self.target = self.target.map(|target| Target { has_distances: true, ..target });
                Ok(0)
            }
            () if is(option, "FROMMEMBER") && left >= 1 && !self.has_position && !is_polygon => {
                self.has_member = true;
                if let Some(set) = set {
                    self.center = Some(member_position(set, value(1))?);
                }
                Ok(1)
            }
            () if is(option, "FROMLONLAT") && left >= 2 && !self.has_member && !is_polygon => {
                self.center = Some(position(value(1), value(2))?);
                self.has_position = true;
                Ok(2)
            }
            () if is(option, "BYRADIUS") && left >= 2 && !is_box && !is_polygon => {
                self.parse_circle(value(1), value(2))?;
                Ok(2)
            }
            () if is(option, "BYBOX") && left >= 3 && !is_circle && !is_polygon => {
                self.parse_box(value(1), value(2), value(3))?;
                Ok(3)
            }
            () if is(option, "BYPOLYGON")
                && left >= 2
                && !is_circle
                && !is_box
                && !self.has_member
                && !self.has_position =>
            {
                self.parse_polygon(args, index + 1)
            }
            () => Err(CommandError::Syntax),
        }
    }

    fn parse_circle(&mut self, radius: &[u8], unit: &[u8]) -> Result<(), CommandError> {
        let radius = parse_double(radius).ok_or("ERR need numeric radius")?;
        if radius < 0.0 {
            return Err("ERR radius cannot be negative".into());
        }
        self.unit_m = unit_m(unit)?;
        self.shape = Some(Shape::Circle { radius });
        Ok(())
    }

    fn parse_box(&mut self, width: &[u8], height: &[u8], unit: &[u8]) -> Result<(), CommandError> {
        let width = parse_double(width).ok_or("ERR need numeric width")?;
        let height = parse_double(height).ok_or("ERR need numeric height")?;
        if width < 0.0 || height < 0.0 {
            return Err("ERR height or width cannot be negative".into());
        }
        self.unit_m = unit_m(unit)?;
        self.shape = Some(Shape::Box { width, height });
        Ok(())
    }

    /// Reads a polygon from the number of its corners on, at `index`; returns the number of
    /// arguments that it has.
    fn parse_polygon(
        &mut self,
        args: &ArgumentView<'a>,
        index: usize,
    ) -> Result<usize, CommandError> {
        let count = integer(args.get(index)).ok().and_then(|count| i32::try_from(count).ok());
        let count = count.ok_or("ERR invalid number of vertices")?;
        let first = index + 1;
        let possible = (args.len() - first) / 2;
        let count = usize::try_from(count).ok().filter(|count| (3..=possible).contains(count));
        let count = count.ok_or("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices")?;
        let mut corners = memory::with_capacity(count)?;
        for corner in (first..first + 2 * count).step_by(2) {
            corners.push(position(args.get(corner), args.get(corner + 1))?);
        }
        let polygon = Polygon::new(corners)?;
        self.unit_m = 1.0;
        self.center = Some(polygon.middle());
        self.shape = Some(Shape::Polygon(polygon));
        Ok(1 + 2 * count)
    }

    /// Fails if options are missing or contradict each other. `name` is the command as the client
    /// wrote it.
    fn check(&self, name: &[u8]) -> Result<(), CommandError> {
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            let subject =
                if self.is_stored { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(CommandError::err(format_args!(
                "{subject} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let has_center = self.has_member || self.has_position || self.center.is_some();
        if self.is_search && !has_center {
            let text = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(CommandError::quoting(text, name, ""));
        }
        if self.is_search && self.shape.is_none() {
            let text = "ERR exactly one of BYRADIUS, BYBOX and BYPOLYGON can be specified for ";
            return Err(CommandError::quoting(text, name, ""));
        }
        if self.is_any && self.count.is_none() {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }

    /// Area of the request; none without a set, whose member may be the centre.
    fn take_search(&mut self) -> Option<Search> {
        let (shape, center) = self.shape.take().zip(self.center)?;
        Some(Search { shape, center, unit_m: self.unit_m })
    }
}

/// Sets a flag, which has no values.
fn flag(flag: &mut bool) -> usize {
    *flag = true;
    0
}

fn is_target(option: &[u8]) -> bool {
    is(option, "STORE") || is(option, "STOREDIST")
}

fn member_position(set: SortedSet<'_>, member: &[u8]) -> Result<Position, CommandError> {
    let score = set.score(member);
    let missing = || CommandError::quoting("ERR member ", member, " does not exist");
    score.map(Position::of_score).ok_or_else(missing)
}

/// The key of `STORE` or `STOREDIST`, the last if there are several, for locking it and for
/// `COMMAND GETKEYS`.
pub(super) fn stored_key(args: &ArgumentView<'_>, positions: &mut KeyPositions) {
    let (mut index, mut stored) = (5, None);
    while index + 1 < args.len() {
        if is_target(args.get(index)) {
            index += 1;
            stored = Some(index);
        }
        index += 1;
    }
    positions.extend(stored);
}

/// Member that was found.
#[derive(Clone, Copy, Debug)]
struct Match<'g> {
    item: Item<'g>,
    position: Position,
    distance_m: f64,
    /// Place in the order in which members were found.
    nth: usize,
}

/// Members within a shape, in the order of the cells; `count` at most, if that is given.
fn find<'g>(
    set: SortedSet<'g>,
    search: &Search,
    count: Option<u64>,
) -> Result<Vec<Match<'g>>, CommandError> {
    let mut found: Vec<Match<'g>> = Vec::new();
    let is_full = |found: &Vec<_>| count.is_some_and(|count| found.len() as u64 >= count);
    for cell in search.cells() {
        let (first, end) = cell.scores();
        let items = set.iter_from(set.count_below(first as f64));
        for item in items.take_while(|item| item.score < end as f64) {
            if is_full(&found) {
                return Ok(found);
            }
            let position = Position::of_score(item.score);
            if let Some(distance_m) = search.distance_m(position) {
                let nth = found.len();
                memory::push(&mut found, Match { item, position, distance_m, nth })?;
            }
        }
    }
    Ok(found)
}

/// Orders members by distance, equal ones as they were found, and leaves the first `count`.
fn arrange(found: &mut Vec<Match<'_>>, direction: Direction, count: Option<u64>) {
    let len = found.len();
    let left = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(len).min(len);
    if direction != Direction::Unsorted {
        let compare = |one: &Match<'_>, other: &Match<'_>| {
            let order = one.distance_m.partial_cmp(&other.distance_m).unwrap_or(Ordering::Equal);
            let order = if direction == Direction::Farthest { order.reverse() } else { order };
            order.then(one.nth.cmp(&other.nth))
        };
        if left < len {
            found.select_nth_unstable_by(left, compare);
        }
        found[..left].sort_unstable_by(compare);
    }
    found.truncate(left);
}

/// `GEORADIUS`, `GEORADIUSBYMEMBER` and their forms that only read.
pub(super) fn georadius(cx: &mut Cx<'_, '_>) -> Outcome {
    let mut request = Request::new(cx.command.name);
    let set = source(cx, cx.arg(1))?;
    let is_by_member = cx.command.name.starts_with("georadiusbymember");
    let options_from = if is_by_member { 5 } else { 6 };
    if !is_by_member {
        request.center = Some(position(cx.arg(2), cx.arg(3))?);
        request.parse_circle(cx.arg(4), cx.arg(5))?;
    } else if let Some(set) = set {
        request.center = Some(member_position(set, cx.arg(2))?);
        request.parse_circle(cx.arg(3), cx.arg(4))?;
    }
    request.parse(cx.args, options_from, set)?;
    run(cx, request, set)
}

/// `GEOSEARCH` and `GEOSEARCHSTORE`.
pub(super) fn geosearch(cx: &mut Cx<'_, '_>) -> Outcome {
    let mut request = Request::new(cx.command.name);
    let source_index = if request.is_stored { 2 } else { 1 };
    let set = source(cx, cx.arg(source_index))?;
    if request.is_stored {
        request.target = Some(Target { key: cx.arg(1), has_distances: false });
    }
    request.parse(cx.args, source_index + 1, set)?;
    run(cx, request, set)
}

/// Set that is searched.
fn source<'g>(cx: &mut Cx<'_, 'g>, key: &'g [u8]) -> Result<Option<SortedSet<'g>>, CommandError> {
    if !cx.command.flags.contains(Flags::WRITE) {
        return cx.read_as::<SortedSet<'_>>(key);
    }
    let Some(entry) = cx.source(key) else { return Ok(None) };
    let set = entry.view::<SortedSet<'_>>(cx.seed());
    set.map(Some).ok_or(CommandError::WrongType)
}

fn run(cx: &mut Cx<'_, '_>, mut request: Request<'_>, set: Option<SortedSet<'_>>) -> Outcome {
    request.check(cx.arg(0))?;
    cx.check_work(set.map_or(0, |set| set.len()))?;
    let search = request.take_search();
    let mut found = Vec::new();
    if let Some((set, search)) = set.zip(search.as_ref()) {
        found = find(set, search, request.count.filter(|_| request.is_any))?;
        let is_nearest = request.count.is_some() && !request.is_any;
        if is_nearest && request.direction == Direction::Unsorted {
            request.direction = Direction::Nearest;
        }
        arrange(&mut found, request.direction, request.count);
    }
    match request.target {
        Some(target) => store(cx, &request, target, &found),
        None => {
            answer(cx, &request, &found);
            Ok(())
        }
    }
}

fn answer(cx: &mut Cx<'_, '_>, request: &Request<'_>, found: &[Match<'_>]) {
    let wanted = [request.with_distance, request.with_hash, request.with_position];
    let extra_count = wanted.into_iter().filter(|&is_wanted| is_wanted).count();
    cx.reply.array(found.len());
    for found in found {
        if extra_count > 0 {
            cx.reply.array(1 + extra_count);
        }
        cx.reply.bulk(found.item.member);
        if request.with_distance {
            answer_distance(cx.reply, found.distance_m / request.unit_m);
        }
        if request.with_hash {
            cx.reply.integer(found.item.score as i64);
        }
        if request.with_position {
            answer_position(cx.reply, found.position);
        }
    }
}

fn store(
    cx: &mut Cx<'_, '_>,
    request: &Request<'_>,
    target: Target<'_>,
    found: &[Match<'_>],
) -> Outcome {
    let items = memory::collect(found.iter().map(|found| match target.has_distances {
        true => Item { score: found.distance_m / request.unit_m, ..found.item },
        false => found.item,
    }))?;
    let limits = Limits::of(cx);
    let count = items.len() as u64;
    let is_skiplist = items.iter().any(|item| limits.are_exceeded(count, item.member));
    let event = if request.is_search { "geosearchstore" } else { "georadiusstore" };
    sorted_set::store(cx, target.key, items, is_skiplist, event)?;
    if count > 0 {
        cx.count_changes(count);
    }
    Ok(())
}
