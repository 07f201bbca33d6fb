//! Tunables of the engine, with their units.

/// Stripes of the table of parked sessions.
pub const PARKING_STRIPES: usize = 64;

/// Requests parsed ahead, so that their cache misses overlap.
pub const BATCH_REQUESTS_MAX: usize = 64;

/// Requests whose entries are asked for while as many others are executed.
pub const PREFETCHED_ENTRIES_MAX: usize = 8;

/// Longest name of an element, in bytes, whose leaf is asked for ahead: hashing a longer one twice
/// takes longer than the memory does.
pub const PREFETCHED_NAME_BYTES_MAX: usize = 256;

/// Keys of a batch from which on several are hashed side by side. Four take the time of about two.
pub const HASHED_TOGETHER_MIN: usize = 3;

/// Commands executed for one connection before its worker goes on to the next.
pub const TURN_COMMANDS_MAX: usize = 1024;

/// Time, in microseconds, that one connection may keep its worker before the worker goes on to the
/// next: no command begins after it, nor behind a long one that would end after it if repeated.
pub const TURN_US_MAX: u64 = 250;

/// Commands that are carried out as one run of writes to one key.
pub const WRITE_RUN_COMMANDS_MAX: usize = 16;

/// Bytes of the requests of one run: with the number of commands they bound the time for which the
/// key's slot is locked.
pub const WRITE_RUN_BYTES_MAX: usize = BRIEF_REQUEST_BYTES_MAX;

/// Fields of a hash up to which runs change it. A larger one is changed in place by commands on
/// fields that it has, which takes fewer instructions than a run that copies the paths to them.
pub const RUN_FIELDS_MAX: u64 = 10_000;

/// Longest element, in bytes, that a command of a run answers.
pub const RUN_ELEMENT_BYTES_MAX: usize = 1024;

/// Attempts to lock several slots before a session takes the token.
pub const LOCK_ATTEMPTS_MAX: u32 = 8;

/// Attempts to lock the one slot that a command needs before its session takes the token: more,
/// because each release serves somebody, and many may write one key.
pub const ONE_SLOT_ATTEMPTS_MAX: u32 = 64;

/// Slots from which on a set of bits sorts and finds them in less time than comparing does.
pub const SLOT_SET_MIN: usize = 64;

/// Rounds that a session spins on a taken slot before it parks: some 5 µs.
pub const SPIN_ROUNDS: u32 = 100;

/// Microseconds that the gate's closer waits for the other workers before it reopens and tries
/// again later. At each further attempt twice as many.
pub const GATE_WAIT_US: u64 = 200;

/// Attempts after which the gate stays closed until all workers stand, however long their commands
/// take: the last one before waited for some 0.8 s.
pub const GATE_ATTEMPTS_MAX: u32 = 13;

/// Number of times that a command waits for slots, with the token in the end, before it stops all
/// others while it locks them.
pub const SLOT_WAITS_MAX: u32 = 2 * LOCK_ATTEMPTS_MAX;

/// Microseconds that a script which cannot be taken back waits for a slot that others take one
/// after the other, before it stops them all.
pub const SLOT_WAIT_US_MAX: u64 = 10_000;

/// Attempts to read without a lock before a read takes the locks of its slots.
pub const READ_ATTEMPTS_MAX: u32 = 2;

/// Nanoseconds of a vain attempt to read without a lock after which there is no second one.
pub const READ_ATTEMPT_NS_MAX: u64 = 50_000;

/// Keys of a slot that are walked without a lock: some 50 us.
pub const WALKED_KEYS_MAX: u32 = 1000;

/// Microseconds that `FLUSHALL SYNC` waits for a grace period, to free at once; afterwards it is
/// freed in the background.
pub const SYNC_FLUSH_US_MAX: u64 = 100_000;

/// Looks at the grace period within that time.
pub const SYNC_FLUSH_ROUNDS_MAX: usize = 1_000_000;

/// Microseconds that a lazy flush waits for a grace period, to begin to free; afterwards the next
/// tick does.
pub const LAZY_FLUSH_US_MAX: u64 = 50;

/// Looks at the grace period within that time.
pub const LAZY_FLUSH_ROUNDS_MAX: usize = 1_000;

/// Bytes of flushed data up to which no thread is started to free them: that takes longer.
pub const FLUSHED_AT_ONCE_BYTES_MAX: u64 = 64 << 10;

