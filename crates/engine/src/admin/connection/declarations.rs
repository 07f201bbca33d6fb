//! Declarations of the commands about connections: a row each, then what differs from the family.

use crate::command::prelude::*;

const CONNECTION: Command = Command::session(Group::Connection, Categories::CONNECTION);

/// Commands of a connection that may not be authenticated yet.
const GREETING: Command = CONNECTION.flags(&[NOSCRIPT, LOADING, STALE, FAST, NO_AUTH, ALLOW_BUSY]);

/// Commands about the connection itself, allowed while a script keeps the server busy.
const OWN: Command = CONNECTION.flags(&[NOSCRIPT, LOADING, STALE, ALLOW_BUSY]);

/// Commands for administrators.
const ADMINISTRATIVE: Command = CONNECTION.flags(&[ADMIN, NOSCRIPT, LOADING, STALE]).categories(&[
    Categories::ADMIN,
    Categories::CONNECTION,
    Categories::DANGEROUS,
]);

const ON_OR_OFF: Argument = one_of("enabled", &[word("ON"), word("OFF")]);

const YES_OR_NO: &[Argument] = &[word("YES"), word("NO")];

pub(super) const PING: Command = CONNECTION
    .command("ping", -1, "1.0.0", "Answers PONG, or what it is given.")
    .flags(&[FAST])
    .arguments(&[string("message").optional()])
    .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]);

pub(super) const ECHO: Command = CONNECTION
    .command("echo", 2, "1.0.0", "Answers what it is given.")
    .flags(&[LOADING, STALE, FAST])
    .arguments(&[string("message")]);

pub(super) const SELECT: Command = CONNECTION
    .command("select", 2, "1.0.0", "Selects the database that the connection works on.")
    .flags(&[LOADING, STALE, FAST, ALLOW_BUSY])
    .databases(Databases::Numbered(|_, positions| positions.push(1)))
    .arguments(&[integer("index")]);

pub(super) const HELLO: Command = GREETING
    .command("hello", -1, "6.0.0", "Agrees on the protocol and tells about the server.")
    .arguments(&[block(
        "arguments",
        &[
            integer("protover"),
            block("auth", &[string("username"), string("password")]).token("AUTH").optional(),
            string("clientname").token("SETNAME").optional(),
        ],
    )
    .optional()])
    .history(&[
        ("8.1.0", "The reply has `availability_zone` if that is configured."),
        ("6.2.0", "`protover` may be left out: the reply describes the connection."),
    ]);

pub(super) const AUTH: Command = GREETING
    .command("auth", -2, "1.0.0", "Authenticates the connection.")
    .complexity("O(N) where N is the number of passwords defined for the user")
    .arguments(&[string("username").optional().since("6.0.0"), string("password")])
    .history(&[("6.0.0", "Added the `username` argument.")]);

pub(super) const QUIT: Command = GREETING.command("quit", -1, "1.0.0", "Closes the connection.");

pub(super) const RESET: Command =
    GREETING.command("reset", 1, "6.2.0", "Takes the connection back to its beginning.");

pub(super) const CLIENT: Command = CONNECTION.container(
    "client",
    "2.4.0",
    "Commands about client connections.",
    &[
        &CLIENT_NO_EVICT,
        &CLIENT_SETINFO,
        &CLIENT_SETNAME,
        &CLIENT_GETREDIR,
        &CLIENT_TRACKINGINFO,
        &CLIENT_TRACKING,
        &CLIENT_CACHING,
        &CLIENT_CAPA,
        &CLIENT_IMPORT_SOURCE,
        &CLIENT_GETNAME,
        &CLIENT_INFO,
        &CLIENT_NO_TOUCH,
        &CLIENT_ID,
        &CLIENT_KILL,
        &CLIENT_PAUSE,
        &CLIENT_REPLY,
        &CLIENT_UNPAUSE,
        &CLIENT_HELP,
        &CLIENT_LIST,
        &CLIENT_UNBLOCK,
    ],
);

