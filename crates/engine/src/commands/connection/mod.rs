//! Commands about connections.

mod client;
mod filter;
mod hello;

pub(super) use hello::REDIS_VERSION;

use crate::command::{Argument, ArgumentKind, Categories, Command, Flags, Group, Handler};

/// The family.
pub const COMMANDS: &[&Command] = &[&PING, &ECHO, &SELECT, &HELLO, &AUTH, &QUIT, &RESET, &CLIENT];

const PING: Command = Command {
    name: "ping",
    summary: "Answers PONG, or what it is given.",
    since: "1.0.0",
    group: Group::Connection,
    arity: -1,
    flags: Flags::FAST,
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("message", ArgumentKind::String).optional()],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    handler: Handler::Session(hello::ping),
    ..Command::BASE
};

const ECHO: Command = Command {
    name: "echo",
    summary: "Answers what it is given.",
    since: "1.0.0",
    group: Group::Connection,
    arity: 2,
    flags: Flags::FAST.union(Flags::LOADING).union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("message", ArgumentKind::String)],
    handler: Handler::Session(hello::echo),
    ..Command::BASE
};

const SELECT: Command = Command {
    name: "select",
    summary: "Selects the database that the connection works on.",
    since: "1.0.0",
    group: Group::Connection,
    arity: 2,
    flags: Flags::ALLOW_BUSY.union(Flags::FAST).union(Flags::LOADING).union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("index", ArgumentKind::Integer)],
    handler: Handler::Session(hello::select),
    ..Command::BASE
};

const HELLO: Command = Command {
    name: "hello",
    summary: "Agrees on the protocol and tells about the server.",
    since: "6.0.0",
    group: Group::Connection,
    arity: -1,
    flags: Flags::ALLOW_BUSY
        .union(Flags::FAST)
        .union(Flags::LOADING)
        .union(Flags::NO_AUTH)
        .union(Flags::NOSCRIPT)
        .union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new(
        "arguments",
        ArgumentKind::Block(&[
            Argument::new("protover", ArgumentKind::Integer),
            Argument::new(
                "auth",
                ArgumentKind::Block(&[
                    Argument::new("username", ArgumentKind::String),
                    Argument::new("password", ArgumentKind::String),
                ]),
            )
            .token("AUTH")
            .optional(),
            Argument::new("clientname", ArgumentKind::String).token("SETNAME").optional(),
        ]),
    )
    .optional()],
    handler: Handler::Session(hello::hello),
    ..Command::BASE
};

const AUTH: Command = Command {
    name: "auth",
    summary: "Authenticates the connection.",
    since: "1.0.0",
    complexity: "O(N) where N is the number of passwords defined for the user",
    group: Group::Connection,
    arity: -2,
    flags: Flags::ALLOW_BUSY
        .union(Flags::FAST)
        .union(Flags::LOADING)
        .union(Flags::NO_AUTH)
        .union(Flags::NOSCRIPT)
        .union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[
        Argument::new("username", ArgumentKind::String).optional().since("6.0.0"),
        Argument::new("password", ArgumentKind::String),
    ],
    handler: Handler::Session(hello::auth),
    ..Command::BASE
};

const QUIT: Command = Command {
    name: "quit",
    summary: "Closes the connection.",
    since: "1.0.0",
    group: Group::Connection,
    arity: -1,
    flags: Flags::ALLOW_BUSY
        .union(Flags::FAST)
        .union(Flags::LOADING)
        .union(Flags::NO_AUTH)
        .union(Flags::NOSCRIPT)
        .union(Flags::STALE),
    categories: Categories::CONNECTION,
    handler: Handler::Session(hello::quit),
    ..Command::BASE
};

const RESET: Command = Command {
    name: "reset",
    summary: "Takes the connection back to its beginning.",
    since: "6.2.0",
    group: Group::Connection,
    arity: 1,
    flags: Flags::ALLOW_BUSY
        .union(Flags::FAST)
        .union(Flags::LOADING)
        .union(Flags::NO_AUTH)
        .union(Flags::NOSCRIPT)
        .union(Flags::STALE),
    categories: Categories::CONNECTION,
    handler: Handler::Session(hello::reset),
    ..Command::BASE
};

