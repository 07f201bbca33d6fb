//! Host: the process around the engine.

use std::io;
use std::thread;

use tidemill_store::Block;

pub use crate::blocking::LogPosition;
use crate::config::Configuration;
use crate::migration::{MigrationDone, MigrationEnd, MigrationRequest};
use crate::saving::{NoFiles, Saving};

/// Levels of the server's own messages, of those that scripts have.
pub mod log_level {
    /// Something that helps to find out what a client does wrong.
    pub const VERBOSE: u8 = 1;
    /// Something that an operator asked for.
    pub const NOTICE: u8 = 2;
    /// Something that an operator should see.
    pub const WARNING: u8 = 3;
}

/// Memory of the allocator, in bytes. All zero when it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorMemory {
    /// Handed out.
    pub allocated_bytes: u64,
    /// Pages with at least one allocation.
    pub active_bytes: u64,
    /// Pages in physical memory, by the allocator's count.
    pub resident_bytes: u64,
    /// Pages that the system may take back when it needs them.
    pub muzzy_bytes: u64,
}

/// Processor time of all threads of the process, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorTime {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
}

/// Facts about the append-only file, while it is not off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendOnlyFacts {
    /// Bytes of all its files.
    pub current_bytes: u64,
    /// Bytes of all its files behind the last rewrite; of the base since a start.
    pub base_bytes: u64,
    /// Writes that were done beside a sync, because it took too long.
    pub delayed_sync_count: u64,
    /// True if a sync runs.
    pub is_syncing: bool,
    /// True if the last write or sync failed.
    pub has_failed: bool,
    /// True while it has no base, so that a start would not find it.
    pub awaits_first_base: bool,
}

/// Fault of each use of the files of data, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DiskFault {
    /// Nothing.
    None,
    /// Writes, by EIO.
    Write,
    /// Writes, by EIO behind one that took a part.
    ShortWrite,
    /// Syncs, by EIO.
    Sync,
    /// Syncs, which take a second more.
    SlowSync,
}

/// Services of the process around the engine, for commands.
pub trait Host: Send + Sync + 'static {
    /// Stops the server soon, because a client asked for it, which is described by its numbers and
    /// addresses.
    fn shut_down(&self, requested_by: &str);

    /// Forgets the signals that asked for the end of the server until now.
    fn forget_signals(&self) {}

    /// Touches memory that is not there, for `DEBUG SEGFAULT`. Hosts without unsafe code end
    /// otherwise.
    fn violate_memory(&self) {
        std::process::abort();
    }

    /// Replaces the contents of the file that the server was started with by what `rewritten` makes
    /// of them.
    ///
    /// # Errors
    ///
    /// The text for the client.
    fn rewrite_configuration(&self, rewritten: &dyn Fn(&[u8]) -> Vec<u8>) -> Result<(), String>;

    /// Contents of the file of users.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn read_users(&self, _path: &str) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Puts contents in the place of the file of users.
    ///
    /// # Errors
    ///
    /// When it cannot be written; the old file is then untouched.
    fn write_users(&self, _path: &str, _contents: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes a message to the log; levels are 0 (debug) to 3 (warning), see [`log_level`].
    fn log(&self, _level: u8, _message: &[u8]) {}

    /// Number of large values that a thread has freed in the background.
    fn freed_values(&self) -> u64 {
        0
    }

    /// Sends requests to another server, from a thread of its own, and tells how they ended. Does
    /// not block.
    fn migrate(&self, _request: MigrationRequest, done: MigrationDone) {
        done(MigrationEnd::Unconnected);
    }

    /// Connections to other servers that are kept for the next migration.
    fn kept_migration_connections(&self) -> usize {
        0
    }

    /// Memory of the allocator.
    fn allocator(&self) -> AllocatorMemory;

    /// Memory that the machine, or the control group, has for the process; 0 when it is not known.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// Report of the allocator about itself, as it prints it.
    fn allocator_report(&self) -> String;

    /// Lets the allocator give unused memory back to the system.
    fn purge_memory(&self);

    /// True if a block lies in pages that hold little, and would do better elsewhere.
    fn is_sparse(&self, _block: Block<'_>) -> bool {
        false
    }

    /// Lets the allocator take back the free memory that it keeps for the calling thread, so that
    /// the next allocations come from its fullest pages.
    fn flush_thread_cache(&self) {}

    /// True if the calling thread can have `bytes` more.
    fn has_room(&self, _bytes: usize) -> bool {
        true
    }

    /// Keeps memory back for allocations of the calling thread that cannot fail; false if there is
    /// none to be kept back, now that such an allocation has taken it.
    fn keep_reserve(&self) -> bool {
        true
    }

    /// Starts a thread of this name. It inherits CPUs and priority from the calling one.
    ///
    /// # Errors
    ///
    /// When the system gives no thread, or no memory for one.
    fn start_thread(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        thread::Builder::new().name(name.into()).spawn(body).map(drop)
    }

    /// Gets ready for a configuration that is about to take the place of the present one, or
    /// declines it and leaves all as it is. `changed` names the directives that get another value,
    /// in the client's order.
    ///
    /// # Errors
    ///
    /// The directive that cannot be had, and why.
    fn prepare(
        &self,
        _present: &Configuration,
        _next: &Configuration,
        _changed: &[&'static str],
    ) -> Result<(), (&'static str, String)> {
        Ok(())
    }

    /// The directory that the process is in.
    fn working_directory(&self) -> Option<String> {
        None
    }

    /// Last record of the journal, and the last one that is durable in the append-only file; none
    /// while that is off.
    fn log_position(&self) -> Option<LogPosition> {
        None
    }

    /// Pauses before each write of the append-only file, for tests.
    fn delay_log_writes(&self, _microseconds: u64) {}

    /// Lets writes or syncs of data's files fail from now on, for tests.
    fn fail_disk(&self, _fault: DiskFault) {}

    /// Lets sockets take nothing of what is sent by TLS, or take it again, for tests.
    fn fill_tls_sockets(&self, _are_full: bool) {}

    /// Facts about the append-only file, if there is one.
    fn append_only(&self) -> Option<AppendOnlyFacts> {
        None
    }

    /// Files of data.
    fn saving(&self) -> &dyn Saving {
        &NoFiles
    }

    /// Facts about the process and its listeners for `INFO`: field and value.
    fn facts(&self) -> Vec<(&'static str, String)>;

    /// Physical memory of the process, in bytes; 0 if the system does not tell.
    fn resident_bytes(&self) -> u64 {
        0
    }

    /// Processor time of all threads, if the system tells it.
    fn processor_time(&self) -> ProcessorTime {
        ProcessorTime::default()
    }
}