/// Share of the memory that may be retired, as its denominator, when `rcu-retired-max` does not say
/// how much.
pub const RETIRED_MEMORY_SHARE: u64 = 8;

/// Bytes that all workers together may have retired at least, when `rcu-retired-max` does not say
/// how much.
pub const RETIRED_BYTES_MIN: u64 = 64 << 20;

/// Bytes of a retired piece from which on only bytes count, and not pieces: what a list keeps of
/// each piece is a third of it.
pub const RETIRED_ITEM_BYTES: usize = 72;

/// Bytes of replies after which a connection's turn ends, so that they are sent before more are
/// made.
pub const TURN_REPLY_BYTES_MAX: usize = 1 << 20;

/// Elements of a collection from which on a reply is made in pieces, and that one piece has at
/// most: some 50 µs.
pub const PIECE_ELEMENTS_MAX: u64 = 4096;

/// Bytes of a reply after which a piece ends.
pub const PIECE_BYTES: usize = 64 * 1024;

/// Bytes of elements, as stored, from which on a reply is made in pieces however few they are.
pub const LONG_REPLY_BYTES_MIN: u64 = 128 * 1024;

/// Bytes of retired collections that long replies keep from being freed, above which replies are
/// completed however slowly their clients take them.
pub const PINNED_GARBAGE_BYTES_MAX: usize = 64 << 20;

/// Microseconds after which a session tries again to close the gate.
pub const GATE_RETRY_US: u64 = 500;

/// Number of times [`GATE_RETRY_US`] that a save gives way to the files of flushes; then it writes
/// what is left of them itself. Ten seconds.
pub const EMPTY_FILE_WAITS_MAX: u32 = 20_000;

/// Longest reply, in bytes, that is copied into the output; longer strings leave by reference.
pub const COPIED_REPLY_BYTES_MAX: usize = 16 * 1024;

/// Longest string, in bytes, that a write in the middle copies whole; longer ones become chunks.
pub const COPIED_STRING_BYTES_MAX: usize = 4096;

/// Bytes from which on it is asked whether there is memory for them before they are allocated in
/// pieces.
pub const LARGE_BYTES_MIN: u64 = 64 * 1024;

/// Copies of an element that `RESTORE` holds at a time, beside the payload and what of that is
/// decompressed: two of most, and four, some rounded up, of the names of a stream's entry.
pub const RESTORED_COPIES_MAX: u64 = 6;

/// Copies of a name that are made when its key or field is deleted beside commands: for the
/// deletion, for its event, and two while its record is made.
pub const NAME_COPIES_MAX: u64 = 4;

/// Bytes of nodes that a change of one element of a collection copies: a leaf and those on the way
/// to it.
pub const EDITED_PATH_BYTES_MAX: u64 = 4096;

/// Memory that an argument may take beside its bytes: its range, its key's hash, an entry and its
/// place in the table.
pub const ARGUMENT_OVERHEAD_BYTES: u64 = 64;

/// Bytes that an element of a collection takes beside its own, by and large.
pub const ELEMENT_OVERHEAD_BYTES: u64 = 16;

/// Elements that one effect in the journal adds or removes, where a command has any number of them.
pub const ELEMENTS_PER_EFFECT_MAX: usize = 1024;

/// Longest request, in bytes, whose command is timed together with its neighbours.
pub const BRIEF_REQUEST_BYTES_MAX: usize = 16 * 1024;

/// Threshold of the slow log, in microseconds, below which every command is timed by itself.
pub const EXACT_SLOWLOG_US_MAX: u64 = 1000;

/// Arguments of a command that a log keeps.
pub const LOGGED_ARGUMENTS_MAX: usize = 32;

/// Bytes of an argument that a log keeps.
pub const LOGGED_ARGUMENT_BYTES_MAX: usize = 128;

/// Bytes of a client's name that an entry keeps: Valkey keeps all, which may be many megabytes.
pub const LOGGED_NAME_BYTES_MAX: usize = 16 << 10;

/// Seconds that the history of a latency event holds.
pub const LATENCY_SAMPLES_MAX: usize = 160;

/// Units with held slots of which one is timed: reading the clock twice is a twentieth of an
/// `MSET`.
pub const HELD_SAMPLE: u64 = 16;

/// Keys that a worker's sketch of hot keys has room for, for each that is told.
pub const HOT_KEY_PLACES: usize = 10;

/// Largest number of keys that `HOTKEYS` tells.
pub const HOT_KEYS_MAX: usize = 64;