const CLIENT: Command = Command {
    name: "client",
    summary: "Commands about client connections.",
    since: "2.4.0",
    complexity: "Depends on subcommand.",
    group: Group::Connection,
    arity: -2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    subcommands: &[
        &CLIENT_NO_EVICT,
        &CLIENT_SETINFO,
        &CLIENT_SETNAME,
        &CLIENT_GETREDIR,
        &CLIENT_TRACKINGINFO,
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
    ..Command::BASE
};

const CLIENT_GETNAME: Command = Command {
    name: "client|getname",
    summary: "Answers the name of the connection.",
    since: "2.6.9",
    group: Group::Connection,
    arity: 2,
    flags: Flags::ALLOW_BUSY.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    handler: Handler::Session(client::getname),
    ..Command::BASE
};

const CLIENT_SETNAME: Command = Command {
    name: "client|setname",
    summary: "Names the connection.",
    since: "2.6.9",
    group: Group::Connection,
    arity: 3,
    flags: Flags::ALLOW_BUSY.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("connection-name", ArgumentKind::String)],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    handler: Handler::Session(client::setname),
    ..Command::BASE
};

const CLIENT_SETINFO: Command = Command {
    name: "client|setinfo",
    summary: "Tells about the client library.",
    since: "7.2.0",
    group: Group::Connection,
    arity: 4,
    flags: Flags::ALLOW_BUSY.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new(
        "attr",
        ArgumentKind::OneOf(&[
            Argument::new("libname", ArgumentKind::String).token("LIB-NAME"),
            Argument::new("libver", ArgumentKind::String).token("LIB-VER"),
        ]),
    )],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    handler: Handler::Session(client::setinfo),
    ..Command::BASE
};

const CLIENT_ID: Command = Command {
    name: "client|id",
    summary: "Answers the number of the connection.",
    since: "5.0.0",
    group: Group::Connection,
    arity: 2,
    flags: Flags::ALLOW_BUSY.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    handler: Handler::Session(client::id),
    ..Command::BASE
};

const CLIENT_INFO: Command = Command {
    name: "client|info",
    summary: "Describes the connection.",
    since: "6.2.0",
    group: Group::Connection,
    arity: 2,
    flags: Flags::LOADING.union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output"],
    handler: Handler::Session(client::info),
    ..Command::BASE
};

