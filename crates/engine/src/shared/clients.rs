//! The connected clients, as others may see them: `CLIENT LIST`, `CLIENT KILL`, `INFO clients`.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::acl::{Account, DEFAULT_NAME, User};
use crate::command::CommandId;
use crate::limits::{PATTERN_BYTES, SESSION_BYTES, SUBSCRIPTION_BYTES};
use crate::pubsub::TopicKind;
use crate::settings::AllowedClients;
use crate::slots::registry::WatchFlag;
use crate::slots::waiter::Waiter;
use crate::telemetry::stats::Counter;

/// Texts of a client that change rarely.
#[derive(Clone, Debug, Default)]
pub struct ClientTexts {
    /// `CLIENT SETNAME`.
    pub name: Arc<[u8]>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library_name: Arc<[u8]>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Arc<[u8]>,
}

impl ClientTexts {
    /// Bytes of all of them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.name.len() + self.library_name.len() + self.library_version.len()) as u64
    }
}

/// Topics by kind. Their names are those of the registry.
type Topics = [HashSet<Arc<[u8]>>; 3];

/// State of a client that other threads may read. Written by its worker.
#[derive(Debug)]
pub struct Client {
    /// Its id, never used twice.
    pub id: u64,
    /// Its address.
    pub address: Box<str>,
    /// The address it connected to.
    pub local_address: Box<str>,
    /// Its file descriptor.
    pub descriptor: i32,
    /// Unix time in milliseconds at which it connected.
    pub connected_ms: u64,
    /// None while nothing was set.
    texts: Mutex<Option<Box<ClientTexts>>>,
    /// See [`Client::owner`].
    owner: AtomicUsize,
    /// Its database.
    pub database: AtomicUsize,
    /// Unix time in milliseconds of its last command, or of the end of its last wait.
    pub last_command_ms: AtomicU64,
    /// One more than the id of its last command; 0 before the first.
    pub last_command: AtomicU32,
    /// Between `MULTI` and `EXEC`.
    pub is_in_transaction: AtomicBool,
    /// Commands queued in `MULTI`; `u64::MAX` before the first `WATCH` or `MULTI`.
    pub queued: AtomicU64,
    /// Memory of the commands queued in `MULTI`.
    pub queued_bytes: AtomicU64,
    /// Keys registered by `WATCH`; see [`Client::watched_keys`].
    watched: AtomicU64,
    /// Topics that it subscribes to, by [`TopicKind`](crate::pubsub::TopicKind).
    pub subscriptions: [AtomicU64; 3],
    /// Memory of the watched keys, of the wait in a blocking command, of the topics that it
    /// subscribes to, of prefixes of which it is told changes, registrations included, of its
    /// texts, and of the request of its suspended script.
    registered_bytes: [AtomicU64; 6],
    /// Blocked in a command.
    pub is_blocked: AtomicBool,
    /// True while its command waits until a pause is over.
    pub is_postponed: AtomicBool,
    /// Sees all commands (`MONITOR`).
    pub is_monitor: AtomicBool,
    /// RESP version, 2 or 3.
    pub protocol: AtomicU32,
    /// Killed by a command: it executes nothing any more.
    is_killed: AtomicBool,
    /// It is about to go because all clients take too much memory.
    is_evicted: AtomicBool,
    /// Its connection outlasts that until the client closes it (`DEBUG PROTECT-CLIENT`).
    pub is_protected: AtomicBool,
    /// `CLIENT NO-EVICT`.
    pub no_evict: AtomicBool,
    /// `CLIENT NO-TOUCH`.
    pub no_touch: AtomicBool,
    /// `READONLY`.
    pub is_readonly: AtomicBool,
    /// `CLIENT IMPORT-SOURCE`.
    pub is_import_source: AtomicBool,
    /// `CLIENT CAPA redirect`.
    pub follows_redirects: AtomicBool,
    /// `CLIENT TRACKING`, by the letters of a listing.
    tracking_letters: AtomicU8,
    /// Client that is told in its place of keys that have changed; 0 for none.
    redirect: AtomicU64,
    /// It has said that it leaves.
    is_leaving: AtomicBool,
    /// Commands that it ran.
    pub commands: Counter,
    /// Bytes that it sent.
    pub input_bytes: Counter,
    /// Bytes that it took.
    pub output_bytes: Counter,
    /// Bytes of requests that were read and not executed yet.
    pub pending_bytes: AtomicU64,
    /// Memory that those take.
    pub pending_memory_bytes: AtomicU64,
    /// Memory of what is parsed of a request that is not complete.
    pub parsed_memory_bytes: AtomicU64,
    /// Bytes of replies that its socket did not take yet, with the room for them.
    pub unsent_bytes: AtomicU64,
    /// Parts of those replies: payloads by reference, and the bytes between them.
    pub unsent_parts: AtomicU32,
    /// Memory of what encrypts for it, as of its worker's last round, while `maxmemory-clients` is
    /// set.
    pub transport_bytes: AtomicU64,
    /// Account that it has authenticated for; none before, for the default user's.
    account: Mutex<Option<Arc<Account>>>,
    /// Topics that it subscribes to, for those who take permissions away. None before the first.
    topics: Mutex<Option<Box<Topics>>>,
    /// Wait of its blocking command.
    waiter: Mutex<Option<Arc<Waiter>>>,
    /// Set when a key that it watches changes.
    watch: Mutex<Option<Arc<WatchFlag>>>,
}

