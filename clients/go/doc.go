// Package tidemill is a client for Redis, Valkey and Tidemill with adaptive implicit pipelining.
//
// Idea: all goroutines share one connection. Their requests are gathered into few writes and read
// back in few reads, which saves system calls on both sides; a lone caller pays nothing for that.
// When to flush is decided from what the pipe observes, not by a setting (see gather.go).
//
// Reason for this way: clients with a connection per caller spend most of their own and the
// server's time in system calls, and clients that pipeline with a fixed pause make a lone caller
// wait for nobody.
//
// Not its purpose: object mapping, or a queue that outlives the process. It never repeats a write
// whose outcome is unknown unless told that this is safe; see [ErrNotSent] and [ErrMaybeSent].
//
// # A client
//
// [New] makes one for a server, [NewCluster] for a cluster, [NewSentinel] for what sentinels watch.
// One per process is enough; it is safe for all goroutines. Nothing is sent before the first
// command; [Client.Connect] tries at once. [Client.Shutdown] waits for what is pending,
// [Client.Close] does so for a short time.
//
// # Commands
//
// There is a method per command ([Commands.Get], [Commands.HSet] and so on), and [Client.Do] for
// any command by name. Arguments are strings, byte slices, integers, floats, booleans and times of
// the standard library's types. All return a [Reply], a value: errors are looked at where it is
// converted, with [Reply.Text], [Reply.Int64], [Reply.Array] and their like, or with [As] into
// structs, slices, maps and pointers.
//
// # Contexts and deadlines
//
// Every call takes a context first and returns when it ends, also while queues are full or the
// connection is being made again. A call that ends before its reply came says whether the command
// may have been executed.
//
// # Errors
//
// An operation that fails without the server's answer is [ErrNotSent] or [ErrMaybeSent], never
// both: the first may be repeated, the second only when repeating does no harm. The server's own
// answers are [ServerError], compared by [ServerCode]. The client repeats what was not sent, and
// reads of unknown outcome; [WithIdempotent] permits it for a write. An error that answers the
// repeated write leaves its outcome unknown: it is the cause of an [ErrMaybeSent].
//
// # Without waiting
//
// [Client.Go] returns a [Future]; [Client.Async] calls back from the reader of the connection, so
// its callback must be brief. Operations of one goroutine keep their order.
//
// # Batches and transactions
//
// A [Batch] is one write and no transaction. A [Tx] is MULTI and EXEC in one round trip.
// [Client.Watch] is an optimistic transaction on a connection of its own; [ErrTxAborted] says that
// a key changed meanwhile. A [Script] is sent by digest, and by source when the server lacks it.
//
// # Connections of their own
//
// Commands that block or change their connection cannot share one. They are recognized by the
// server's own table of commands and get another connection by themselves. [Client.Dedicate] gives
// you such a connection with its state. Commands after which replies do not belong to commands
// (SUBSCRIBE, MONITOR ...) are refused: messages come by [Client.Subscribe].
//
// # Publish and subscribe
//
// [Client.Subscribe] listens on a connection of its own and subscribes again after it was lost;
// [Overflow] says what happens to messages that nobody receives.
//
// # Caching
//
// With [Options].Cache set, [Client.Cached] answers reads from memory until the server says that
// the key changed. It needs RESP3.
//
// # Clusters
//
// [Cluster] has the same commands. Keys of one command must share a slot, or [WithSplit] takes it
// apart; [Options].ReadFrom sends reads to replicas. Redirections are followed, and the map of
// slots is read again when something hints at a change.
//
// # Observing
//
// A [Hook] sees every operation; [Client.Stats] and [Client.CacheStats] count; [Options].Logger
// gets rare events. The module go.tidemill.dev/client/otel joins OpenTelemetry.
//
// # Testing
//
// Package tidemilltest is a server within a test, which records commands and answers what the test
// says.
package tidemill
