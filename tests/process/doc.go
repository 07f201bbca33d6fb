// Package process tests the server as a process: its limits, log, signals, files, sockets and
// threads.
//
// Claims about behaviour that Valkey has too run against both servers.
package process
