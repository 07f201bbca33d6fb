// Package tidemill is a client for Redis, Valkey and Tidemill with adaptive implicit pipelining.
//
// Idea: all goroutines share one connection. Their requests are gathered into few writes and read
// back in few reads, which saves system calls on both sides; a lone caller pays nothing for that.
// When to flush is decided from what the pipe observes, not by a setting (see gather.go).
//
// Why this way: clients with a connection per caller spend most of their own and the server's time
// in system calls, and clients that pipeline with a fixed pause make a lone caller wait for nobody.
//
// Not its purpose: object mapping, or a queue that outlives the process. It never repeats a write
// whose outcome is unknown unless told that this is safe; see [ErrNotSent] and [ErrMaybeSent].
package tidemill