const CLIENT_LIST: Command = Command {
    name: "client|list",
    summary: "Describes open connections.",
    since: "2.4.0",
    complexity: "O(N) where N is the number of client connections",
    group: Group::Connection,
    arity: -2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::CONNECTION).union(Categories::DANGEROUS),
    arguments: &[
        Argument::new(
            "client-type",
            ArgumentKind::OneOf(&[
                Argument::flag("normal", "NORMAL"),
                Argument::flag("master", "MASTER"),
                Argument::flag("replica", "REPLICA"),
                Argument::flag("pubsub", "PUBSUB"),
            ]),
        )
        .token("TYPE")
        .optional()
        .since("5.0.0"),
        Argument::new("client-id", ArgumentKind::Integer)
            .token("ID")
            .optional()
            .multiple()
            .since("6.2.0"),
        Argument::new("username", ArgumentKind::String).token("USER").optional().since("8.1.0"),
        Argument::new("addr", ArgumentKind::String)
            .token("ADDR")
            .optional()
            .since("8.1.0")
            .display("ip:port"),
        Argument::new("laddr", ArgumentKind::String)
            .token("LADDR")
            .optional()
            .since("8.1.0")
            .display("ip:port"),
        Argument::new(
            "skipme",
            ArgumentKind::OneOf(&[Argument::flag("yes", "YES"), Argument::flag("no", "NO")]),
        )
        .token("SKIPME")
        .optional()
        .since("8.1.0"),
        Argument::new("maxage", ArgumentKind::Integer).token("MAXAGE").optional().since("8.1.0"),
        Argument::new("name", ArgumentKind::String).token("NAME").optional().since("9.0.0"),
        Argument::new("idle", ArgumentKind::Integer).token("IDLE").optional().since("9.0.0"),
        Argument::new("flags", ArgumentKind::String).token("FLAGS").optional().since("9.0.0"),
        Argument::new("lib-name", ArgumentKind::String).token("LIB-NAME").optional().since("9.0.0"),
        Argument::new("lib-ver", ArgumentKind::String).token("LIB-VER").optional().since("9.0.0"),
        Argument::new("db", ArgumentKind::Integer).token("DB").optional().since("9.0.0"),
        Argument::new("capa", ArgumentKind::String).token("CAPA").optional().since("9.0.0"),
        Argument::new("ip", ArgumentKind::String).token("IP").optional().since("9.0.0"),
        Argument::new(
            "not-client-type",
            ArgumentKind::OneOf(&[
                Argument::flag("normal", "NORMAL"),
                Argument::flag("master", "MASTER"),
                Argument::flag("replica", "REPLICA"),
                Argument::flag("pubsub", "PUBSUB"),
            ]),
        )
        .token("NOT-TYPE")
        .optional()
        .since("9.0.0"),
        Argument::new("not-client-id", ArgumentKind::Integer)
            .token("NOT-ID")
            .optional()
            .multiple()
            .since("9.0.0"),
        Argument::new("not-username", ArgumentKind::String)
            .token("NOT-USER")
            .optional()
            .since("9.0.0"),
        Argument::new("not-addr", ArgumentKind::String)
            .token("NOT-ADDR")
            .optional()
            .since("9.0.0")
            .display("ip:port"),
        Argument::new("not-laddr", ArgumentKind::String)
            .token("NOT-LADDR")
            .optional()
            .since("9.0.0")
            .display("ip:port"),
        Argument::new("not-name", ArgumentKind::String).token("NOT-NAME").optional().since("9.0.0"),
        Argument::new("not-flags", ArgumentKind::String)
            .token("NOT-FLAGS")
            .optional()
            .since("9.0.0"),
        Argument::new("not-lib-name", ArgumentKind::String)
            .token("NOT-LIB-NAME")
            .optional()
            .since("9.0.0"),
        Argument::new("not-lib-ver", ArgumentKind::String)
            .token("NOT-LIB-VER")
            .optional()
            .since("9.0.0"),
        Argument::new("not-db", ArgumentKind::Integer).token("NOT-DB").optional().since("9.0.0"),
        Argument::new("not-capa", ArgumentKind::String).token("NOT-CAPA").optional().since("9.0.0"),
        Argument::new("not-ip", ArgumentKind::String).token("NOT-IP").optional().since("9.0.0"),
    ],
    tips: &["nondeterministic_output"],
    handler: Handler::Session(client::list),
    ..Command::BASE
};