/// Longest key, in bytes, that is told as hot: so a sketch is bounded.
pub const HOT_KEY_BYTES_MAX: usize = 1024;

/// Samples, ten a second, that rates in `INFO` are made of.
pub const RATE_SAMPLES_MAX: usize = 17;

/// Keys that `SORT_RO` looks up without locks, to be looked up again when one of them changes
/// meanwhile.
pub const SORT_LOOKUPS_MAX: usize = 256;

/// Elements of sources from which a result is computed while their slots are locked: some 100 µs.
pub const ELEMENTS_UNDER_LOCKS_MAX: u64 = 2048;

/// Attempts at a result without locks, of keys that others change meanwhile.
pub const RESULT_ATTEMPTS_MAX: u32 = 2;

/// Members that are added to a new set one by one; more are sorted and built as a whole.
pub const INSERTED_MEMBERS_MAX: usize = 512;

/// Elements of a stored collection that are put into its tree together, at most: beyond them, what
/// is kept of each for that would take more than the elements.
pub const GATHERED_ELEMENTS_MAX: usize = 1 << 20;

/// Bytes of such elements, at most.
pub const GATHERED_BYTES_MAX: usize = 32 << 20;

/// Bytes of elements of a stored list that are put into it together: some leaves.
pub const GATHERED_LIST_BYTES_MAX: usize = 16 << 10;

/// Different codes of error replies that are counted.
pub const ERROR_CODES_MAX: usize = 128;

/// Buckets of a slot that one sample looks through for a key that may be evicted.
pub const SAMPLED_BUCKETS_MAX: usize = 32;

/// Slots that are drawn for each key of a sample, at most: some have none any more.
pub const SAMPLE_DRAWS_PER_KEY: usize = 4;

/// Evictions between two looks at the clock, as in Valkey.
pub const EVICTIONS_BETWEEN_CLOCKS: usize = 16;

/// Attempts in a row to evict a key that fail because all that were sampled were used meanwhile, or
/// are in slots that are taken, before the session waits.
pub const EVICTION_ATTEMPTS_MAX: usize = 16;

/// Microseconds after which a session that waits for an eviction by others tries again.
pub const EVICTION_RETRY_US: u64 = 500;

/// Microseconds for which a worker does not look for keys to evict between commands, when there
/// were none, or none could be evicted.
pub const EVICTION_PAUSE_US: u64 = 100_000;

/// Microseconds that one call of the sweep for expired keys takes at most, by and large: a quarter
/// of the time between two calls while much has expired, as Valkey's.
pub const SWEEP_US_MAX: u64 = 1000;

/// Microseconds that each further step of `active-expire-effort` adds: 2 % of the time.
pub const SWEEP_US_PER_EFFORT: u64 = 80;

/// Microseconds between two judgements of the allocator's waste, which take its locks.
pub const DEFRAG_JUDGED_US: u64 = 1_000_000;

/// Microseconds between two steps of the defragmentation, at least.
pub const DEFRAG_PAUSE_US_MIN: u64 = 1000;

/// Microseconds between two steps of the defragmentation, at most; and behind a round that has
/// moved nothing.
pub const DEFRAG_PAUSE_US_MAX: u64 = 10_000_000;

/// Buckets, or parts of large collections, that the defragmentation looks at between two readings
/// of the clock.
pub const DEFRAG_BUCKETS_PER_SECTION: usize = 8;

/// Buckets or slots that the sweep looks at between two readings of the clock.
pub const SWEEP_STEPS_BETWEEN_CLOCKS: usize = 64;

/// Percent of expired entries among those met beyond which the sweep goes on soon; each further
/// step of `active-expire-effort` takes one off.
pub const SWEEP_BUSY_PERCENT: usize = 10;

/// Expired fields of one hash that one command, beside those it names, or one step of the sweep
/// deletes at most. A hash of which every field has expired goes as a whole, however many there
/// are.
pub const REAPED_FIELDS_MAX: usize = 1024;

/// Expired fields that take the sweep as long as a bucket.
pub const FIELDS_PER_SWEEP_STEP: usize = 16;

/// Steps in a row that the sweep deletes fields in one bucket before it goes on to others.
pub const SWEEP_STEPS_PER_BUCKET_MAX: usize = 16;

/// Stripes of the registry of subscriptions, a power of two.
pub const PUBSUB_STRIPES: usize = 1024;

