//! Kinds of what a session subscribes to.

/// Kind of what a session subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicKind {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A channel of one slot.
    ShardChannel,
}

impl TopicKind {
    /// All kinds, in the order of their indices.
    pub const ALL: [TopicKind; 3] =
        [TopicKind::Channel, TopicKind::Pattern, TopicKind::ShardChannel];

    /// Its index in tables by kind.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// First element of a message to its subscribers.
    pub(crate) fn message_name(self) -> &'static str {
        match self {
            TopicKind::Channel => "message",
            TopicKind::Pattern => "pmessage",
            TopicKind::ShardChannel => "smessage",
        }
    }

    /// First element of the confirmation of a subscription.
    #[must_use]
    pub fn subscribed_name(self) -> &'static str {
        match self {
            TopicKind::Channel => "subscribe",
            TopicKind::Pattern => "psubscribe",
            TopicKind::ShardChannel => "ssubscribe",
        }
    }

    /// First element of the confirmation of its end.
    #[must_use]
    pub fn unsubscribed_name(self) -> &'static str {
        match self {
            TopicKind::Channel => "unsubscribe",
            TopicKind::Pattern => "punsubscribe",
            TopicKind::ShardChannel => "sunsubscribe",
        }
    }
}