pub(super) const CLIENT_GETNAME: Command =
    OWN.command("client|getname", 2, "2.6.9", "Answers the name of the connection.");

pub(super) const CLIENT_SETNAME: Command = OWN
    .command("client|setname", 3, "2.6.9", "Names the connection.")
    .more_flags(&[REGISTERS])
    .arguments(&[string("connection-name")])
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]);

pub(super) const CLIENT_SETINFO: Command = OWN
    .command("client|setinfo", 4, "7.2.0", "Tells about the client library.")
    .more_flags(&[REGISTERS])
    .arguments(&[one_of(
        "attr",
        &[string("libname").token("LIB-NAME"), string("libver").token("LIB-VER")],
    )])
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]);

pub(super) const CLIENT_ID: Command =
    OWN.command("client|id", 2, "5.0.0", "Answers the number of the connection.");

pub(super) const CLIENT_INFO: Command = CONNECTION
    .command("client|info", 2, "6.2.0", "Describes the connection.")
    .flags(&[NOSCRIPT, LOADING, STALE])
    .tips(&["nondeterministic_output"]);

const LISTED_TYPES: &[Argument] =
    &[word("NORMAL"), word("MASTER"), word("REPLICA"), word("PUBSUB")];

const PRIMARY: (&str, &str) = ("8.0.0", "`TYPE` takes `primary`; `master` is still understood.");

const MORE_FILTERS: (&str, &str) = (
    "9.0.0",
    "Added the filters `NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA` and `IP`, and \
     filters that begin with `NOT-`.",
);

pub(super) const CLIENT_LIST: Command = ADMINISTRATIVE
    .command("client|list", -2, "2.4.0", "Describes open connections.")
    .complexity("O(N) where N is the number of client connections")
    .arguments(&[
        one_of("client-type", LISTED_TYPES).token("TYPE").optional().since("5.0.0"),
        integer("client-id").token("ID").optional().multiple().since("6.2.0"),
        string("username").token("USER").optional().since("8.1.0"),
        string("addr").token("ADDR").optional().since("8.1.0").display("ip:port"),
        string("laddr").token("LADDR").optional().since("8.1.0").display("ip:port"),
        one_of("skipme", YES_OR_NO).token("SKIPME").optional().since("8.1.0"),
        integer("maxage").token("MAXAGE").optional().since("8.1.0"),
        string("name").token("NAME").optional().since("9.0.0"),
        integer("idle").token("IDLE").optional().since("9.0.0"),
        string("flags").token("FLAGS").optional().since("9.0.0"),
        string("lib-name").token("LIB-NAME").optional().since("9.0.0"),
        string("lib-ver").token("LIB-VER").optional().since("9.0.0"),
        integer("db").token("DB").optional().since("9.0.0"),
        string("capa").token("CAPA").optional().since("9.0.0"),
        string("ip").token("IP").optional().since("9.0.0"),
        one_of("not-client-type", LISTED_TYPES).token("NOT-TYPE").optional().since("9.0.0"),
        integer("not-client-id").token("NOT-ID").optional().multiple().since("9.0.0"),
        string("not-username").token("NOT-USER").optional().since("9.0.0"),
        string("not-addr").token("NOT-ADDR").optional().since("9.0.0").display("ip:port"),
        string("not-laddr").token("NOT-LADDR").optional().since("9.0.0").display("ip:port"),
        string("not-name").token("NOT-NAME").optional().since("9.0.0"),
        string("not-flags").token("NOT-FLAGS").optional().since("9.0.0"),
        string("not-lib-name").token("NOT-LIB-NAME").optional().since("9.0.0"),
        string("not-lib-ver").token("NOT-LIB-VER").optional().since("9.0.0"),
        integer("not-db").token("NOT-DB").optional().since("9.0.0"),
        string("not-capa").token("NOT-CAPA").optional().since("9.0.0"),
        string("not-ip").token("NOT-IP").optional().since("9.0.0"),
    ])
    .tips(&["nondeterministic_output"])
    .history(&[
        ("2.8.12", "Added the `id` field."),
        ("5.0.0", "Added the `TYPE` filter."),
        ("6.0.0", "Added the `user` field."),
        (
            "6.2.0",
            "Added the fields `argv-mem`, `tot-mem`, `laddr` and `redir`, and the `ID` filter.",
        ),
        ("7.0.0", "Added the fields `resp`, `multi-mem`, `rbs` and `rbp`."),
        ("7.0.3", "Added the `ssub` field."),
        PRIMARY,
        ("8.1.0", "Added the filters `USER`, `ADDR`, `LADDR`, `SKIPME` and `MAXAGE`."),
        MORE_FILTERS,
    ]);