/// Bytes that count channels with subscribers by their hash, a multiple of the stripes.
pub const HEARD_BYTES: usize = 64 * 1024;

const _: () =
    assert!(HEARD_BYTES.is_multiple_of(PUBSUB_STRIPES) && PUBSUB_STRIPES.is_power_of_two());

/// Memory of a subscription beside the name, about: its places in the maps of the client, of the
/// worker's receivers and of the registry.
pub const SUBSCRIPTION_BYTES: usize = 288;

/// Memory of a subscription to a pattern beside the name, about: as for a channel, and the places
/// where the pattern is found by its literal beginning or end.
pub const PATTERN_BYTES: usize = 590;

/// Bytes in a worker's lane above which commands that publish wait.
pub const CROWDED_LANE_BYTES: usize = 64 << 20;

/// Bytes in a worker's lane above which what cannot wait is dropped, and its receivers are
/// disconnected.
pub const LANE_BYTES_MAX: usize = 256 << 20;

/// Bytes that a delivery counts in a lane beside its payload and names.
pub const DELIVERY_OVERHEAD_BYTES: usize = 128;

/// Microseconds after which a session tries again to publish into a crowded lane.
pub const LANE_RETRY_US: u64 = 1000;

/// Bytes of encoded deliveries after which they are sent, before more are encoded.
pub const DELIVERED_TOGETHER_BYTES: usize = 256 * 1024;

/// Deliveries that are encoded before they are sent.
pub const DELIVERED_TOGETHER_MAX: usize = 1024;

/// Bytes of changed keys that a worker gathers in one turn for those who are told by prefix; beyond
/// that they are told that all keys have changed.
pub const BROADCAST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Tracked keys that one tick looks at for sessions that have ended.
pub const TRACKED_KEYS_WALKED_MAX: usize = 16 * 1024;

/// Tracked keys of one slot that are looked at under its lock in one go: some 100 us.
pub const TRACKED_KEYS_LOCKED_MAX: usize = 1024;

/// Tracked keys that one tick evicts while there are too many.
pub const TRACKED_KEYS_EVICTED_MAX: usize = 1024;

/// Memory of a tracked key beside its name, about: its places in the table of its slot and in the
/// order of arrival.
pub const TRACKED_KEY_BYTES: u64 = 200;

/// Memory that a prefix counts with a client that is told of its changes: an estimate from below,
/// as in Valkey, which counts no text.
pub const PREFIX_BYTES: usize = 24;

/// Memory of a prefix of which clients are told changes, beside its name and what counts with them,
/// about: its places in the maps of a client, of a worker's receivers and of the server.
pub const SHARED_PREFIX_BYTES: usize = 376;

/// Rounds of `MIGRATE` in which changed keys are sent again while their slots are free.
pub const MIGRATION_ROUNDS_MAX: u32 = 8;

/// Bytes of a session, which counts with the memory of its client.
pub const SESSION_BYTES: usize = 144;

/// Entries of `ACL LOG` among which one that a denial repeats is looked for, the latest first.
pub const ACL_LOG_SCANNED_MAX: usize = 10;

/// Milliseconds within which equal denials are one entry of `ACL LOG`.
pub const ACL_LOG_WINDOW_MS: u64 = 60_000;

/// Bytes of a name, a key or a channel that `ACL LOG` keeps.
pub const ACL_LOG_OBJECT_BYTES_MAX: usize = 16 << 10;

/// Scripts of `EVAL` that are cached.
pub const EVALUATED_SCRIPTS_MAX: usize = 500;

/// Most bytes that a byte of a script's source takes while it is compiled. Chains of fields and
/// calls within calls, the densest sources that were found, take more than 32.
pub const COMPILED_BYTES_PER_SOURCE_BYTE: usize = 48;

/// Bytes of a cached script beside its source, as they are accounted.
pub const CACHED_SCRIPT_BYTES: usize = 160;

/// Bytes of a library beside its source, as they are accounted.
pub const LIBRARY_BYTES: usize = 160;

/// Bytes of a function of a library, as they are accounted.
pub const FUNCTION_BYTES: usize = 160;

/// Copies of a function's declaration that are made of one which is loaded: it, its name among
/// those of its library and of all libraries, and one for what the copies take beside their texts.
pub const FUNCTION_COPIES_MAX: usize = 4;

/// Bytes that a run of a script may hold in its values.
pub const SCRIPT_RUN_BYTES_MAX: usize = 512 << 20;

