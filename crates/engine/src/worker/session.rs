//! The state of one connection that commands see.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidemill_resp::request::{ArgumentView, OwnedArguments};

use crate::acl::{Account, BriefReads, User, Users};
use crate::command::CommandId;
use crate::keys_walk::KeysWalk;
use crate::limits::SESSION_BYTES;
use crate::long_reply::LongReply;
use crate::shared::Shared;
use crate::shared::clients::Client;
use crate::slots::parking::{Ticket, WaitTarget};
use crate::slots::registry::WatchFlag;
use crate::slots::tracked::Tracker;
use crate::slots::waiter::Waiter;
use crate::worker::Worker;

/// A command queued in `MULTI`.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) id: CommandId,
    pub(crate) arguments: OwnedArguments,
}

/// An open `MULTI`.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) queued: Vec<Queued>,
    /// Memory that the queued commands take.
    pub(crate) queued_bytes: usize,
    /// Database that the next command will run in, as the queued `SELECT`s leave it.
    pub(crate) database: usize,
    /// A command could not be queued: `EXEC` will refuse.
    pub(crate) is_aborted: bool,
}

impl Transaction {
    /// Queues a copy of a command; none if there is no memory for it.
    #[must_use]
    pub(crate) fn try_queue(&mut self, id: CommandId, args: &ArgumentView<'_>) -> Option<()> {
        let arguments = OwnedArguments::try_new(args)?;
        self.queued.try_reserve(1).ok()?;
        self.queued_bytes += size_of::<Queued>() + arguments.allocated_bytes();
        self.queued.push(Queued { id, arguments });
        Some(())
    }

    /// A command could not be queued. None will run, so none is kept.
    pub(crate) fn abort(&mut self) {
        self.is_aborted = true;
        self.queued = Vec::new();
        self.queued_bytes = 0;
    }
}

/// A watched key.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct WatchedKey {
    pub(crate) database: usize,
    pub(crate) key: Box<[u8]>,
}

/// Keys that a session watches.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) flag: Arc<WatchFlag>,
    pub(crate) keys: HashSet<WatchedKey>,
    /// Memory that the keys and their registrations take.
    pub(crate) bytes: usize,
}

/// Keys that a session is told of (`CLIENT TRACKING`).
#[derive(Debug)]
pub(crate) struct SessionTracking {
    /// Place of its keys.
    pub(crate) tracker: Arc<Tracker>,
    pub(crate) mode: TrackingMode,
    /// `CLIENT CACHING` was sent, for the next command or transaction.
    pub(crate) is_caching_given: bool,
    /// The present command leaves that as it is.
    pub(crate) keeps_caching: bool,
}

/// Options of `CLIENT TRACKING`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrackingMode {
    /// All changes of keys with a prefix are told, whatever it has read.
    pub(crate) is_broadcast: bool,
    /// Reads are tracked behind `CLIENT CACHING YES` only.
    pub(crate) is_opt_in: bool,
    /// Reads are tracked, but behind `CLIENT CACHING NO`.
    pub(crate) is_opt_out: bool,
    /// Its own changes are not told to it.
    pub(crate) is_noloop: bool,
}

impl SessionTracking {
    /// The tracker, if what is read now is to be tracked.
    pub(crate) fn of_reads(&self) -> Option<&Arc<Tracker>> {
        let TrackingMode { is_broadcast, is_opt_in, is_opt_out, .. } = self.mode;
        let is_left_out =
            is_opt_in && !self.is_caching_given || is_opt_out && self.is_caching_given;
        (!is_broadcast && !is_left_out).then_some(&self.tracker)
    }

    /// The next command begins; `is_about_client` if it is one of `CLIENT`'s.
    pub(crate) fn begin_command(&mut self, is_about_client: bool, is_in_transaction: bool) {
        if !self.keeps_caching && !is_in_transaction {
            self.is_caching_given = false;
        }
        self.keeps_caching = is_about_client;
    }
}

/// Replies that a client gets (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// None for the command that asks for it and for the next one.
    SkipNext,
    /// None for the command that is executed now.
    Skip,
}