const CLIENT_TYPES: &[Argument] = &[
    word("NORMAL"),
    word("MASTER"),
    word("PRIMARY"),
    word("SLAVE"),
    word("REPLICA"),
    word("PUBSUB"),
];

/// `CLIENT_TYPES` with the versions that added them to `CLIENT KILL`.
const KILLED_TYPES: &[Argument] = &[
    word("NORMAL"),
    word("MASTER").since("3.2.0"),
    word("PRIMARY").since("8.0.0"),
    word("SLAVE"),
    word("REPLICA").since("5.0.0"),
    word("PUBSUB"),
];

const KILL_FILTERS: &[Argument] = &[
    integer("client-id").token("ID").optional().multiple().since("2.8.12"),
    one_of("client-type", KILLED_TYPES).token("TYPE").optional().since("2.8.12"),
    string("username").token("USER").optional(),
    string("addr").token("ADDR").optional().display("ip:port"),
    string("laddr").token("LADDR").optional().since("6.2.0").display("ip:port"),
    one_of("skipme", YES_OR_NO).token("SKIPME").optional(),
    integer("maxage").token("MAXAGE").optional().since("8.0.0"),
    string("name").token("NAME").optional().since("9.0.0"),
    integer("idle").token("IDLE").optional().since("9.0.0"),
    string("flags").token("FLAGS").optional().since("9.0.0"),
    string("lib-name").token("LIB-NAME").optional().since("9.0.0"),
    string("lib-ver").token("LIB-VER").optional().since("9.0.0"),
    integer("db").token("DB").optional().since("9.0.0"),
    string("capa").token("CAPA").optional().since("9.0.0"),
    string("ip").token("IP").optional().since("9.0.0"),
    one_of("not-client-type", CLIENT_TYPES).token("NOT-TYPE").optional().since("9.0.0"),
    integer("not-client-id").token("NOT-ID").optional().multiple().since("9.0.0"),
    string("not-username").token("NOT-USER").optional().since("9.0.0"),
    string("not-addr").token("NOT-ADDR").optional().since("9.0.0").display("ip:port"),
    string("not-laddr").token("NOT-LADDR").optional().since("9.0.0").display("ip:port"),
    string("not-name").token("NOT-NAME").optional().since("9.0.0"),
    string("not-flags").token("NOT-FLAGS").optional().since("9.0.0"),
    string("not-lib-name").token("NOT-LIB-NAME").optional().since("9.0.0"),
    string("not-lib-ver").token("NOT-LIB-VER").optional().since("9.0.0"),
    integer("not-db").token("NOT-DB").optional().since("9.0.0"),
    string("not-capa").token("NOT-CAPA").optional().since("9.0.0"),
    string("not-ip").token("NOT-IP").optional().since("9.0.0"),
];

pub(super) const CLIENT_KILL: Command = ADMINISTRATIVE
    .command("client|kill", -3, "2.4.0", "Closes connections.")
    .complexity("O(N) where N is the number of client connections")
    .arguments(&[one_of(
        "filter",
        &[
            string("old-format").display("ip:port").deprecated("2.8.12"),
            one_of("new-format", KILL_FILTERS).multiple(),
        ],
    )])
    .history(&[
        ("2.8.12", "Added filters."),
        ("2.8.12", "Added the `ID` filter."),
        ("3.2.0", "`TYPE` takes `master`."),
        ("5.0.0", "`TYPE` takes `replica`; `slave` is still understood."),
        ("6.2.0", "Added the `LADDR` filter."),
        ("8.0.0", "Added the `MAXAGE` filter."),
        PRIMARY,
        ("8.1.0", "`ID` takes several ids."),
        MORE_FILTERS,
    ]);