const CLIENT_KILL: Command = Command {
    name: "client|kill",
    summary: "Closes connections.",
    since: "2.4.0",
    complexity: "O(N) where N is the number of client connections",
    group: Group::Connection,
    arity: -3,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::CONNECTION).union(Categories::DANGEROUS),
    arguments: &[Argument::new(
        "filter",
        ArgumentKind::OneOf(&[
            Argument::new("old-format", ArgumentKind::String).display("ip:port"),
            Argument::new(
                "new-format",
                ArgumentKind::OneOf(&[
                    Argument::new("client-id", ArgumentKind::Integer)
                        .token("ID")
                        .optional()
                        .multiple()
                        .since("2.8.12"),
                    Argument::new(
                        "client-type",
                        ArgumentKind::OneOf(&[
                            Argument::flag("normal", "NORMAL"),
                            Argument::flag("master", "MASTER").since("3.2.0"),
                            Argument::flag("primary", "PRIMARY").since("8.0.0"),
                            Argument::flag("slave", "SLAVE"),
                            Argument::flag("replica", "REPLICA").since("5.0.0"),
                            Argument::flag("pubsub", "PUBSUB"),
                        ]),
                    )
                    .token("TYPE")
                    .optional()
                    .since("2.8.12"),
                    Argument::new("username", ArgumentKind::String).token("USER").optional(),
                    Argument::new("addr", ArgumentKind::String)
                        .token("ADDR")
                        .optional()
                        .display("ip:port"),
                    Argument::new("laddr", ArgumentKind::String)
                        .token("LADDR")
                        .optional()
                        .since("6.2.0")
                        .display("ip:port"),
                    Argument::new(
                        "skipme",
                        ArgumentKind::OneOf(&[
                            Argument::flag("yes", "YES"),
                            Argument::flag("no", "NO"),
                        ]),
                    )
                    .token("SKIPME")
                    .optional(),
                    Argument::new("maxage", ArgumentKind::Integer)
                        .token("MAXAGE")
                        .optional()
                        .since("8.0.0"),
                    Argument::new("name", ArgumentKind::String)
                        .token("NAME")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("idle", ArgumentKind::Integer)
                        .token("IDLE")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("flags", ArgumentKind::String)
                        .token("FLAGS")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("lib-name", ArgumentKind::String)
                        .token("LIB-NAME")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("lib-ver", ArgumentKind::String)
                        .token("LIB-VER")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("db", ArgumentKind::Integer)
                        .token("DB")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("capa", ArgumentKind::String)
                        .token("CAPA")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("ip", ArgumentKind::String).token("IP").optional().since("9.0.0"),
                    Argument::new(
                        "not-client-type",
                        ArgumentKind::OneOf(&[
                            Argument::flag("normal", "NORMAL"),
                            Argument::flag("master", "MASTER"),
                            Argument::flag("primary", "PRIMARY"),
                            Argument::flag("slave", "SLAVE"),
                            Argument::flag("replica", "REPLICA"),
                            Argument::flag("pubsub", "PUBSUB"),
                        ]),
                    )
                    .token("NOT-TYPE")
                    .optional()
                    .since("9.0.0"),
                    Argument::new("not-client-id", ArgumentKind::Integer)
                        .token("NOT-ID")
                        .optional()
                        .multiple()
                        .since("9.0.0"),
                    Argument::new("not-username", ArgumentKind::String)
                        .token("NOT-USER")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("not-addr", ArgumentKind::String)
                        .token("NOT-ADDR")
                        .optional()
                        .since("9.0.0")
                        .display("ip:port"),
                    Argument::new("not-laddr", ArgumentKind::String)
                        .token("NOT-LADDR")
                        .optional()
                        .since("9.0.0")
                        .display("ip:port"),
                    Argument::new("not-name", ArgumentKind::String)
                        .token("NOT-NAME")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("not-flags", ArgumentKind::String)
                        .token("NOT-FLAGS")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("not-lib-name", ArgumentKind::String)
                        .token("NOT-LIB-NAME")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("not-lib-ver", ArgumentKind::String)
                        .token("NOT-LIB-VER")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("not-db", ArgumentKind::Integer)
                        .token("NOT-DB")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("not-capa", ArgumentKind::String)
                        .token("NOT-CAPA")
                        .optional()
                        .since("9.0.0"),
                    Argument::new("not-ip", ArgumentKind::String)
                        .token("NOT-IP")
                        .optional()
                        .since("9.0.0"),
                ]),
            )
            .multiple(),
        ]),
    )],
    handler: Handler::Session(client::kill),
    ..Command::BASE
};

const CLIENT_REPLY: Command = Command {
    name: "client|reply",
    summary: "Says which replies the connection wants.",
    since: "3.2.0",
    group: Group::Connection,
    arity: 3,
    flags: Flags::ALLOW_BUSY
        .union(Flags::LOADING)
        .union(Flags::NO_MULTI)
        .union(Flags::NOSCRIPT)
        .union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new(
        "action",
        ArgumentKind::OneOf(&[
            Argument::flag("on", "ON"),
            Argument::flag("off", "OFF"),
            Argument::flag("skip", "SKIP"),
        ]),
    )],
    handler: Handler::Session(client::reply_mode),
    ..Command::BASE
};

const CLIENT_NO_EVICT: Command = Command {
    name: "client|no-evict",
    summary: "Keeps the connection from being closed for its memory.",
    since: "7.0.0",
    group: Group::Connection,
    arity: 3,
    flags: Flags::ADMIN
        .union(Flags::ALLOW_BUSY)
        .union(Flags::LOADING)
        .union(Flags::NOSCRIPT)
        .union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::CONNECTION).union(Categories::DANGEROUS),
    arguments: &[Argument::new(
        "enabled",
        ArgumentKind::OneOf(&[Argument::flag("on", "ON"), Argument::flag("off", "OFF")]),
    )],
    handler: Handler::Session(client::no_evict),
    ..Command::BASE
};

const CLIENT_NO_TOUCH: Command = Command {
    name: "client|no-touch",
    summary: "Lets the reads of the connection not count as uses of keys.",
    since: "7.2.0",
    group: Group::Connection,
    arity: 3,
    flags: Flags::ALLOW_BUSY.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new(
        "enabled",
        ArgumentKind::OneOf(&[Argument::flag("on", "ON"), Argument::flag("off", "OFF")]),
    )],
    handler: Handler::Session(client::no_touch),
    ..Command::BASE
};

