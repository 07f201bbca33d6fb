//! The keyspace: slots, tables, entries and value types.
