//! Replies as a client reads them: to come.
