//! Replies that wait until the records which they depend on are written or durable.
//!
//! They are apart from the connection's output, so that nothing that sends output can take them
//! along. There are at most two groups: one whose record is settled, and one that gathers whatever
//! comes meanwhile, so that a client that never stops sending gets its replies.

use tidemill_engine::commit::RecordNumber;
use tidemill_resp::encode::ReplyBuffer;

/// Replies of one connection that wait. No memory while there are none.
#[derive(Debug, Default)]
pub(crate) struct HeldReplies(Option<Box<Groups>>);

#[derive(Debug)]
struct Groups {
    first: Group,
    second: Option<Group>,
}

#[derive(Debug)]
struct Group {
    /// Last record that they depend on.
    need: RecordNumber,
    replies: ReplyBuffer,
}

impl Group {
    fn new(need: RecordNumber, reply: &mut ReplyBuffer) -> Group {
        let mut replies = ReplyBuffer::new(reply.protocol());
        replies.append(reply);
        Group { need, replies }
    }
}

impl HeldReplies {
    /// True if none wait.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        let Some(groups) = &self.0 else { return 0 };
        let second = groups.second.as_ref().map_or(0, |group| group.replies.len());
        groups.first.replies.len() + second
    }

    /// Keeps replies, behind those that wait already; `reply` is empty afterwards.
    pub(crate) fn hold(&mut self, need: RecordNumber, reply: &mut ReplyBuffer) {
        let Some(groups) = &mut self.0 else {
            self.0 = Some(Box::new(Groups { first: Group::new(need, reply), second: None }));
            return;
        };
        if need == groups.first.need && groups.second.is_none() {
            groups.first.replies.append(reply);
        } else if let Some(second) = &mut groups.second {
            second.need = need.max(second.need);
            second.replies.append(reply);
        } else {
            groups.second = Some(Group::new(need, reply));
        }
    }

    /// Moves replies whose records are released behind `output`.
    pub(crate) fn release(&mut self, released: RecordNumber, output: &mut ReplyBuffer) {
        while let Some(groups) = &mut self.0
            && groups.first.need <= released
        {
            output.append(&mut groups.first.replies);
            match groups.second.take() {
                Some(second) => groups.first = second,
                None => self.0 = None,
            }
        }
    }

    /// Drops them all.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use tidemill_resp::encode::Protocol;

    use super::*;

    fn reply(text: &str) -> ReplyBuffer {
        let mut reply = ReplyBuffer::new(Protocol::Resp2);
        reply.raw(text.as_bytes());
        reply
    }

    #[test]
    fn replies_leave_in_order_and_not_before_their_records() {
        let mut held = HeldReplies::default();
        let mut output = reply("0");
        for (need, text) in [(3, "a"), (3, "b"), (5, "c"), (9, "d")] {
            held.hold(need, &mut reply(text));
        }
        assert_eq!(held.len(), 4);
        held.release(2, &mut output);
        assert_eq!(output.to_vec(), b"0");
        held.release(3, &mut output);
        assert_eq!(output.to_vec(), b"0ab");
        // Those gathered meanwhile wait for the last of their records.
        held.release(8, &mut output);
        assert_eq!(output.to_vec(), b"0ab");
        held.hold(10, &mut reply("e"));
        held.release(9, &mut output);
        assert_eq!(output.to_vec(), b"0abcd");
        held.release(u64::MAX, &mut output);
        assert_eq!(output.to_vec(), b"0abcde");
        assert!(held.is_empty());
    }

    /// A client that sends without end: its first replies do not wait for its last.
    #[test]
    fn replies_that_come_meanwhile_do_not_put_earlier_ones_off() {
        let mut held = HeldReplies::default();
        let mut output = reply("");
        for number in 1..1000 {
            held.hold(number, &mut reply("x"));
            held.release(number.saturating_sub(10), &mut output);
        }
        assert!(held.len() <= 20, "{} replies wait", held.len());
    }
}
