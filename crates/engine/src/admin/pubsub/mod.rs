//! Commands about channels: subscribing, publishing, and who listens.

mod declarations;

use std::sync::Arc;

use tidemill_resp::encode::ReplyBuffer;

use crate::access::handler::Handler;
use crate::access::outcome::{Outcome, Stop};
use crate::access::session_context::SessionCx;
use crate::command::Command;
use crate::error::CommandError;
use crate::pubsub::TopicKind;
use crate::pubsub::registry::{Pressure, PublishError};
use crate::slots::parking::WaitTarget;
use crate::worker::session::ReplyMode;
use crate::worker::subscriptions;

use declarations::*;

/// Commands that have subcommands only.
pub(crate) const CONTAINERS: &[&Command] = &[&PUBSUB];

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&SUBSCRIBE, Handler::Session(|cx| subscribe(cx, TopicKind::Channel))),
    (&UNSUBSCRIBE, Handler::Session(|cx| unsubscribe(cx, TopicKind::Channel))),
    (&PSUBSCRIBE, Handler::Session(|cx| subscribe(cx, TopicKind::Pattern))),
    (&PUNSUBSCRIBE, Handler::Session(|cx| unsubscribe(cx, TopicKind::Pattern))),
    (&SSUBSCRIBE, Handler::Session(|cx| subscribe(cx, TopicKind::ShardChannel))),
    (&SUNSUBSCRIBE, Handler::Session(|cx| unsubscribe(cx, TopicKind::ShardChannel))),
    (&PUBLISH, Handler::Session(|cx| publish(cx, TopicKind::Channel))),
    (&SPUBLISH, Handler::Session(|cx| publish(cx, TopicKind::ShardChannel))),
    (&PUBSUB_CHANNELS, Handler::Session(|cx| channels(cx, TopicKind::Channel))),
    (&PUBSUB_HELP, Handler::Session(help)),
    (&PUBSUB_NUMPAT, Handler::Session(numpat)),
    (&PUBSUB_NUMSUB, Handler::Session(|cx| numsub(cx, TopicKind::Channel))),
    (&PUBSUB_SHARDCHANNELS, Handler::Session(|cx| channels(cx, TopicKind::ShardChannel))),
    (&PUBSUB_SHARDNUMSUB, Handler::Session(|cx| numsub(cx, TopicKind::ShardChannel))),
];

fn subscribe(cx: &mut SessionCx<'_, '_>, kind: TopicKind) -> Outcome {
    for (index, name) in cx.args.iter().skip(1).enumerate() {
        let protocol = cx.reply.protocol();
        subscriptions::subscribe(cx.shared, cx.worker, cx.session, protocol, (kind, name));
        if index == 0 {
            take_earlier_messages(cx);
        }
        // Messages of the first topics wait until the last one is confirmed.
        confirm(cx, kind.subscribed_name(), Some(name), subscription_count(cx, kind));
    }
    // Behind the notes about its topics: who takes a channel away at this moment meets these, or is
    // seen here.
    let is_changed = cx.session.refresh_user(&cx.shared.users);
    if is_changed && !cx.session.client.may_stay_subscribed(cx.session.user()) {
        cx.session.close_after_reply = true;
    }
    Ok(())
}

fn unsubscribe(cx: &mut SessionCx<'_, '_>, kind: TopicKind) -> Outcome {
    let names: Vec<Arc<[u8]>> = match cx.args.len() {
        1 => cx.worker.receivers.topics(cx.session.id(), kind),
        _ => cx.args.iter().skip(1).map(Arc::from).collect(),
    };
    let mut counts = Vec::with_capacity(names.len());
    for name in &names {
        subscriptions::unsubscribe(cx.shared, cx.worker, cx.session, (kind, name));
        counts.push(subscription_count(cx, kind));
    }
    take_earlier_messages(cx);
    if names.is_empty() {
        confirm(cx, kind.unsubscribed_name(), None, subscription_count(cx, kind));
    }
    for (name, count) in names.iter().zip(counts) {
        confirm(cx, kind.unsubscribed_name(), Some(name), count);
    }
    Ok(())
}