/// Work that a command has begun and waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// `FLUSHALL`: the empty file of that number.
    EmptyFile(u32),
    /// `CONFIG SET appendonly no`: the end of the log.
    LogClosing,
    /// `DEBUG RELOAD` and `LOADAOF`: the end of the loading.
    Reload,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    /// Part of it that others see.
    pub client: Arc<Client>,
    /// The selected database.
    pub database: usize,
    /// True if it may run commands: it has authenticated, or needs not.
    pub is_authenticated: bool,
    has_authenticated: bool,
    /// True once it has authenticated, or needed not, whatever it did since.
    pub was_authenticated: bool,
    /// True if it replays a log: it may do everything, whatever users there are.
    pub(crate) replays: bool,
    /// True if its user may do everything: nothing of its commands needs to be looked at.
    pub(crate) is_unrestricted: bool,
    /// Brief reads of its user that need no look at their arguments.
    pub(crate) brief_reads: BriefReads,
    /// The present command may read keys that its arguments do not name.
    pub(crate) may_discover_keys: bool,
    account: Arc<Account>,
    /// User of the account, as of `users_version`.
    user: Arc<User>,
    users_version: u64,
    /// Replies that it gets.
    pub reply_mode: ReplyMode,
    /// Its reads do not count as uses of keys (`CLIENT NO-TOUCH`).
    pub no_touch: bool,
    /// It sees all commands (`MONITOR`).
    pub is_monitor: bool,
    /// It subscribes to a channel or a pattern.
    pub is_subscriber: bool,
    /// Its inbox may have something although it subscribes to nothing any more, or it tracks keys.
    pub(crate) may_have_pushes: bool,
    /// The connection ends once its replies are sent.
    pub close_after_reply: bool,
    /// It ends because it sent an HTTP request.
    pub sent_http: bool,
    /// True once its input was no protocol.
    pub is_broken: bool,
    /// There was no memory for a reply of which a part was sent: the connection cannot go on.
    pub lacked_memory: bool,
    /// It ends because it asked for a reply beyond the limit of what clients are sent.
    pub exceeds_output_limit: bool,
    pub(crate) transaction: Option<Box<Transaction>>,
    pub(crate) watch: Option<Box<Watch>>,
    pub(crate) waiter: Option<Arc<Waiter>>,
    /// It is told when keys change that it has read.
    pub(crate) tracking: Option<Box<SessionTracking>>,
    /// Rest of a reply that is made in pieces: it comes before the next request.
    pub(crate) pending_reply: Option<Box<LongReply>>,
    /// Its last request runs a script that goes on at its next turn: that comes before the next
    /// request.
    pub(crate) has_pending_script: bool,
    /// Attempts of the present command to lock its slots.
    pub(crate) lock_attempts: u32,
    /// When it began to wait for slots or the token, monotonic us, if it does.
    parked_since_us: Option<u64>,
    /// Vain attempts of the present command to close the gate.
    gate_attempts: u32,
    /// Number of times that the present command waited for a slot since it last passed one.
    slot_waits: u32,
    /// Position to which the present command has walked, when it had to wait in the midst of it.
    pub(crate) walk: Option<Box<KeysWalk>>,
    /// Work that the present command has begun already: it only waits when it is tried again.
    begun: Option<Begun>,
}

impl Session {
    /// The session of a client that has just connected.
    #[must_use]
    pub fn new(client: Arc<Client>, users: &Users) -> Session {
        let users_version = users.version();
        let account = Arc::clone(users.default_account());
        let user = account.user();
        let mut session = Session {
            client,
            database: 0,
            is_authenticated: false,
            has_authenticated: user.admits_everybody(),
            was_authenticated: false,
            replays: false,
            is_unrestricted: false,
            brief_reads: BriefReads::None,
            may_discover_keys: false,
            account,
            user,
            users_version,
            reply_mode: ReplyMode::On,
            no_touch: false,
            is_monitor: false,
            is_subscriber: false,
            may_have_pushes: false,
            close_after_reply: false,
            sent_http: false,
            is_broken: false,
            lacked_memory: false,
            exceeds_output_limit: false,
            transaction: None,
            watch: None,
            waiter: None,
            tracking: None,
            pending_reply: None,
            has_pending_script: false,
            lock_attempts: 0,
            parked_since_us: None,
            gate_attempts: 0,
            slot_waits: 0,
            walk: None,
            begun: None,
        };
        session.resolve_user(users);
        session
    }

    /// The session that replays a log.
    #[must_use]
    pub fn of_replay(client: Arc<Client>, users: &Users) -> Session {
        let mut session = Session::new(client, users);
        session.replays = true;
        session.resolve_user(users);
        session
    }

