//! Positions of members: adding them, reading them, distances.

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::number::parse_double;
use tidemill_store::value::sorted_set::SortedSet;

use super::grid::{LATITUDE_MAX, LONGITUDE_MAX, Position};
use crate::access::context::Cx;
use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::error::{CommandError, until_nul};
use crate::handlers::sorted_set::{AddOptions, add_and_answer};
use crate::memory;

/// Reads a position from two arguments.
pub(super) fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, CommandError> {
    let number = |text| parse_double(text).ok_or(CommandError::NotAFloat);
    let position = Position { longitude: number(longitude)?, latitude: number(latitude)? };
    let Position { longitude, latitude } = position;
    if longitude.abs() > LONGITUDE_MAX || latitude.abs() > LATITUDE_MAX {
        let pair = format_args!("invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        return Err(CommandError::err(pair));
    }
    Ok(position)
}

/// Reads a unit: its metres.
pub(super) fn unit_m(argument: &[u8]) -> Result<f64, CommandError> {
    let argument = until_nul(argument);
    match () {
        () if is(argument, "m") => Ok(1.0),
        () if is(argument, "km") => Ok(1000.0),
        () if is(argument, "ft") => Ok(0.3048),
        () if is(argument, "mi") => Ok(1609.34),
        () => Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    }
}

/// Answers a distance, with four digits behind the point.
pub(super) fn answer_distance(reply: &mut ReplyBuffer, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as u64;
    reply.bulk(format!("{}.{:04}", scaled / 10_000, scaled % 10_000));
}

/// Answers longitude and latitude.
pub(super) fn answer_position(reply: &mut ReplyBuffer, position: Position) {
    reply.array(2);
    for degrees in [position.longitude, position.latitude] {
        let digits = format!("{degrees:.17}");
        reply.double_text(digits.trim_end_matches('0').trim_end_matches('.'));
    }
}

pub(super) fn geoadd(cx: &mut Cx<'_, '_>) -> Outcome {
    let (args, mut options) = (cx.args, AddOptions::default());
    let mut first = 2;
    while first < args.len() {
        let argument = args.get(first);
        match () {
            () if is(argument, "NX") => options.if_absent = true,
            () if is(argument, "XX") => options.if_present = true,
            () if is(argument, "CH") => options.counts_updates = true,
            () => break,
        }
        first += 1;
    }
    let count = args.len() - first;
    let contradicts = options.if_absent && options.if_present;
    if count == 0 || !count.is_multiple_of(3) || contradicts {
        return Err(CommandError::Syntax.into());
    }
    let mut pairs = memory::with_capacity(count / 3)?;
    for index in (first..args.len()).step_by(3) {
        let position = position(args.get(index), args.get(index + 1))?;
        pairs.push((position.score(), args.get(index + 2)));
    }
    add_and_answer(cx, args.get(1), options, &pairs)
}

pub(super) fn geopos(cx: &mut Cx<'_, '_>) -> Outcome {
    let set = cx.read_as::<SortedSet<'_>>(cx.arg(1))?;
    let args = cx.args;
    cx.reply.array(args.len() - 2);
    for member in args.iter().skip(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => answer_position(cx.reply, Position::of_score(score)),
            None => cx.reply.null_array(),
        }
    }
    Ok(())
}

pub(super) fn geohash(cx: &mut Cx<'_, '_>) -> Outcome {
    let set = cx.read_as::<SortedSet<'_>>(cx.arg(1))?;
    let args = cx.args;
    cx.reply.array(args.len() - 2);
    for member in args.iter().skip(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => cx.reply.bulk(Position::of_score(score).geohash()),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn geodist(cx: &mut Cx<'_, '_>) -> Outcome {
    let unit_m = match cx.args.len() {
        4 => 1.0,
        5 => unit_m(cx.arg(4))?,
        _ => return Err(CommandError::Syntax.into()),
    };
    let set = cx.read_as::<SortedSet<'_>>(cx.arg(1))?;
    let place = |member| set.and_then(|set| set.score(member)).map(Position::of_score);
    match place(cx.arg(2)).zip(place(cx.arg(3))) {
        Some((from, to)) => answer_distance(cx.reply, from.distance_m(to) / unit_m),
        None => cx.reply.null(),
    }
    Ok(())
}