/// Bytes that a run of a function may hold in its values.
pub const FUNCTION_RUN_BYTES_MAX: usize = 512 << 20;

/// Compiled libraries of a worker among which those that are gone are looked for at each removal.
pub const LIBRARIES_SEARCHED_AT_ONCE: usize = 64;

/// Brief commands within scripts of which one is timed.
pub const INNER_COMMANDS_PER_TIMED: u32 = 16;

/// Microseconds after which a script ends its turn, so that other connections have theirs.
pub const SCRIPT_SLICE_US: u64 = 2_000;

/// Microseconds for which a step of a script may run that cannot be suspended, where no
/// `busy-reply-threshold` is set.
pub const SCRIPT_STEP_US_MAX: u64 = 5_000_000;

/// Bytes of messages and events that a script keeps until its end; with more it asks for the token
/// and tells those so far.
pub const OUTBOX_BYTES_MAX: usize = 1 << 20;

/// Bytes of lines for the log, and of lines for monitors, that a script keeps until it counts; with
/// more it writes them.
pub const RUN_LINES_BYTES_MAX: usize = 1 << 20;

/// Bytes that a kept line takes beside its text.
pub const RUN_LINE_OVERHEAD_BYTES: usize = 32;

/// Entries of `SLOWLOG` that a script keeps until it counts: the latest ones.
pub const RUN_SLOW_ENTRIES_MAX: usize = 1_024;

/// Bytes that a kept message or event takes beside channel, payload or key.
pub const TOLD_OVERHEAD_BYTES: usize = 96;

/// Milliseconds that a library may take to load.
pub const LIBRARY_LOAD_MS_MAX: u64 = 500;

/// Bytes of a buffer of a worker's scripts that are kept between two runs.
pub const RUN_BUFFER_BYTES_MAX: usize = 16 << 10;

/// Lookups of a run without locks beyond which it takes the token to repeat them under locks.
pub const SEEN_SLOTS_MAX: usize = 1_024;

/// Keys of one run whose values before it are kept, so that it can be taken back. One that writes
/// to more takes the token.
pub const UNDONE_KEYS_MAX: usize = 4096;

/// Keys of one run whose values before it are looked for one by one.
pub const UNDONE_KEYS_SCANNED_MAX: usize = 16;

/// Longest argument of a request for a script that is hashed as if it was its first key.
pub const EARLY_HASHED_BYTES_MAX: usize = 128;

/// Commands of one run that are counted together.
pub const COUNTED_TOGETHER_MAX: usize = 1_024;

const _: () = assert!(BATCH_REQUESTS_MAX <= TURN_COMMANDS_MAX);
const _: () = assert!(PIECE_BYTES <= TURN_REPLY_BYTES_MAX);

/// Faults of a configuration that are described; the others are counted.
pub const FAULTS_SHOWN_MAX: usize = 100;

/// Characters of a name or a reason in the description of a fault.
pub const FAULT_TEXT_MAX: usize = 300;

/// Bytes of a name to which a similar one is looked for.
pub const MISSPELT_NAME_BYTES_MAX: usize = 64;

/// Entries that a trimming with `~` removes at most, when nodes have no limit of entries.
pub const TRIM_LIMIT_DEFAULT: u64 = 10_000;

/// Entries that a trimming with `~` removes at most, unless it is given a limit.
pub const TRIM_LIMIT_MAX: u64 = 1_000_000;

/// Bytes of all names and values of an entry of a stream.
pub const STREAM_ENTRY_BYTES_MAX: u64 = 1 << 30;

/// Bytes of a collection up to which it is written as a listpack.
pub const LISTPACK_BYTES_MAX: usize = 1 << 30;

/// Seconds after a failed save before which a save point begins no other one, as in Valkey.
pub const SAVE_RETRY_S: u64 = 5;

/// Rewrites of the append-only file that fail in a row before the next one is put off, as in
/// Valkey.
pub const REWRITE_FAILURES_MAX: u64 = 3;

/// Bytes of a record's buffers that a worker keeps for its next unit, at most.
pub const KEPT_RECORD_BYTES: usize = 64 * 1024;

/// Microseconds between two lines of a worker's log about damaged payloads.
pub const DAMAGE_LINE_US: u64 = 1_000_000;

/// Longest time for which a rewrite is put off, in minutes, as in Valkey.
pub const REWRITE_RETRY_MINUTES_MAX: u64 = 60;
