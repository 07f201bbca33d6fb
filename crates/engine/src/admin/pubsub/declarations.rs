//! Declarations of the commands about channels: a row each, then what differs from the family.

use crate::command::prelude::*;

const CHANNELS: Command = Command::session(Group::PubSub, Categories::PUBSUB);

/// Commands of a subscriber.
const SUBSCRIBER: Command = CHANNELS.flags(&[Flags::PUBSUB, NOSCRIPT, LOADING, STALE]);

/// Commands of a publisher.
const PUBLISHER: Command = CHANNELS.flags(&[Flags::PUBSUB, LOADING, STALE, FAST, MAY_REPLICATE]);

/// Questions about subscriptions.
const QUESTION: Command = CHANNELS.flags(&[Flags::PUBSUB, LOADING, STALE]);

const NOT_KEY: &[KeyFlags] = &[KeyFlags::NOT_KEY];

pub(super) const SUBSCRIBE: Command = SUBSCRIBER
    .command("subscribe", -2, "2.0.0", "Subscribes to channels.")
    .more_flags(&[REGISTERS])
    .complexity("O(N) where N is the number of channels to subscribe to.")
    .channels(Channels::all())
    .arguments(&[string("channel").multiple()]);

pub(super) const UNSUBSCRIBE: Command = SUBSCRIBER
    .command("unsubscribe", -1, "2.0.0", "Ends subscriptions to channels.")
    .complexity("O(N) where N is the number of channels to unsubscribe.")
    .arguments(&[string("channel").optional().multiple()]);

pub(super) const PSUBSCRIBE: Command = SUBSCRIBER
    .command("psubscribe", -2, "2.0.0", "Subscribes to all channels that match patterns.")
    .more_flags(&[REGISTERS])
    .complexity("O(N) where N is the number of patterns to subscribe to.")
    .channels(Channels::patterns())
    .arguments(&[pattern("pattern").multiple()]);

pub(super) const PUNSUBSCRIBE: Command = SUBSCRIBER
    .command("punsubscribe", -1, "2.0.0", "Ends subscriptions to patterns.")
    .complexity("O(N) where N is the number of patterns to unsubscribe.")
    .arguments(&[pattern("pattern").optional().multiple()]);

pub(super) const SSUBSCRIBE: Command = SUBSCRIBER
    .command("ssubscribe", -2, "7.0.0", "Subscribes to shard channels.")
    .more_flags(&[REGISTERS])
    .complexity("O(N) where N is the number of shard channels to subscribe to.")
    .channels(Channels::all())
    .keys(&[KeySpec::all(NOT_KEY)])
    .arguments(&[string("shardchannel").multiple()]);

pub(super) const SUNSUBSCRIBE: Command = SUBSCRIBER
    .command("sunsubscribe", -1, "7.0.0", "Ends subscriptions to shard channels.")
    .complexity("O(N) where N is the number of shard channels to unsubscribe.")
    .keys(&[KeySpec::all(NOT_KEY)])
    .arguments(&[string("shardchannel").optional().multiple()]);

pub(super) const PUBLISH: Command = PUBLISHER
    .command("publish", 3, "2.0.0", "Sends a message to the subscribers of a channel.")
    .complexity(
        "O(N+M) where N is the number of clients subscribed to the receiving channel and M is \
         the number of subscribed patterns that begin like the channel",
    )
    .channels(Channels::first())
    .arguments(&[string("channel"), string("message")]);

pub(super) const SPUBLISH: Command = PUBLISHER
    .command("spublish", 3, "7.0.0", "Sends a message to the subscribers of a shard channel.")
    .complexity("O(N) where N is the number of clients subscribed to the receiving shard channel.")
    .keys(&[KeySpec::first(NOT_KEY)])
    .channels(Channels::first())
    .arguments(&[string("shardchannel"), string("message")]);

pub(super) const PUBSUB: Command = CHANNELS.container(
    "pubsub",
    "2.8.0",
    "Commands about who listens to channels.",
    &[
        &PUBSUB_CHANNELS,
        &PUBSUB_HELP,
        &PUBSUB_NUMPAT,
        &PUBSUB_NUMSUB,
        &PUBSUB_SHARDCHANNELS,
        &PUBSUB_SHARDNUMSUB,
    ],
);

pub(super) const PUBSUB_CHANNELS: Command = QUESTION
    .command("pubsub|channels", -2, "2.8.0", "Answers the channels with subscribers.")
    .complexity("O(N) where N is the number of active channels")
    .arguments(&[pattern("pattern").optional()]);

pub(super) const PUBSUB_HELP: Command =
    Command::session(Group::PubSub, Categories::empty()).help("pubsub|help", "6.2.0");

pub(super) const PUBSUB_NUMPAT: Command =
    QUESTION.command("pubsub|numpat", 2, "2.8.0", "Counts the patterns with subscribers.");

pub(super) const PUBSUB_NUMSUB: Command = QUESTION
    .command("pubsub|numsub", -2, "2.8.0", "Counts the subscribers of channels.")
    .complexity("O(N) where N is the number of requested channels")
    .arguments(&[string("channel").optional().multiple()]);

pub(super) const PUBSUB_SHARDCHANNELS: Command = QUESTION
    .command("pubsub|shardchannels", -2, "7.0.0", "Answers the shard channels with subscribers.")
    .complexity("O(N) where N is the number of active shard channels")
    .arguments(&[pattern("pattern").optional()]);

pub(super) const PUBSUB_SHARDNUMSUB: Command = QUESTION
    .command("pubsub|shardnumsub", -2, "7.0.0", "Counts the subscribers of shard channels.")
    .complexity("O(N) where N is the number of requested shard channels")
    .arguments(&[string("shardchannel").optional().multiple()]);
