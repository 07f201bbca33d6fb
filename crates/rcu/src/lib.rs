//! Userspace read-copy-update.