impl Client {
    /// True if it is on this host.
    #[must_use]
    pub fn is_local(&self) -> bool {
        // A text that is no address is the path of a Unix socket.
        self.address.parse::<SocketAddr>().map_or(true, |address| address.ip().is_loopback())
    }

    /// True if it is one of the clients that may do something.
    #[must_use]
    pub fn is_among(&self, allowed: AllowedClients) -> bool {
        match allowed {
            AllowedClients::Nobody => false,
            AllowedClients::Local => self.is_local(),
            AllowedClients::All => true,
        }
    }

    /// True if it subscribes to a channel or a pattern.
    #[must_use]
    pub fn is_subscriber(&self) -> bool {
        // Relaxed: for others' information only.
        self.subscriptions.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Its texts.
    #[must_use]
    pub fn texts(&self) -> ClientTexts {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.as_deref().cloned().unwrap_or_default()
    }

    pub(crate) fn set_account(&self, account: Option<Arc<Account>>) {
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = account;
    }

    /// Account that it has authenticated for; none before, for the default user's.
    pub(crate) fn account(&self) -> Option<Arc<Account>> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn topics(&self) -> MutexGuard<'_, Option<Box<Topics>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It subscribes to a topic.
    pub(crate) fn note_subscribed(&self, kind: TopicKind, name: &Arc<[u8]>) {
        if self.topics().get_or_insert_default()[kind.index()].insert(Arc::clone(name)) {
            // Relaxed, here and below: for others' information only.
            self.registered_bytes[2].fetch_add(topic_bytes(kind, name), Ordering::Relaxed);
        }
    }

    /// It subscribes to a topic no more.
    pub(crate) fn note_unsubscribed(&self, kind: TopicKind, name: &[u8]) {
        let mut topics = self.topics();
        let Some(names) = topics.as_mut().map(|topics| &mut topics[kind.index()]) else { return };
        if names.remove(name) {
            self.registered_bytes[2].fetch_sub(topic_bytes(kind, name), Ordering::Relaxed);
        }
        if names.is_empty() {
            names.shrink_to(0);
        }
    }

    /// True if a user may be subscribed to all that it subscribes to.
    pub(crate) fn may_stay_subscribed(&self, user: &User) -> bool {
        let topics = self.topics();
        TopicKind::ALL.into_iter().all(|kind| {
            let names = topics.iter().flat_map(|topics| &topics[kind.index()]);
            names.into_iter().all(|name| user.may_subscribe(name, kind == TopicKind::Pattern))
        })
    }

    /// Name of the user in whose name it acts.
    #[must_use]
    pub fn user_name(&self) -> Vec<u8> {
        self.account()
            .map_or_else(|| DEFAULT_NAME.to_vec(), |account| account.user().name().to_vec())
    }

    /// The letters of what it said it can do (`CLIENT CAPA`).
    #[must_use]
    pub fn capabilities(&self) -> &'static str {
        // Relaxed: for others' information only.
        if self.follows_redirects.load(Ordering::Relaxed) { "r" } else { "" }
    }

