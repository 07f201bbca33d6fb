//! Reading scores, ranks and counts.

use tidemill_resp::number::{format_double, format_double_17_digits};
use tidemill_store::value::sorted_set::{Item, SortedSet};
use tidemill_store::{Encoding, Kind};

use super::bounds::{Bounds, By};
use crate::access::context::Cx;
use crate::access::options::{ScanOptions, is, parse_cursor};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::glob;
use crate::memory;

pub(super) fn zcard(cx: &mut Cx<'_, '_>) -> Outcome {
    let length = cx.read_as::<SortedSet<'_>>(cx.arg(1))?.map_or(0, |set| set.len());
    cx.reply.integer(length as i64);
    Ok(())
}

pub(super) fn zscore(cx: &mut Cx<'_, '_>) -> Outcome {
    let set = cx.read_as::<SortedSet<'_>>(cx.arg(1))?;
    let member = cx.arg(2);
    let hint = cx.score_hint(member);
    reply_score(cx, set.and_then(|set| set.score_near(member, hint)));
    Ok(())
}

pub(super) fn zmscore(cx: &mut Cx<'_, '_>) -> Outcome {
    let set = cx.read_as::<SortedSet<'_>>(cx.arg(1))?;
    let args = cx.args;
    cx.reply.array(args.len() - 2);
    for member in args.iter().skip(2) {
        reply_score(cx, set.and_then(|set| set.score(member)));
    }
    Ok(())
}

fn reply_score(cx: &mut Cx<'_, '_>, score: Option<f64>) {
    match score {
        Some(score) => cx.reply.double(score),
        None => cx.reply.null(),
    }
}

/// `ZRANK` and `ZREVRANK`.
pub(super) fn zrank(cx: &mut Cx<'_, '_>) -> Outcome {
    if cx.args.len() > 4 {
        return Err(CommandError::Arity(cx.command.name.into()).into());
    }
    let with_score = cx.args.len() == 4;
    if with_score && !is(cx.arg(3), "WITHSCORE") {
        return Err(CommandError::Syntax.into());
    }
    let set = cx.read_as::<SortedSet<'_>>(cx.arg(1))?;
    let found = set.and_then(|set| {
        let (rank, score) = set.rank_near(cx.arg(2), cx.score_hint(cx.arg(2)))?;
        let is_from_end = cx.command.name == "zrevrank";
        Some((if is_from_end { set.len() - 1 - rank } else { rank }, score))
    });
    match found {
        Some((rank, score)) if with_score => {
            cx.reply.array(2);
            cx.reply.integer(rank as i64);
            cx.reply.double(score);
        }
        Some((rank, _)) => cx.reply.integer(rank as i64),
        None if with_score => cx.reply.null_array(),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn zcount(cx: &mut Cx<'_, '_>) -> Outcome {
    count(cx, By::Score)
}

pub(super) fn zlexcount(cx: &mut Cx<'_, '_>) -> Outcome {
    count(cx, By::Member)
}

fn count(cx: &mut Cx<'_, '_>, by: By) -> Outcome {
    let bounds = Bounds::parse(by, cx.arg(2), cx.arg(3))?;
    let set = cx.read_as::<SortedSet<'_>>(cx.arg(1))?;
    let ranks = set.map_or(0..0, |set| bounds.ranks(set, false));
    cx.reply.integer((ranks.end - ranks.start) as i64);
    Ok(())
}

pub(super) fn zscan(cx: &mut Cx<'_, '_>) -> Outcome {
    let cursor = parse_cursor(cx.arg(2))?;
    let entry = cx.read_kind(cx.arg(1), Kind::SortedSet)?;
    let set = entry.and_then(|entry| Some((entry, entry.view::<SortedSet<'_>>(cx.seed())?)));
    let Some((entry, set)) = set else {
        // Without a sorted set nobody looks at the options.
        cx.reply.array(2);
        cx.reply.bulk("0");
        cx.reply.array(0);
        return Ok(());
    };
    let ScanOptions { pattern, count, names_only } = ScanOptions::parse(cx.args, Some("NOSCORES"))?;
    let mut found: Vec<Item<'_>> = Vec::new();
    let mut noted = Ok(());
    let visit = |item| {
        let Item { member, .. } = item;
        let is_wanted = pattern.is_none_or(|pattern| glob::matches(pattern, member, false));
        if is_wanted && noted.is_ok() {
            noted = memory::push(&mut found, item);
        }
    };
    let is_small = entry.encoding() == Encoding::Listpack;
    let next = match is_small {
        false => {
            let bytes = set.len().min(count as u64) * size_of::<f64>() as u64;
            set.scan(cursor, count, visit).map_err(|_| CommandError::NoMemory(bytes))?
        }
        // A small encoding is walked in one step, as in Valkey.
        true => {
            set.iter().for_each(visit);
            0
        }
    };
    noted?;
    cx.reply.array(2);
    cx.reply.bulk(next.to_string());
    cx.reply.array(found.len() * if names_only { 1 } else { 2 });
    for item in found {
        cx.reply.bulk(item.member);
        match (names_only, is_small) {
            (true, _) => {}
            (false, true) => cx.reply.bulk(format_double(item.score).as_str()),
            (false, false) => cx.reply.bulk(format_double_17_digits(item.score)),
        }
    }
    Ok(())
}
