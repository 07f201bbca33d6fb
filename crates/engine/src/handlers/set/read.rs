//! Reading sets.

use tidemill_store::value::set::{Member, Set};
use tidemill_store::{Encoding, Kind};

use super::member::{answer, member_of, with_text};
use super::pieces::SetElements;
use crate::access::context::Cx;
use crate::access::options::{ScanOptions, parse_cursor};
use crate::access::outcome::Outcome;
use crate::glob;
use crate::long_reply::LongReply;
use crate::memory;

pub(super) fn sismember(cx: &mut Cx<'_, '_>) -> Outcome {
    let set = cx.read_as::<Set<'_>>(cx.arg(1))?;
    let is_member = set.is_some_and(|set| set.contains(member_of(cx.arg(2))));
    cx.reply.integer(i64::from(is_member));
    Ok(())
}

pub(super) fn smismember(cx: &mut Cx<'_, '_>) -> Outcome {
    let set = cx.read_as::<Set<'_>>(cx.arg(1))?;
    let args = cx.args;
    cx.reply.array(args.len() - 2);
    for argument in args.iter().skip(2) {
        let is_member = set.is_some_and(|set| set.contains(member_of(argument)));
        cx.reply.integer(i64::from(is_member));
    }
    Ok(())
}

pub(super) fn scard(cx: &mut Cx<'_, '_>) -> Outcome {
    let set = cx.read_as::<Set<'_>>(cx.arg(1))?;
    cx.reply.integer(set.map_or(0, |set| set.len()) as i64);
    Ok(())
}

pub(super) fn smembers(cx: &mut Cx<'_, '_>) -> Outcome {
    let Some(set) = cx.read_as::<Set<'_>>(cx.arg(1))? else {
        cx.reply.set(0);
        return Ok(());
    };
    let length = set.len();
    let version = cx.pin(cx.arg(1), length, (length, set.bytes()))?;
    cx.reply.set(length as usize);
    if let Some(version) = version {
        return cx.answer_in_pieces(LongReply::new(version, SetElements, 0..length));
    }
    set.iter().for_each(|member| answer(cx.reply, member));
    Ok(())
}

pub(super) fn sscan(cx: &mut Cx<'_, '_>) -> Outcome {
    let cursor = parse_cursor(cx.arg(2))?;
    let entry = cx.read_kind(cx.arg(1), Kind::Set)?;
    let Some((entry, set)) =
        entry.and_then(|entry| Some((entry, entry.view::<Set<'_>>(cx.seed())?)))
    else {
        // Without a set nobody looks at the options.
        cx.reply.array(2);
        cx.reply.bulk("0");
        cx.reply.array(0);
        return Ok(());
    };
    let options = ScanOptions::parse(cx.args, None)?;
    let mut found: Vec<Member<'_>> = Vec::new();
    let mut noted = Ok(());
    let visit = |member| {
        let is_match = |pattern| with_text(member, |text| glob::matches(pattern, text, false));
        if noted.is_ok() && options.pattern.is_none_or(is_match) {
            noted = memory::push(&mut found, member);
        }
    };
    let next = match entry.encoding() {
        Encoding::Hashtable => set.scan(cursor, options.count, visit),
        // A small encoding is walked in one step, as in Valkey.
        _ => {
            set.iter().for_each(visit);
            0
        }
    };
    noted?;
    cx.reply.array(2);
    cx.reply.bulk(next.to_string());
    cx.reply.array(found.len());
    found.into_iter().for_each(|member| answer(cx.reply, member));
    Ok(())
}
