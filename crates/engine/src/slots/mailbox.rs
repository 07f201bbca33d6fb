//! Mailboxes: work for the worker that owns a session.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_resp::encode::ReplyBuffer;

use crate::slots::waiter::WaitEnd;

/// Request of one worker to another.
#[derive(Debug)]
pub enum Message {
    /// A parked session runs its command again.
    Wake {
        /// The session.
        session: u64,
    },
    /// A blocked session was served, timed out by command, or killed; `reply` is what it gets.
    Unblocked {
        /// The session.
        session: u64,
        /// The wait that ended; an older one is ignored.
        waiter: u64,
        /// Its end, by which its command counts. None when it has counted already.
        end: Option<WaitEnd>,
        /// The reply.
        reply: ReplyBuffer,
        /// Keys that it has read before and changed now: it is told behind the reply.
        changed: Vec<Arc<[u8]>>,
    },
    /// A session ends.
    Kill {
        /// The session.
        session: u64,
    },
    /// A session ends because all clients take too much memory.
    Evict {
        /// The session.
        session: u64,
    },
}

impl Message {
    /// The session that it is for.
    #[must_use]
    pub fn session(&self) -> u64 {
        match *self {
            Message::Wake { session }
            | Message::Unblocked { session, .. }
            | Message::Kill { session }
            | Message::Evict { session } => session,
        }
    }
}

/// Wakes a worker that may be waiting for events.
pub trait Notify: Send + Sync + 'static {
    /// Makes the worker look into its mailbox soon. Must not block.
    fn notify(&self);
}

/// The mailbox of one worker.
struct Mailbox {
    messages: Mutex<Vec<Message>>,
    pending: AtomicBool,
    notify: Box<dyn Notify>,
}

/// The mailboxes of all workers.
pub struct Mailboxes {
    boxes: Box<[Mailbox]>,
}

impl fmt::Debug for Mailboxes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mailboxes").field("workers", &self.boxes.len()).finish()
    }
}

impl Mailboxes {
    /// One mailbox per notifier, in the order of the workers.
    #[must_use]
    pub fn new(notifiers: Vec<Box<dyn Notify>>) -> Mailboxes {
        let mailbox = |notify| Mailbox {
            messages: Mutex::default(),
            pending: AtomicBool::new(false),
            notify,
        };
        Mailboxes { boxes: notifiers.into_iter().map(mailbox).collect() }
    }

    /// Puts a message into a worker's mailbox and wakes the worker. Does not wait for it.
    pub fn post(&self, worker: usize, message: Message) {
        let mailbox = &self.boxes[worker];
        mailbox.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // AcqRel: the first to set the flag notifies; pairs with the swap in `take`.
        if !mailbox.pending.swap(true, Ordering::AcqRel) {
            mailbox.notify.notify();
        }
    }

    /// Wakes a worker without a message: something that it looks at by itself has changed.
    pub fn notify(&self, worker: usize) {
        self.boxes[worker].notify.notify();
    }

    /// True if messages wait for a worker; a hint, since others may post at the same moment.
    #[must_use]
    pub fn has_messages(&self, worker: usize) -> bool {
        // Relaxed: as in `take`.
        self.boxes[worker].pending.load(Ordering::Relaxed)
    }

    /// All messages that wait for a worker, in the order of their arrival.
    #[must_use]
    pub fn take(&self, worker: usize) -> Vec<Message> {
        let mailbox = &self.boxes[worker];
        // Relaxed: a message posted right now is announced by its notification.
        if !mailbox.pending.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // AcqRel: cleared before the messages are taken, so that a later one notifies again.
        mailbox.pending.swap(false, Ordering::AcqRel);
        std::mem::take(&mut mailbox.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