    /// Forgets a transaction that was begun.
    pub fn discard(&mut self) {
        self.transaction = None;
    }

    /// The user in whose name it acts.
    #[must_use]
    pub(crate) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Account of that user.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Picks up changes of users; true if there may be any. To be called before requests are
    /// executed that were read since.
    #[inline]
    pub fn refresh_user(&mut self, users: &Users) -> bool {
        let is_changed = users.version() != self.users_version;
        if is_changed {
            self.resolve_user(users);
        }
        is_changed
    }

    #[cold]
    fn resolve_user(&mut self, users: &Users) {
        // Before the user is loaded: one that is replaced meanwhile is loaded again.
        self.users_version = users.version();
        if self.account.is_deleted() {
            // Its deleter did not meet this client, which had not said yet whose it is.
            self.client.kill();
        }
        self.user = self.account.user();
        // While the default user lets everybody in, nobody needs to authenticate.
        self.is_authenticated = self.has_authenticated
            || users.default_account().user().admits_everybody()
            || self.replays;
        self.was_authenticated |= self.is_authenticated;
        self.is_unrestricted = self.user.is_unrestricted() || self.replays;
        self.may_discover_keys = self.is_unrestricted;
        self.brief_reads =
            if self.is_authenticated { self.user.brief_reads() } else { BriefReads::None };
    }

    /// Makes it act in the name of an account's user; false when the account was deleted meanwhile.
    #[must_use]
    pub(crate) fn authenticate(&mut self, users: &Users, account: Arc<Account>) -> bool {
        self.client.set_account(Some(Arc::clone(&account)));
        // Behind that: see `Account::is_deleted`.
        if account.is_deleted() {
            self.client.set_account(None);
            return false;
        }
        self.account = account;
        self.has_authenticated = true;
        self.resolve_user(users);
        true
    }

    /// Makes it act in the name of the default user again, as after connecting.
    pub(crate) fn forget_user(&mut self, users: &Users) {
        self.client.set_account(None);
        self.account = Arc::clone(users.default_account());
        self.has_authenticated = self.account.user().admits_everybody();
        self.resolve_user(users);
    }

    /// The session's id, which is its client's.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// Its place in a line, by the worker that owns it.
    pub(crate) fn ticket(&self, worker: usize) -> Ticket {
        Ticket { worker, session: self.id() }
    }

