//! Where sessions wait for something that another session has: a slot's lock, or the token.
//!
//! Waiting parks the session, never its worker: the session's place in line is kept here, its worker goes on with other
//! connections, and whoever releases the thing sends a wake-up to the worker's mailbox. A woken session runs its command
//! again from the start; being woken promises nothing.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_store::gate::Seat;
use tidemill_store::{ReleaseObserver, SlotNumber};

use crate::limits::PARKING_STRIPES;
use crate::mailbox::{Mailboxes, Message};

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The lock of a slot, or the end of a change of several slots.
    Slot(SlotNumber),
    /// The server's single token.
    Token,
    /// All other workers at a boundary. Nothing announces that: the session tries again after a while.
    Gate,
    /// The end of a pause of clients. The session's worker knows when that is.
    Pause,
    /// Memory that the session's worker has to free first.
    Memory,
}

/// What lets a session go on that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeUp {
    /// A message: [`Message::Wake`].
    Message,
    /// A time, in monotonic microseconds.
    At(u64),
    /// The pause of clients is over, or another one: see [`Shared::pause_until_us`](crate::shared::Shared::pause_until_us).
    PauseEnd,
    /// The worker has freed enough memory: [`Worker::must_reclaim`](crate::worker::Worker::must_reclaim).
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

type Stripe = Mutex<HashMap<Place, Vec<Ticket>>>;

/// All waiting sessions.
#[derive(Debug)]
pub struct Parking {
    stripes: Box<[Stripe]>,
    mailboxes: Arc<Mailboxes>,
}

impl Parking {
    /// Nobody waits; wake-ups go to `mailboxes`.
    #[must_use]
    pub fn new(mailboxes: Arc<Mailboxes>) -> Parking {
        Parking { stripes: (0..PARKING_STRIPES).map(|_| Stripe::default()).collect(), mailboxes }
    }

    fn stripe(&self, place: Place) -> &Stripe {
        let index = match place {
            Place::Slot(slot) => slot.index(),
            Place::Token | Place::Gate | Place::Pause | Place::Memory => 0,
        };
        &self.stripes[index % self.stripes.len()]
    }

    /// Parks a session unless `announce` says that the place is free by now; tells whether it is parked.
    ///
    /// `announce` must make the waiting visible to the releaser and then look again, both sequentially consistent.
    #[must_use]
    pub fn park(&self, place: Place, ticket: Ticket, announce: impl FnOnce() -> bool) -> bool {
        let mut stripe = self.stripe(place).lock().unwrap_or_else(PoisonError::into_inner);
        // Under the stripe's lock: `wake_all` takes it before it clears the announcement.
        if !announce() {
            return false;
        }
        stripe.entry(place).or_default().push(ticket);
        true
    }

    /// Wakes everybody who waits for `place`; `clear` takes the announcement back.
    pub fn wake_all(&self, place: Place, clear: impl FnOnce()) {
        let waiting = {
            let mut stripe = self.stripe(place).lock().unwrap_or_else(PoisonError::into_inner);
            clear();
            stripe.remove(&place).unwrap_or_default()
        };
        for ticket in waiting {
            self.mailboxes.post(ticket.worker, Message::Wake { session: ticket.session });
        }
    }
}

/// Wakes the sessions that wait for a slot when it is released.
#[derive(Debug)]
pub struct SlotReleases(pub Arc<Parking>);

impl ReleaseObserver for SlotReleases {
    fn released(&self, slot: SlotNumber, clear: &dyn Fn()) {
        self.0.wake_all(Place::Slot(slot), clear);
    }
}

/// The server's single token: who has it may wait for slots while holding others.
#[derive(Debug, Default)]
pub struct Token {
    taken: AtomicBool,
    waiting: AtomicBool,
}

/// Possession of the token. Dropping it gives it back and wakes who waits for it.
#[derive(Debug)]
pub struct TokenGuard<'k> {
    token: &'k Token,
    parking: &'k Parking,
    /// The holder's seat at the gate: whoever has the token may close it.
    seat: Rc<Seat>,
}

impl TokenGuard<'_> {
    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }
}

impl Token {
    /// Takes the token for a session of the member with this seat, if it is free. Never waits.
    #[must_use]
    pub fn try_take<'k>(&'k self, parking: &'k Parking, seat: &Rc<Seat>) -> Option<TokenGuard<'k>> {
        // Acquire: pairs with the swap in `drop`. Relaxed on failure: nothing is read then.
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(TokenGuard { token: self, parking, seat: Rc::clone(seat) })
    }

    /// Announces that a session waits; `false` when the token is free by now.
    #[must_use]
    pub fn announce_waiting(&self) -> bool {
        // SeqCst on both: pairs with the swap and the load in `drop`, so that one of the two sees the other.
        self.waiting.store(true, Ordering::SeqCst);
        self.taken.load(Ordering::SeqCst)
    }
}

impl Drop for TokenGuard<'_> {
    fn drop(&mut self) {
        // SeqCst on both: pairs with `announce_waiting`; the swap's release half pairs with `try_take`.
        self.token.taken.swap(false, Ordering::SeqCst);
        if self.token.waiting.load(Ordering::SeqCst) {
            // Relaxed: under the stripe's lock, which orders it against announcements.
            self.parking
                .wake_all(Place::Token, || self.token.waiting.store(false, Ordering::Relaxed));
        }
    }
}
