//! Sessions that wait for something that another session has: a slot's lock, or the token.
//!
//! Waiting parks the session, never its worker: the session's place in line is kept here, its
//! worker goes on with other connections, and the worker that releases the thing sends a wake-up to
//! the mailbox of the session's worker. A woken session runs its command again from the start;
//! being woken promises nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_store::{ReleaseObserver, SlotNumber};

use crate::limits::PARKING_STRIPES;
use crate::slots::mailbox::{Mailboxes, Message};

/// Resource or event that a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitTarget {
    /// The lock of a slot, or the end of a change of several slots.
    Slot(SlotNumber),
    /// The server's single token.
    Token,
    /// All other workers at a boundary. Nothing announces that: the session tries again after a
    /// while.
    Gate,
    /// The end of the loading that the session began (`DEBUG RELOAD`).
    Reload,
    /// The end of a pause of clients. The session's worker knows when that is.
    Pause,
    /// Memory that the session's worker has to free first.
    Memory,
    /// Memory within `maxmemory`, until a time in monotonic microseconds: keys are evicted by
    /// others meanwhile.
    Eviction {
        /// When the session tries again.
        until_us: u64,
    },
    /// The end of a migration, of which the session is told by a message.
    Migration,
    /// Room in the lane of a worker that has much to deliver: see
    /// [`Lanes::is_crowded`](crate::pubsub::lanes::Lanes::is_crowded). The session tries again
    /// after a while.
    Lane,
}

/// Event that lets a waiting session go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeUp {
    /// A message: [`Message::Wake`].
    Message,
    /// A time, in monotonic microseconds.
    At(u64),
    /// The pause of clients is over, or another one: see
    /// [`Shared::pause_until_us`](crate::shared::Shared::pause_until_us).
    PauseEnd,
    /// The worker has freed enough memory:
    /// [`Worker::must_reclaim`](crate::worker::Worker::must_reclaim).
    Memory,
}

/// A session that waits: its worker and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The index of the worker that owns the session.
    pub worker: usize,
    /// The session's id.
    pub session: u64,
}

impl Ticket {
    /// In the place of a worker: the waiter is a thread of its own, which looks by itself.
    pub const THREAD: usize = usize::MAX;
}

/// Sessions and workers that wait for one resource.
#[derive(Debug, Default)]
struct Waiting {
    sessions: Vec<Ticket>,
    /// Workers that have something of their own to do with it, each once.
    workers: Vec<usize>,
}

type Stripe = Mutex<HashMap<WaitTarget, Waiting>>;

/// All waiting sessions.
#[derive(Debug)]
pub struct Parking {
    stripes: Box<[Stripe]>,
    mailboxes: Arc<Mailboxes>,
}

impl Parking {
    /// Parking without a session; wake-ups go to `mailboxes`.
    #[must_use]
    pub fn new(mailboxes: Arc<Mailboxes>) -> Parking {
        Parking { stripes: (0..PARKING_STRIPES).map(|_| Stripe::default()).collect(), mailboxes }
    }

    fn stripe(&self, place: WaitTarget) -> &Stripe {
        let index = match place {
            WaitTarget::Slot(slot) => slot.index(),
            WaitTarget::Token
            | WaitTarget::Gate
            | WaitTarget::Reload
            | WaitTarget::Pause
            | WaitTarget::Memory
            | WaitTarget::Lane
            | WaitTarget::Migration
            | WaitTarget::Eviction { .. } => 0,
        };
        &self.stripes[index % self.stripes.len()]
    }

    /// Parks a session unless `announce` says that the place is free by now; tells whether it is
    /// parked.
    ///
    /// `announce` must make the waiting visible to the releaser and then look again, both
    /// sequentially consistent.
    #[must_use]
    pub fn park(&self, place: WaitTarget, ticket: Ticket, announce: impl FnOnce() -> bool) -> bool {
        self.enter(place, announce, |waiting| waiting.sessions.push(ticket))
    }

    /// As [`Parking::park`], for a worker that tries again by itself what it has left to do: it is
    /// woken without a message. A worker that is parked there already is not parked twice, so it
    /// may try as often as it likes.
    #[must_use]
    pub fn park_worker(
        &self,
        place: WaitTarget,
        worker: usize,
        announce: impl FnOnce() -> bool,
    ) -> bool {
        self.enter(place, announce, |Waiting { workers, .. }| {
            if !workers.contains(&worker) {
                workers.push(worker);
            }
        })
    }

    /// Adds to those that wait for `place`, unless it is free by now; tells whether it was added.
    fn enter(
        &self,
        place: WaitTarget,
        announce: impl FnOnce() -> bool,
        add: impl FnOnce(&mut Waiting),
    ) -> bool {
        let mut stripe = self.stripe(place).lock().unwrap_or_else(PoisonError::into_inner);
        // Under the stripe's lock: `wake_all` takes it before it clears the announcement.
        let is_taken = announce();
        if is_taken {
            add(stripe.entry(place).or_default());
        }
        is_taken
    }

    /// Takes a session out that ends, wherever it waits.
    pub fn leave(&self, ticket: Ticket) {
        for stripe in &self.stripes {
            let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            stripe.retain(|_, waiting| {
                waiting.sessions.retain(|other| *other != ticket);
                !waiting.sessions.is_empty() || !waiting.workers.is_empty()
            });
        }
    }

    /// Wakes everybody who waits for a slot, whichever it is; all of them are still taken.
    pub fn wake_every_slot(&self) {
        for stripe in &self.stripes {
            let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            let is_slot = |place: &WaitTarget| matches!(place, WaitTarget::Slot(_));
            let woken: Vec<_> = stripe.extract_if(|place, _| is_slot(place)).collect();
            drop(stripe);
            woken.into_iter().for_each(|(_, waiting)| self.wake(waiting));
        }
    }

    /// Wakes everybody who waits for `place`; `clear` takes the announcement back.
    pub fn wake_all(&self, place: WaitTarget, clear: impl FnOnce()) {
        let waiting = {
            let mut stripe = self.stripe(place).lock().unwrap_or_else(PoisonError::into_inner);
            clear();
            stripe.remove(&place).unwrap_or_default()
        };
        self.wake(waiting);
    }

    fn wake(&self, waiting: Waiting) {
        for ticket in waiting.sessions {
            self.mailboxes.post(ticket.worker, Message::Wake { session: ticket.session });
        }
        for worker in waiting.workers {
            self.mailboxes.notify(worker);
        }
    }
}

/// Wakes the sessions that wait for a slot when it is released.
#[derive(Debug)]
pub struct SlotReleases(pub Arc<Parking>);

impl ReleaseObserver for SlotReleases {
    fn released(&self, slot: SlotNumber, clear: &dyn Fn()) {
        self.0.wake_all(WaitTarget::Slot(slot), clear);
    }
}