    /// Memory of the commands queued in `MULTI`: requests that were read and not executed yet.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.queued_bytes)
    }

    /// True if a command could not be queued, or a watched key changed: `EXEC` will run nothing.
    pub(crate) fn is_transaction_refused(&self) -> bool {
        let is_aborted = self.transaction.as_ref().is_some_and(|open| open.is_aborted);
        is_aborted || self.watch.as_ref().is_some_and(|watch| watch.flag.is_set())
    }

    /// Notes that a command of its transaction, if one is open, could not be queued.
    pub(crate) fn abort_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.abort();
            self.show_transaction();
        }
    }

    /// Lets others see how far its transaction is; as in Valkey, a session that ever watched or had
    /// one shows zero commands.
    pub(crate) fn show_transaction(&self) {
        let open = self.transaction.as_ref();
        let queued = open.map_or(0, |transaction| transaction.queued.len() as u64);
        // Relaxed: for others' information only.
        self.client.is_in_transaction.store(open.is_some(), Ordering::Relaxed);
        self.client.queued.store(queued, Ordering::Relaxed);
        self.client.queued_bytes.store(self.queued_bytes() as u64, Ordering::Relaxed);
    }

    /// True if it waits in a blocking command.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.waiter.is_some()
    }

    /// True if a reply is left that is made in pieces: it wants turns without further input.
    #[must_use]
    pub fn has_pending_reply(&self) -> bool {
        self.pending_reply.is_some()
    }

    /// True if a script of it goes on at its next turn, whatever becomes of its output.
    #[must_use]
    pub fn has_pending_script(&self) -> bool {
        self.has_pending_script
    }

    /// Vain attempts of the present command to close the gate.
    pub(crate) fn gate_attempts(&self) -> u32 {
        self.gate_attempts
    }

    /// Number of times that the present command waited for a slot since it last passed one.
    pub(crate) fn slot_waits(&self) -> u32 {
        self.slot_waits
    }

    /// The present command has what it waited for, and will not come back to it: what it waits for
    /// next has its own attempts.
    pub(crate) fn pass_slot(&mut self, shared: &Shared, worker: usize) {
        if self.lock_attempts > 0 {
            (self.slot_waits, self.gate_attempts) = (0, 0);
            shared.token.leave(self.ticket(worker));
        }
    }

    /// The present command has begun something whose end it waits for.
    pub(crate) fn note_begun(&mut self, begun: Begun) {
        self.begun = Some(begun);
    }

    /// Work that the present command has begun and waited for, if it has.
    pub(crate) fn take_begun(&mut self) -> Option<Begun> {
        self.begun.take()
    }

    /// The present command has to wait for what is at a place.
    pub(crate) fn count_attempt(&mut self, place: WaitTarget, now_us: impl FnOnce() -> u64) {
        let is_taken = matches!(place, WaitTarget::Slot(_) | WaitTarget::Token);
        if is_taken && self.parked_since_us.is_none() {
            self.parked_since_us = Some(now_us());
        }
        self.gate_attempts += u32::from(place == WaitTarget::Gate);
        let waits_for_slot = matches!(place, WaitTarget::Slot(_));
        self.slot_waits = self.slot_waits.saturating_add(u32::from(waits_for_slot));
        self.lock_attempts = self.lock_attempts.saturating_add(1);
    }

    /// Ends the attempts of the present command. It leaves the queue for the token, if it had to
    /// wait for anything: it may have done without.
    #[inline]
    pub(crate) fn end_attempts(&mut self, shared: &Shared, worker: &mut Worker) {
        if self.lock_attempts > 0 {
            (self.lock_attempts, self.slot_waits, self.gate_attempts) = (0, 0, 0);
            self.forget_attempts(shared, worker);
            shared.token.leave(self.ticket(worker.index));
            if let Some(since_us) = self.parked_since_us.take() {
                let parked_us = shared.clock.monotonic_us().saturating_sub(since_us);
                shared.stats[worker.index].spreads.park_ns.record(parked_us * 1000);
            }
        }
    }

    /// Forgets what the present command left for its next attempt. One that waited may have been
    /// refused in the end, and the next command must not find it.
    pub(crate) fn forget_attempts(&mut self, shared: &Shared, worker: &mut Worker) {
        self.walk = None;
        worker.migrations.forget(self.id());
        if self.begun.take() == Some(Begun::Reload) {
            shared.loading.forget_reload(self.id());
        }
        // Relaxed: for others' information only.
        self.client.is_postponed.store(false, Ordering::Relaxed);
    }

    /// True if the session has nothing going on that ties it to its worker: it may be moved. What a
    /// monitor or a subscriber gets is in the lane of its worker or in its inbox there, also for a
    /// moment after the last subscription has ended.
    #[must_use]
    pub fn is_movable(&self) -> bool {
        let receives = self.is_monitor || self.is_subscriber || self.may_have_pushes;
        let is_idle = self.lock_attempts == 0 && !self.has_pending_script;
        self.waiter.is_none() && is_idle && !receives
    }

    /// True if its own changes are not told to it.
    #[inline]
    pub(crate) fn is_noloop(&self) -> bool {
        self.tracking.as_ref().is_some_and(|tracking| tracking.mode.is_noloop)
    }

    /// The selected database.
    #[must_use]
    pub fn database(&self) -> usize {
        self.database
    }

    /// Selects a database that exists.
    pub fn select(&mut self, database: usize) {
        self.database = database;
        // Relaxed: for others' information only.
        self.client.database.store(database, Ordering::Relaxed);
    }

    /// True if the reply to a command that has just ended its wait is to be sent; ends a mode that
    /// is for one command.
    #[must_use]
    pub fn wants_late_reply(&mut self) -> bool {
        match self.reply_mode {
            ReplyMode::On => true,
            ReplyMode::Off => false,
            ReplyMode::Skip | ReplyMode::SkipNext => {
                self.reply_mode = ReplyMode::On;
                false
            }
        }
    }

    /// The blocked wait `id` is over, and returned if it was the session's present one.
    #[must_use]
    pub fn unblock(&mut self, id: u64) -> Option<Arc<Waiter>> {
        let ended = self.waiter.take_if(|waiter| waiter.id == id);
        if ended.is_some() {
            self.client.set_waiter(None);
        }
        ended
    }
}

// Relied on where the memory of a client is told.
const _: () =
    assert!(size_of::<Session>() <= SESSION_BYTES && size_of::<Session>() + 64 > SESSION_BYTES);