const CLIENT_UNBLOCK: Command = Command {
    name: "client|unblock",
    summary: "Ends the wait of a blocked connection.",
    since: "5.0.0",
    complexity: "O(log N) where N is the number of client connections",
    group: Group::Connection,
    arity: -3,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::CONNECTION).union(Categories::DANGEROUS),
    arguments: &[
        Argument::new("client-id", ArgumentKind::Integer),
        Argument::new(
            "unblock-type",
            ArgumentKind::OneOf(&[
                Argument::flag("timeout", "TIMEOUT"),
                Argument::flag("error", "ERROR"),
            ]),
        )
        .optional(),
    ],
    handler: Handler::Session(client::unblock),
    ..Command::BASE
};

const CLIENT_PAUSE: Command = Command {
    name: "client|pause",
    summary: "Stops commands for a time.",
    since: "3.0.0",
    group: Group::Connection,
    arity: -3,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::CONNECTION).union(Categories::DANGEROUS),
    arguments: &[
        Argument::new("timeout", ArgumentKind::Integer),
        Argument::new(
            "mode",
            ArgumentKind::OneOf(&[Argument::flag("write", "WRITE"), Argument::flag("all", "ALL")]),
        )
        .optional()
        .since("6.2.0"),
    ],
    handler: Handler::Session(client::pause),
    ..Command::BASE
};

const CLIENT_UNPAUSE: Command = Command {
    name: "client|unpause",
    summary: "Lets stopped commands go on.",
    since: "6.2.0",
    complexity: "O(N) Where N is the number of paused clients",
    group: Group::Connection,
    arity: 2,
    flags: Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::ADMIN.union(Categories::CONNECTION).union(Categories::DANGEROUS),
    handler: Handler::Session(client::unpause),
    ..Command::BASE
};

const CLIENT_HELP: Command = Command {
    name: "client|help",
    summary: "Lists the subcommands.",
    since: "5.0.0",
    group: Group::Connection,
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::CONNECTION,
    handler: Handler::Session(client::help),
    ..Command::BASE
};
const CLIENT_GETREDIR: Command = Command {
    name: "client|getredir",
    summary: "Answers where tracking invalidations go.",
    since: "6.0.0",
    group: Group::Connection,
    arity: 2,
    flags: Flags::ALLOW_BUSY.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    handler: Handler::Session(client::getredir),
    ..Command::BASE
};

const CLIENT_TRACKINGINFO: Command = Command {
    name: "client|trackinginfo",
    summary: "Tells about tracking of the connection.",
    since: "6.2.0",
    group: Group::Connection,
    arity: 2,
    flags: Flags::LOADING.union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    handler: Handler::Session(client::trackinginfo),
    ..Command::BASE
};

const CLIENT_CACHING: Command = Command {
    name: "client|caching",
    summary: "Tells whether to track the keys of the next command.",
    since: "6.0.0",
    group: Group::Connection,
    arity: 3,
    flags: Flags::ALLOW_BUSY.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new(
        "mode",
        ArgumentKind::OneOf(&[Argument::flag("yes", "YES"), Argument::flag("no", "NO")]),
    )],
    handler: Handler::Session(client::caching),
    ..Command::BASE
};

const CLIENT_CAPA: Command = Command {
    name: "client|capa",
    summary: "Tells what the client can do.",
    since: "8.0.0",
    group: Group::Connection,
    arity: -3,
    flags: Flags::ALLOW_BUSY.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new("capability", ArgumentKind::String).multiple()],
    handler: Handler::Session(client::capa),
    ..Command::BASE
};

const CLIENT_IMPORT_SOURCE: Command = Command {
    name: "client|import-source",
    summary: "Marks the connection as a source of an import.",
    since: "8.1.0",
    group: Group::Connection,
    arity: 3,
    flags: Flags::LOADING.union(Flags::NOSCRIPT).union(Flags::STALE),
    categories: Categories::CONNECTION,
    arguments: &[Argument::new(
        "enabled",
        ArgumentKind::OneOf(&[Argument::flag("on", "ON"), Argument::flag("off", "OFF")]),
    )],
    handler: Handler::Session(client::import_source),
    ..Command::BASE
};