    /// Lets others see the command that it runs.
    pub(crate) fn show_command(&self, id: CommandId) {
        // Relaxed: for others' information only.
        self.last_command.store(id.index() as u32 + 1, Ordering::Relaxed);
    }

    /// Worker that has its connection, or is to take it: what is for the client goes there.
    #[must_use]
    pub fn owner(&self) -> usize {
        // Acquire: pairs with the Release in `set_owner`.
        self.owner.load(Ordering::Acquire)
    }

    /// Its connection goes to the worker `owner`. Set together with the connection's way there, so
    /// that who sends something to the owner finds the connection, or who has it by then.
    pub fn set_owner(&self, owner: usize) {
        // Release: pairs with the Acquire in `owner`.
        self.owner.store(owner, Ordering::Release);
    }

    /// It leaves: it is sent nothing behind its last reply.
    pub(crate) fn leave(&self) {
        // Relaxed: who sends something behind that reply has it from the client.
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// True if it leaves, or was killed.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed) || self.is_killed()
    }

    /// Lets others see how it tracks keys: not at all, by what it reads, or by prefixes, which
    /// take some bytes.
    pub(crate) fn note_tracking(&self, is_broadcast: Option<bool>, redirect: u64, bytes: u64) {
        let letters = is_broadcast
            .map_or(0, |is_broadcast| TRACKS | if is_broadcast { TRACKS_BY_PREFIX } else { 0 });
        // Relaxed, all: for others' information only.
        self.tracking_letters.store(letters, Ordering::Relaxed);
        self.redirect.store(redirect, Ordering::Relaxed);
        self.registered_bytes[3].store(bytes, Ordering::Relaxed);
    }

    /// The client is gone that was told in its place.
    pub(crate) fn note_broken_redirect(&self) {
        self.tracking_letters.fetch_or(REDIRECT_BROKEN, Ordering::Relaxed);
    }

    /// True if the client is gone that was told in its place.
    #[must_use]
    pub fn is_redirect_broken(&self) -> bool {
        self.tracking_letters.load(Ordering::Relaxed) & REDIRECT_BROKEN != 0
    }

    /// Client that is told in its place, 0 for none; none if it tracks no keys.
    #[must_use]
    pub fn redirect(&self) -> Option<u64> {
        let tracks = self.tracking_letters.load(Ordering::Relaxed) & TRACKS != 0;
        tracks.then(|| self.redirect.load(Ordering::Relaxed))
    }

    /// The letters of how it tracks keys, as in a listing.
    pub fn tracking_letters(&self) -> impl Iterator<Item = char> {
        let letters = self.tracking_letters.load(Ordering::Relaxed);
        let all = [(TRACKS, 't'), (REDIRECT_BROKEN, 'R'), (TRACKS_BY_PREFIX, 'B')];
        all.into_iter().filter(move |(bit, _)| letters & bit != 0).map(|(_, letter)| letter)
    }

    /// True once a command killed it.
    #[must_use]
    #[inline]
    pub fn is_killed(&self) -> bool {
        // Relaxed: a request that is sent after the killer was answered is read after the store, by
        // way of the two sockets.
        self.is_killed.load(Ordering::Relaxed)
    }

    /// True if it was killed, and others see it no more.
    #[must_use]
    pub fn has_gone(&self) -> bool {
        // Relaxed: a switch for tests, set before the client is killed.
        self.is_killed() && !self.is_protected.load(Ordering::Relaxed)
    }