/// Number of subscriptions that a confirmation tells.
fn subscription_count(cx: &SessionCx<'_, '_>, kind: TopicKind) -> usize {
    let [channels, patterns, shard_channels] = cx.worker.receivers.subscriptions(cx.session.id());
    match kind {
        TopicKind::ShardChannel => shard_channels,
        TopicKind::Channel | TopicKind::Pattern => channels + patterns,
    }
}

/// Puts the messages so far before the confirmations, which follow each other without a message
/// between them. Messages do not come between the replies of a transaction.
fn take_earlier_messages(cx: &mut SessionCx<'_, '_>) {
    if cx.session.reply_mode == ReplyMode::On && !cx.in_transaction {
        cx.worker.receivers.take_inbox(cx.session.id(), cx.reply);
    }
}

/// Confirms a subscription or its end. It is a push, which `CLIENT REPLY` does not silence.
fn confirm(cx: &mut SessionCx<'_, '_>, what: &str, name: Option<&[u8]>, count: usize) {
    let write = |reply: &mut ReplyBuffer| {
        reply.push(3);
        reply.bulk(what);
        match name {
            Some(name) => reply.bulk(name),
            None => reply.null(),
        }
        reply.integer(count as i64);
    };
    if cx.session.reply_mode == ReplyMode::On {
        return write(cx.reply);
    }
    cx.session.may_have_pushes = true;
    let (id, protocol) = (cx.session.id(), cx.reply.protocol());
    cx.worker.receivers.push_own((id, protocol), write);
}

fn publish(cx: &mut SessionCx<'_, '_>, kind: TopicKind) -> Outcome {
    let (channel, payload) = (cx.arg(1), cx.arg(2));
    let pressure = if cx.in_transaction { Pressure::CutOff } else { Pressure::Refuse };
    let shared = cx.shared;
    if let Some(outbox) = cx.unit.as_mut().and_then(|unit| unit.outbox()) {
        let receivers = shared.pubsub.receivers(kind, channel);
        if receivers > 0 && !outbox.message((kind, channel), payload) {
            return Err(CommandError::NoMemory(payload.len() as u64).into());
        }
        cx.reply.integer(receivers as i64);
        return Ok(());
    }
    match shared.pubsub.publish(&shared.lanes, (kind, channel), payload, pressure) {
        Ok(receivers) => {
            cx.reply.integer(receivers as i64);
            Ok(())
        }
        Err(PublishError::Crowded) => Err(Stop::wait(WaitTarget::Lane)),
        Err(PublishError::NoMemory) => Err(CommandError::NoMemory(payload.len() as u64).into()),
    }
}

fn channels(cx: &mut SessionCx<'_, '_>, kind: TopicKind) -> Outcome {
    let pattern = match cx.args.len() {
        2 => None,
        3 => Some(cx.arg(2)),
        _ => return Err(CommandError::subcommand_syntax("PUBSUB", cx.arg(1)).into()),
    };
    let channels = cx.shared.pubsub.channels(kind, pattern);
    cx.reply.array(channels.len());
    channels.iter().for_each(|channel| cx.reply.bulk(channel));
    Ok(())
}

fn numsub(cx: &mut SessionCx<'_, '_>, kind: TopicKind) -> Outcome {
    cx.reply.array((cx.args.len() - 2) * 2);
    for channel in cx.args.iter().skip(2) {
        cx.reply.bulk(channel);
        cx.reply.integer(cx.shared.pubsub.subscriber_count(kind, channel) as i64);
    }
    Ok(())
}

fn numpat(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.integer(cx.shared.pubsub.count(TopicKind::Pattern) as i64);
    Ok(())
}

fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "PUBSUB",
        &[
            ("CHANNELS [<pattern>]", "Channels that somebody subscribes to."),
            ("NUMPAT", "How many patterns somebody subscribes to."),
            ("NUMSUB [<channel> ...]", "Subscribers of channels, without those by pattern."),
            ("SHARDCHANNELS [<pattern>]", "Shard channels that somebody subscribes to."),
            ("SHARDNUMSUB [<shardchannel> ...]", "Subscribers of shard channels."),
        ],
    );
    Ok(())
}
