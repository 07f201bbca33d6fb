//! Declarations of the commands on streams: a row each, then what differs from the family.

use crate::command::prelude::*;

use super::read::more_keys;

const STREAM: Command = Command::keyed(Group::Stream, Categories::STREAM);

const TRIM: Argument = block(
    "trim",
    &[
        one_of("strategy", &[word("MAXLEN"), word("MINID").since("6.2.0")]),
        one_of("operator", &[word("=").named("equal"), word("~").named("approximately")])
            .optional(),
        string("threshold"),
        integer("count").token("LIMIT").optional().since("6.2.0"),
    ],
);

const COUNT: Argument = integer("count").token("COUNT").optional();
const MILLISECONDS: Argument = integer("milliseconds").token("BLOCK").optional();
const STREAMS: Argument =
    block("streams", &[key("key").multiple(), string("id").multiple()]).token("STREAMS");
const ID_OR_NEW: Argument = one_of("id-selector", &[string("id"), word("$").named("new-id")]);
const ENTRIES_READ: Argument =
    integer("entriesread").display("entries-read").token("ENTRIESREAD").optional();

const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];

pub(super) const XADD: Command = STREAM
    .command("xadd", -5, "5.0.0", "Adds an entry to a stream, and creates the stream.")
    .complexity(
        "O(1) when adding a new entry, O(N) when trimming where N being the number of entries \
         evicted.",
    )
    .history(&[
        (
            "6.2.0",
            "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option.",
        ),
        ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
    ])
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])
        .notes("UPDATE instead of INSERT because of the optional trimming feature")])
    .arguments(&[
        key("key"),
        word("NOMKSTREAM").optional().since("6.2.0"),
        TRIM.optional(),
        one_of("id-selector", &[word("*").named("auto-id"), string("id")]),
        block("data", &[string("field"), string("value")]).multiple(),
    ])
    .tips(NONDETERMINISTIC);

pub(super) const XTRIM: Command = STREAM
    .command("xtrim", -4, "5.0.0", "Removes entries from the beginning of a stream.")
    .complexity(
        "O(N), with N being the number of evicted entries. Constant times are very small \
         however, since entries are organized in macro nodes containing multiple entries that \
         can be released with a single deallocation.",
    )
    .history(&[("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option.")])
    .flags(&[WRITE])
    .keys(&[KeySpec::first(&[RW, DELETE])])
    .arguments(&[key("key"), TRIM])
    .tips(NONDETERMINISTIC);

pub(super) const XDEL: Command = STREAM
    .command("xdel", -3, "5.0.0", "Removes entries by id.")
    .complexity("O(1) for each single item to delete in the stream, regardless of the stream size.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, DELETE])])
    .arguments(&[key("key"), string("id").multiple()]);

pub(super) const XSETID: Command = STREAM
    .command("xsetid", -3, "5.0.0", "Sets the last id of a stream.")
    .history(&[("7.0.0", "Added the `entries_added` and `max_deleted_entry_id` arguments.")])
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[
        key("key"),
        string("last-id"),
        integer("entries-added").token("ENTRIESADDED").optional().since("7.0.0"),
        string("max-deleted-id").token("MAXDELETEDID").optional().since("7.0.0"),
    ]);

pub(super) const XLEN: Command = STREAM
    .command("xlen", 2, "5.0.0", "Counts the entries.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key")]);

pub(super) const XRANGE: Command = STREAM
    .command("xrange", -4, "5.0.0", "Answers the entries within a range of ids.")
    .complexity(
        "O(N) with N being the number of elements being returned. If N is constant (e.g. always \
         asking for the first 10 elements with COUNT), you can consider it O(1).",
    )
    .history(&[("6.2.0", "Added exclusive ranges.")])
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), string("start"), string("end"), COUNT]);

pub(super) const XREVRANGE: Command = XRANGE
    .command(
        "xrevrange",
        -4,
        "5.0.0",
        "Answers the entries within a range of ids, the last one first.",
    )
    .complexity(
        "O(N) with N being the number of elements returned. If N is constant (e.g. always \
         asking for the first 10 elements with COUNT), you can consider it O(1).",
    )
    .arguments(&[key("key"), string("end"), string("start"), COUNT]);

