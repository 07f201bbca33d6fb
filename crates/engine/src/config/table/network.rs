//! Directives of listeners and of limits of clients.

use tidemill_store::limits::ELEMENT_BYTES_MAX;

use super::super::directive::{Directive, Kind};
use super::super::text_form::TextForm;
use super::builders::{ANY, I32, PORT, flag, form, integer, memory, secret, text};

const NO_RDMA: &str = "there is no RDMA";
const OUTGOING: &str = "the only connections that the server opens are those of MIGRATE";
const REFERRED: &str = "long values leave by reference always";
const WORKERS: &str = "every worker accepts and reads for itself; see `worker-threads`";

pub(super) const DIRECTIVES: &[Directive] = &[
    integer("port", "6379", 0, PORT, "TCP port; 0 listens on no TCP port."),
    Directive::new(
        "bind",
        Kind::Words { min: 0, max: 16 },
        "* -::*",
        "Addresses or names to listen on; those behind `-` may be missing. When they change, \
         connections stay; a worker waits while a name is looked up.",
    ),
    form(
        "unixsocket",
        TextForm::SocketPath,
        "",
        "Path of a Unix socket to listen on; empty for none.",
    )
    .at_start(),
    text(
        "unixsocketgroup",
        "",
        "Group of the Unix socket: a name of `/etc/group`, or a number; empty for that of the \
         process.",
    )
    .at_start(),
    Directive::new(
        "unixsocketperm",
        Kind::Permissions,
        "0",
        "Permissions of the Unix socket, octal; 0 leaves them to the umask.",
    )
    .at_start(),
    flag("protected-mode", true, "Refuses clients from other hosts while there is no password."),
    integer(
        "tcp-backlog",
        "511",
        0,
        I32,
        "Connections the kernel queues before they are accepted.",
    )
    .at_start(),
    integer(
        "tcp-keepalive",
        "300",
        0,
        I32,
        "Seconds without traffic after which the kernel probes a client; 0 never.",
    ),
    integer("timeout", "0", 0, I32, "Seconds after which an idle client is disconnected; 0 never."),
    integer("maxclients", "10000", 1, u32::MAX as i64, "Most clients connected at once."),
    secret("requirepass", "Password of the default user; empty for none."),
    Directive::new(
        "client-output-buffer-limit",
        Kind::OutputBufferLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        "Bytes a client's unsent replies may reach at once, and for how many seconds a softer \
         limit, per class; a client that subscribes is `pubsub`, others are `normal`. What is \
         answered at once counts before it is sent, from 16 KiB on. Without a hard limit, a client \
         with 64 MiB unsent is executed for again once it took half.",
    ),
    memory(
        "client-query-buffer-limit",
        "1073741824",
        1 << 20,
        "Most bytes of one client's requests not yet executed.",
    ),
    Directive::new(
        "proto-max-bulk-len",
        Kind::Memory { min: 1 << 20, max: ELEMENT_BYTES_MAX as u64 },
        "536870912",
        "Longest argument of a request, longest string, largest table of LCS, and longest reply \
         of HRANDFIELD with a negative count, in bytes. An append-only file may have longer \
         values. Valkey has no maximum; here an element of a collection has at most 1 GiB.",
    ),
    Directive::new(
        "maxmemory-clients",
        Kind::MemoryOrPercent,
        "0",
        "Most memory of all clients together, at least 128 KiB; 0 for no limit. Beyond it the \
         largest are disconnected but those with CLIENT NO-EVICT: at once where one takes as much \
         by itself or the limit is lowered, otherwise ten times a second. A percentage is \
         of `maxmemory`.",
    ),
    integer("io-threads", "1", 1, 256, "Threads that read and write for the main thread.")
        .without_effect(WORKERS),
    integer(
        "min-io-threads-avoid-copy-reply",
        "7",
        0,
        I32,
        "I/O threads from which on replies refer to values instead of copying them.",
    )
    .hidden()
    .without_effect(REFERRED),
    integer(
        "min-string-size-avoid-copy-reply",
        "16384",
        0,
        I32,
        "Bytes from which on replies refer to values.",
    )
    .hidden()
    .without_effect(REFERRED),
    integer(
        "min-string-size-avoid-copy-reply-threaded",
        "65536",
        0,
        I32,
        "Bytes from which on replies refer to values, with I/O threads.",
    )
    .hidden()
    .without_effect(REFERRED),
    integer("max-new-connections-per-cycle", "10", 1, 1000, "Connections accepted per loop.")
        .without_effect(WORKERS),
    integer("prefetch-batch-max-size", "16", 0, 128, "Keys prefetched at once.")
        .without_effect("a worker prefetches as many as it finds"),
    flag("mptcp", false, "Listens with multipath TCP.")
        .at_start()
        .only(&["no"], "there is no multipath TCP"),
    integer("socket-mark-id", "0", 0, u32::MAX as i64, "Mark of the server's sockets.")
        .at_start()
        .only(&["0"], "sockets are not marked"),
    text("bind-source-addr", "", "Address of outgoing connections.").without_effect(OUTGOING),
    text("availability-zone", "", "Zone of the server, told to clients by HELLO and INFO."),
    integer(
        "tracking-table-max-keys",
        "1000000",
        0,
        ANY,
        "Most keys remembered for client-side caching; 0 for no limit.",
    ),
    text("rdma-bind", "", "RDMA addresses.").only(&[""], NO_RDMA),
    integer("rdma-port", "0", 0, PORT, "RDMA port.").only(&["0"], NO_RDMA),
    integer("rdma-completion-vector", "-1", -1, 1024, "RDMA completion vector.")
        .at_start()
        .without_effect(NO_RDMA),
    integer("rdma-rx-size", "1048576", 64 * 1024, 16 * 1024 * 1024, "RDMA receive buffer.")
        .at_start()
        .without_effect(NO_RDMA),
];