pub(super) const CLIENT_REPLY: Command = OWN
    .command("client|reply", 3, "3.2.0", "Says which replies the connection wants.")
    .more_flags(&[NO_MULTI])
    .arguments(&[one_of("action", &[word("ON"), word("OFF"), word("SKIP")])]);

pub(super) const CLIENT_NO_EVICT: Command = ADMINISTRATIVE
    .command(
        "client|no-evict",
        3,
        "7.0.0",
        "Keeps the connection from being closed for its memory.",
    )
    .more_flags(&[ALLOW_BUSY])
    .arguments(&[ON_OR_OFF]);

pub(super) const CLIENT_NO_TOUCH: Command = OWN
    .command(
        "client|no-touch",
        3,
        "7.2.0",
        "Lets the reads of the connection not count as uses of keys.",
    )
    .arguments(&[ON_OR_OFF]);

pub(super) const CLIENT_UNBLOCK: Command = ADMINISTRATIVE
    .command("client|unblock", -3, "5.0.0", "Ends the wait of a blocked connection.")
    .complexity("O(log N) where N is the number of client connections")
    .arguments(&[
        integer("client-id"),
        one_of("unblock-type", &[word("TIMEOUT"), word("ERROR")]).optional(),
    ]);

pub(super) const CLIENT_PAUSE: Command = ADMINISTRATIVE
    .command("client|pause", -3, "3.0.0", "Stops commands for a time.")
    .arguments(&[
        integer("timeout"),
        one_of("mode", &[word("WRITE"), word("ALL")]).optional().since("6.2.0"),
    ])
    .history(&[("6.2.0", "Added the `WRITE` and `ALL` modes.")]);

pub(super) const CLIENT_UNPAUSE: Command = ADMINISTRATIVE
    .command("client|unpause", 2, "6.2.0", "Lets stopped commands go on.")
    .complexity("O(N) Where N is the number of paused clients");

pub(super) const CLIENT_HELP: Command = CONNECTION.help("client|help", "5.0.0");

pub(super) const CLIENT_GETREDIR: Command =
    OWN.command("client|getredir", 2, "6.0.0", "Answers where tracking invalidations go.");

pub(super) const CLIENT_TRACKINGINFO: Command = CONNECTION
    .command("client|trackinginfo", 2, "6.2.0", "Tells about tracking of the connection.")
    .flags(&[NOSCRIPT, LOADING, STALE]);

pub(super) const CLIENT_TRACKING: Command = CONNECTION
    .command("client|tracking", -3, "6.0.0", "Tells the connection when keys change that it read.")
    .complexity("O(1). Some options may introduce additional complexity.")
    .flags(&[NOSCRIPT, LOADING, STALE, REGISTERS])
    .arguments(&[
        one_of("status", &[word("ON"), word("OFF")]),
        integer("client-id").token("REDIRECT").optional(),
        string("prefix").token("PREFIX").optional().multiple_token(),
        word("BCAST").optional(),
        word("OPTIN").optional(),
        word("OPTOUT").optional(),
        word("NOLOOP").optional(),
    ]);

pub(super) const CLIENT_CACHING: Command = OWN
    .command("client|caching", 3, "6.0.0", "Tells whether to track the keys of the next command.")
    .arguments(&[one_of("mode", YES_OR_NO)]);

pub(super) const CLIENT_CAPA: Command = OWN
    .command("client|capa", -3, "8.0.0", "Tells what the client can do.")
    .arguments(&[string("capability").multiple()]);

pub(super) const CLIENT_IMPORT_SOURCE: Command = CONNECTION
    .command("client|import-source", 3, "8.1.0", "Marks the connection as a source of an import.")
    .flags(&[NOSCRIPT, LOADING, STALE])
    .arguments(&[ON_OR_OFF]);