pub(super) const XREAD: Command = STREAM
    .command("xread", -4, "5.0.0", "Answers the entries of streams behind ids; waits for some.")
    .complexity("")
    .flags(&[READONLY, BLOCKING, MOVABLEKEYS])
    .keys(&[KeySpec::halves_behind("STREAMS", 1, &[RO, ACCESS])])
    .more_keys(more_keys)
    .arguments(&[COUNT, MILLISECONDS, STREAMS]);

pub(super) const XREADGROUP: Command = STREAM
    .command(
        "xreadgroup",
        -7,
        "5.0.0",
        "Answers new or pending entries of streams to a consumer of a group; waits for some.",
    )
    .complexity(
        "For each stream mentioned: O(M) with M being the number of elements returned. If M is \
         constant (e.g. always asking for the first 10 elements with COUNT), you can consider it \
         O(1). On the other side when XREADGROUP blocks, XADD will pay the O(N) time in order to \
         serve the N clients blocked on the stream getting new data.",
    )
    .flags(&[WRITE, BLOCKING, MOVABLEKEYS])
    .keys(&[KeySpec::halves_behind("STREAMS", 4, &[RO, ACCESS])])
    .more_keys(more_keys)
    .arguments(&[
        block("group-block", &[string("group"), string("consumer")]).token("GROUP"),
        COUNT,
        MILLISECONDS,
        word("NOACK").optional(),
        STREAMS,
    ]);

pub(super) const XACK: Command = STREAM
    .command("xack", -4, "5.0.0", "Acknowledges pending entries of a group.")
    .complexity("O(1) for each message ID processed.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[key("key"), string("group"), string("id").multiple()]);

pub(super) const XPENDING: Command = STREAM
    .command("xpending", -3, "5.0.0", "Answers what is pending in a group.")
    .complexity(
        "O(N) with N being the number of elements returned, so asking for a small fixed number \
         of entries per call is O(1). O(M), where M is the total number of entries scanned when \
         used with the IDLE filter. When the command returns just the summary and the list of \
         consumers is small, it runs in O(1) time; otherwise, an additional O(N) time for \
         iterating every consumer.",
    )
    .history(&[("6.2.0", "Added the `IDLE` option and exclusive range intervals.")])
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[
        key("key"),
        string("group"),
        block(
            "filters",
            &[
                integer("min-idle-time").token("IDLE").optional().since("6.2.0"),
                string("start"),
                string("end"),
                integer("count"),
                string("consumer").optional(),
            ],
        )
        .optional(),
    ])
    .tips(NONDETERMINISTIC);

pub(super) const XCLAIM: Command = STREAM
    .command("xclaim", -6, "5.0.0", "Gives pending entries of a group to a consumer.")
    .complexity("O(log N) with N being the number of messages in the PEL of the consumer group.")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[
        key("key"),
        string("group"),
        string("consumer"),
        string("min-idle-time"),
        string("id").multiple(),
        integer("ms").token("IDLE").optional(),
        unix_time("unix-time-milliseconds").token("TIME").optional(),
        integer("count").token("RETRYCOUNT").optional(),
        word("FORCE").optional(),
        word("JUSTID").optional(),
        string("lastid").token("LASTID").optional(),
    ])
    .tips(NONDETERMINISTIC);

pub(super) const XAUTOCLAIM: Command = STREAM
    .command(
        "xautoclaim",
        -6,
        "6.2.0",
        "Gives pending entries of a group that were idle to a consumer.",
    )
    .complexity("O(1) if COUNT is small.")
    .history(&[(
        "7.0.0",
        "Added an element to the reply array, containing deleted entries the command cleared \
         from the PEL",
    )])
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, DELETE])])
    .arguments(&[
        key("key"),
        string("group"),
        string("consumer"),
        string("min-idle-time"),
        string("start"),
        COUNT,
        word("JUSTID").optional(),
    ])
    .tips(NONDETERMINISTIC);