    /// Kills it; its worker closes the connection.
    pub(crate) fn kill(&self) {
        // Relaxed: as in `is_killed`.
        self.is_killed.store(true, Ordering::Relaxed);
    }

    /// Chooses it to be evicted.
    pub(super) fn evict(&self) {
        // Relaxed: who misses it chooses the same one again.
        self.is_evicted.store(true, Ordering::Relaxed);
    }

    /// True if its memory is about to be free: it was evicted or killed.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        // Relaxed: as above; others take it for information.
        self.is_evicted.load(Ordering::Relaxed) || self.is_killed()
    }

    /// Memory that the engine knows it to take: its state, and what it has piled up.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        // Relaxed: for others' information, and for the choice of those to evict.
        let piled_up = [
            &self.pending_memory_bytes,
            &self.parsed_memory_bytes,
            &self.queued_bytes,
            &self.unsent_bytes,
            &self.transport_bytes,
        ]
        .map(|bytes| bytes.load(Ordering::Relaxed));
        CLIENT_BYTES + piled_up.iter().sum::<u64>() + self.registered_bytes()
    }

    /// Wait of its blocking command, if it is in one.
    #[must_use]
    pub fn waiter(&self) -> Option<Arc<Waiter>> {
        self.waiter.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the wait of its blocking command.
    pub(crate) fn set_waiter(&self, waiter: Option<Arc<Waiter>>) {
        let bytes = waiter.as_ref().map_or(0, |waiter| waiter.memory_bytes());
        // Relaxed, both: for others' information only.
        self.registered_bytes[1].store(bytes as u64, Ordering::Relaxed);
        self.is_blocked.store(waiter.is_some(), Ordering::Relaxed);
        *self.waiter.lock().unwrap_or_else(PoisonError::into_inner) = waiter;
    }

    /// True if a key that it watches has changed: `EXEC` will refuse.
    #[must_use]
    pub fn is_watch_broken(&self) -> bool {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.as_ref().is_some_and(|flag| flag.is_set())
    }

    /// Keys that it watches: none once a command of anybody changed one of them.
    #[must_use]
    pub fn watched_keys(&self) -> u64 {
        // Relaxed: for others' information only.
        let registered = self.watched.load(Ordering::Relaxed);
        if registered == 0 {
            // Without the lock: that is so for most of a server's clients.
            return 0;
        }
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.as_ref().is_some_and(|flag| flag.shows_none()) { 0 } else { registered }
    }

    /// Lets others see how many keys it watches, and what they take.
    pub(crate) fn note_watched(&self, key_count: usize, bytes: usize) {
        // Relaxed, both: for others' information only.
        self.watched.store(key_count as u64, Ordering::Relaxed);
        self.registered_bytes[0].store(bytes as u64, Ordering::Relaxed);
    }

    /// Lets others see what the request of its suspended script takes; 0 without one.
    pub(crate) fn note_suspended(&self, bytes: u64) {
        // Relaxed: for others' information only.
        self.registered_bytes[5].store(bytes, Ordering::Relaxed);
    }

    /// Memory of what it has besides its buffers: watched keys, the keys of a wait, topics,
    /// prefixes, texts, the request of a suspended script.
    #[must_use]
    pub fn registered_bytes(&self) -> u64 {
        // Relaxed: for others' information only.
        self.registered_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Sets the flag of what it watches.
    pub(crate) fn set_watch(&self, watch: Option<Arc<WatchFlag>>) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }

    /// Changes its texts.
    pub fn change_texts(&self, change: impl FnOnce(&mut ClientTexts)) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = texts.get_or_insert_default();
        change(texts);
        // Relaxed: for others' information only.
        self.registered_bytes[4].store(texts.bytes(), Ordering::Relaxed);
    }
}

/// Memory of the state of a client that has nothing piled up.
pub const CLIENT_BYTES: u64 = (size_of::<Client>() + SESSION_BYTES) as u64;

