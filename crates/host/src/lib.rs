//! The host under the server: facts (read), plan (pure), apply (system calls).

pub mod cli;
