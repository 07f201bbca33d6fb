// Package durability proves what survives the end of the server's process: no acknowledged write is
// lost or applied twice, transactions are whole, and what commands leave behind in the append-only
// file makes the same data again, here and in Valkey.
package durability