const TRACKS: u8 = 1;
const TRACKS_BY_PREFIX: u8 = 1 << 1;
const REDIRECT_BROKEN: u8 = 1 << 2;

/// Memory of a subscription, as if nobody shared it. The literal part of a pattern is there twice.
fn topic_bytes(kind: TopicKind, name: &[u8]) -> u64 {
    let bytes = match kind {
        TopicKind::Pattern => 2 * name.len() + PATTERN_BYTES,
        TopicKind::Channel | TopicKind::ShardChannel => name.len() + SUBSCRIPTION_BYTES,
    };
    bytes as u64
}

/// Addresses and descriptor of a client's connection.
#[derive(Clone, Debug, Default)]
pub struct ClientOrigin {
    /// Its address.
    pub address: String,
    /// The address it connected to.
    pub local_address: String,
    /// Its file descriptor.
    pub descriptor: i32,
}

/// All connected clients.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
}

impl Clients {
    /// Kills all clients: the server ends, and executes nothing more for them.
    pub fn kill_all(&self) {
        self.all().iter().for_each(|client| client.kill());
    }

    /// Registers a new client of a worker.
    #[must_use]
    pub fn register(&self, worker: usize, origin: ClientOrigin, now_ms: u64) -> Arc<Client> {
        let client = self.make(worker, origin, now_ms);
        let mut by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        by_id.insert(client.id, Arc::clone(&client));
        client
    }

    /// A client that is no connection: nobody sees or kills it.
    #[must_use]
    pub fn unlisted(&self, worker: usize) -> Arc<Client> {
        self.make(worker, ClientOrigin::default(), 0)
    }

    fn make(&self, worker: usize, origin: ClientOrigin, now_ms: u64) -> Arc<Client> {
        // Relaxed: ids only have to be unique and ascending in each other's order.
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(Client {
            id,
            address: origin.address.into(),
            local_address: origin.local_address.into(),
            descriptor: origin.descriptor,
            connected_ms: now_ms,
            texts: Mutex::default(),
            owner: AtomicUsize::new(worker),
            database: AtomicUsize::new(0),
            last_command_ms: AtomicU64::new(now_ms),
            last_command: AtomicU32::new(0),
            is_in_transaction: AtomicBool::new(false),
            queued: AtomicU64::new(u64::MAX),
            queued_bytes: AtomicU64::new(0),
            watched: AtomicU64::new(0),
            subscriptions: Default::default(),
            registered_bytes: Default::default(),
            is_blocked: AtomicBool::new(false),
            is_postponed: AtomicBool::new(false),
            is_monitor: AtomicBool::new(false),
            protocol: AtomicU32::new(2),
            is_killed: AtomicBool::new(false),
            is_evicted: AtomicBool::new(false),
            is_protected: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            is_readonly: AtomicBool::new(false),
            is_import_source: AtomicBool::new(false),
            follows_redirects: AtomicBool::new(false),
            tracking_letters: AtomicU8::new(0),
            redirect: AtomicU64::new(0),
            is_leaving: AtomicBool::new(false),
            commands: Counter::default(),
            input_bytes: Counter::default(),
            output_bytes: Counter::default(),
            pending_bytes: AtomicU64::new(0),
            pending_memory_bytes: AtomicU64::new(0),
            parsed_memory_bytes: AtomicU64::new(0),
            unsent_bytes: AtomicU64::new(0),
            unsent_parts: AtomicU32::new(0),
            transport_bytes: AtomicU64::new(0),
            account: Mutex::default(),
            topics: Mutex::default(),
            waiter: Mutex::default(),
            watch: Mutex::default(),
        })
    }

    /// Forgets a client that disconnected.
    pub fn unregister(&self, id: u64) {
        let client = self.by_id.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        client.iter().for_each(|client| client.leave());
    }

    /// A client by its id.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// All clients, by id.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Bytes of all clients and their buffers.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.all().iter().map(|client| client.memory_bytes()).sum()
    }

    /// Number of connected clients.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
