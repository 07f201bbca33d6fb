// Package commandline tests what a user meets first: the help of each part, completion scripts,
// manual pages, and the targets `make run` and `make test`, which must show what they are doing.
package commandline
