//! Replies that wait until the records which they depend on are written or durable.
//!
//! They are apart from the connection's output, so that nothing that sends output can take them
//! along. There are at most two groups: one whose record is settled, and one that gathers whatever
//! comes meanwhile, so that a client that never stops sending gets its replies.

use tidemill_engine::commit::RecordNumber;
use tidemill_resp::encode::ReplyBuffer;

use crate::limits::{SPARE_REPLIES_MAX, SPARE_REPLY_BYTES_MAX};

/// Replies of one connection that wait. No memory while there are none.
#[derive(Debug, Default)]
pub(crate) struct HeldReplies(Option<Box<Groups>>);

/// Memory of a worker for replies that will wait: in most iterations those of the same number of
/// connections do, for some microseconds.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "they are handed out in their boxes")]
pub(crate) struct SpareGroups(Vec<Box<Groups>>);

impl SpareGroups {
    fn take(&mut self) -> Box<Groups> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps the memory, unless there is much already.
    fn give_back(&mut self, mut groups: Box<Groups>) {
        debug_assert!(groups.second.is_none());
        groups.first.replies.clear();
        let bytes = groups.first.replies.allocated_bytes();
        if bytes <= SPARE_REPLY_BYTES_MAX && self.0.len() < SPARE_REPLIES_MAX {
            self.0.push(groups);
        }
    }

    /// Gives half of the memory back.
    pub(crate) fn shrink(&mut self) {
        self.0.truncate(self.0.len() / 2);
        self.0.shrink_to(self.0.len());
    }
}

#[derive(Debug, Default)]
struct Groups {
    first: Group,
    second: Option<Group>,
}

#[derive(Debug, Default)]
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
    pub(crate) fn hold(
        &mut self,
        need: RecordNumber,
        reply: &mut ReplyBuffer,
        spare: &mut SpareGroups,
    ) {
        let Some(groups) = &mut self.0 else {
            let mut groups = spare.take();
            groups.first.need = need;
            groups.first.replies.set_protocol(reply.protocol());
            groups.first.replies.append(reply);
            self.0 = Some(groups);
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

    /// Lets `send` take all of them from where they are, if all are released; `None` otherwise.
    /// What it leaves is moved to `output`, which has to be empty.
    pub(crate) fn send_all<T>(
        &mut self,
        released: RecordNumber,
        output: &mut ReplyBuffer,
        spare: &mut SpareGroups,
        send: impl FnOnce(&mut ReplyBuffer) -> T,
    ) -> Option<T> {
        debug_assert!(output.is_empty(), "what waits comes behind the output");
        let mut groups = self.0.take_if(|groups| {
            let Groups { first, second } = &**groups;
            first.need <= released && second.is_none() && !first.replies.has_failed()
        })?;
        let sent = send(&mut groups.first.replies);
        if !groups.first.replies.is_empty() {
            output.append(&mut groups.first.replies);
        }
        spare.give_back(groups);
        Some(sent)
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
        let mut spare = SpareGroups::default();
        let mut output = reply("0");
        for (need, text) in [(3, "a"), (3, "b"), (5, "c"), (9, "d")] {
            held.hold(need, &mut reply(text), &mut spare);
        }
        assert_eq!(held.len(), 4);
        held.release(2, &mut output);
        assert_eq!(output.to_vec(), b"0");
        held.release(3, &mut output);
        assert_eq!(output.to_vec(), b"0ab");
        // Those gathered meanwhile wait for the last of their records.
        held.release(8, &mut output);
        assert_eq!(output.to_vec(), b"0ab");
        held.hold(10, &mut reply("e"), &mut spare);
        held.release(9, &mut output);
        assert_eq!(output.to_vec(), b"0abcd");
        held.release(u64::MAX, &mut output);
        assert_eq!(output.to_vec(), b"0abcde");
        assert!(held.is_empty());
    }

    #[test]
    fn replies_are_sent_from_where_they_are_once_all_are_released() {
        let (mut held, mut spare) = (HeldReplies::default(), SpareGroups::default());
        let mut output = reply("");
        let never = |_: &mut ReplyBuffer| panic!("they wait");
        assert_eq!(held.send_all(9, &mut output, &mut spare, never), None);
        held.hold(3, &mut reply("abc"), &mut spare);
        held.hold(4, &mut reply("d"), &mut spare);
        // A part is released: the order is kept by the output.
        assert_eq!(held.send_all(3, &mut output, &mut spare, never), None);
        held.release(3, &mut output);
        assert_eq!(output.to_vec(), b"abc");
        output.clear();
        assert_eq!(held.send_all(3, &mut output, &mut spare, never), None);
        // The socket takes a part only.
        let sent = held.send_all(4, &mut output, &mut spare, |replies| replies.len());
        assert_eq!((sent, held.is_empty()), (Some(1), true));
        assert_eq!(output.to_vec(), b"d");
        output.clear();
        // Memory of replies that were sent has nothing of them.
        held.hold(5, &mut reply("e"), &mut spare);
        let sent = held.send_all(5, &mut output, &mut spare, |replies| {
            let sent = replies.to_vec();
            replies.clear();
            sent
        });
        assert_eq!(sent.as_deref(), Some(&b"e"[..]));
        assert!(output.is_empty() && held.is_empty());
    }

    /// A client that sends without end: its first replies do not wait for its last.
    #[test]
    fn replies_that_come_meanwhile_do_not_put_earlier_ones_off() {
        let mut held = HeldReplies::default();
        let mut spare = SpareGroups::default();
        let mut output = reply("");
        for number in 1..1000 {
            held.hold(number, &mut reply("x"), &mut spare);
            held.release(number.saturating_sub(10), &mut output);
        }
        assert!(held.len() <= 20, "{} replies wait", held.len());
    }
}
