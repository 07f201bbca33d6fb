//! Command execution without sockets and without a clock of its own.