pub(super) const XGROUP: Command = STREAM.container(
    "xgroup",
    "5.0.0",
    "Changes groups of consumers.",
    &[
        &XGROUP_CREATE,
        &XGROUP_CREATECONSUMER,
        &XGROUP_DELCONSUMER,
        &XGROUP_DESTROY,
        &XGROUP_HELP,
        &XGROUP_SETID,
    ],
);

pub(super) const XGROUP_CREATE: Command = STREAM
    .command("xgroup|create", -5, "5.0.0", "Creates a group.")
    .history(&[("7.0.0", "Added the `entries_read` named argument.")])
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::one(2, &[RW, INSERT])])
    .arguments(&[
        key("key"),
        string("group"),
        ID_OR_NEW,
        word("MKSTREAM").optional(),
        ENTRIES_READ,
    ]);

pub(super) const XGROUP_CREATECONSUMER: Command = STREAM
    .command("xgroup|createconsumer", 5, "6.2.0", "Creates a consumer of a group.")
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::one(2, &[RW, INSERT])])
    .arguments(&[key("key"), string("group"), string("consumer")]);

pub(super) const XGROUP_DELCONSUMER: Command = STREAM
    .command("xgroup|delconsumer", 5, "5.0.0", "Removes a consumer of a group.")
    .flags(&[WRITE])
    .keys(&[KeySpec::one(2, &[RW, DELETE])])
    .arguments(&[key("key"), string("group"), string("consumer")]);

pub(super) const XGROUP_DESTROY: Command = STREAM
    .command("xgroup|destroy", 4, "5.0.0", "Removes a group.")
    .complexity("O(N) where N is the number of entries in the group's pending entries list (PEL).")
    .flags(&[WRITE])
    .keys(&[KeySpec::one(2, &[RW, DELETE])])
    .arguments(&[key("key"), string("group")]);

pub(super) const XGROUP_SETID: Command = STREAM
    .command("xgroup|setid", -5, "5.0.0", "Sets the last delivered id of a group.")
    .history(&[("7.0.0", "Added the optional `entries_read` argument.")])
    .flags(&[WRITE])
    .keys(&[KeySpec::one(2, &[RW, UPDATE])])
    .arguments(&[key("key"), string("group"), ID_OR_NEW, ENTRIES_READ]);

pub(super) const XGROUP_HELP: Command = STREAM.help("xgroup|help", "5.0.0");

pub(super) const XINFO: Command = STREAM.container(
    "xinfo",
    "5.0.0",
    "Tells of streams, their groups and consumers.",
    &[&XINFO_CONSUMERS, &XINFO_GROUPS, &XINFO_HELP, &XINFO_STREAM],
);

pub(super) const XINFO_CONSUMERS: Command = STREAM
    .command("xinfo|consumers", 4, "5.0.0", "Lists the consumers of a group.")
    .history(&[("7.2.0", "Added the `inactive` field, and changed the meaning of `idle`.")])
    .flags(&[READONLY])
    .keys(&[KeySpec::one(2, &[RO, ACCESS])])
    .arguments(&[key("key"), string("group")])
    .tips(NONDETERMINISTIC);

pub(super) const XINFO_GROUPS: Command = STREAM
    .command("xinfo|groups", 3, "5.0.0", "Lists the groups of a stream.")
    .history(&[("7.0.0", "Added the `entries-read` and `lag` fields")])
    .flags(&[READONLY])
    .keys(&[KeySpec::one(2, &[RO, ACCESS])])
    .arguments(&[key("key")]);

pub(super) const XINFO_STREAM: Command = STREAM
    .command("xinfo|stream", -3, "5.0.0", "Tells of a stream.")
    .history(&[
        ("6.0.0", "Added the `FULL` modifier."),
        (
            "7.0.0",
            "Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, \
             `entries-read` and `lag` fields",
        ),
        ("7.2.0", "Added the `active-time` field, and changed the meaning of `seen-time`."),
    ])
    .flags(&[READONLY])
    .keys(&[KeySpec::one(2, &[RO, ACCESS])])
    .arguments(&[key("key"), block("full-block", &[word("FULL"), COUNT]).optional()]);

pub(super) const XINFO_HELP: Command = STREAM.help("xinfo|help", "5.0.0");
