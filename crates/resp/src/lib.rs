//! RESP2 and RESP3, parsed and encoded without I/O.
