//! Reclaimer: the background thread that frees large structures.
//!
//! It receives garbage whose grace period is over, so it is independent of domains and serves any
//! number of them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use crate::garbage::Elapsed;

/// Thread that frees the garbage that lists send to it. Dropping it stops the thread after the
/// garbage that was sent before.
#[derive(Debug)]
pub struct Reclaimer {
    handle: ReclaimerHandle,
    thread: Option<JoinHandle<()>>,
}

/// Sender of deep garbage from a list to a reclaimer; see
/// [`RetireList::set_reclaimer`](crate::RetireList::set_reclaimer).
#[derive(Clone, Debug)]
pub struct ReclaimerHandle {
    messages: Sender<Message>,
    figures: Arc<Figures>,
}

#[derive(Debug, Default)]
struct Figures {
    pending_bytes: AtomicUsize,
    freed_count: AtomicU64,
}

#[derive(Debug)]
enum Message {
    Free(Elapsed),
    Stop,
}

impl Reclaimer {
    /// Starts the thread. It inherits the processor affinity of the caller.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a thread.
    pub fn spawn(name: &str) -> io::Result<Reclaimer> {
        let (messages, inbox) = mpsc::channel();
        let figures = Arc::new(Figures::default());
        let handle = ReclaimerHandle { messages, figures: Arc::clone(&figures) };
        let thread =
            thread::Builder::new().name(name.into()).spawn(move || run(&inbox, &figures))?;
        Ok(Reclaimer { handle, thread: Some(thread) })
    }

    /// Sender of garbage to this thread.
    #[must_use]
    pub fn handle(&self) -> ReclaimerHandle {
        self.handle.clone()
    }

    /// Bytes that were sent and are not freed yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        // Relaxed: a figure for reports.
        self.handle.figures.pending_bytes.load(Ordering::Relaxed)
    }
}

fn run(inbox: &Receiver<Message>, figures: &Figures) {
    while let Ok(Message::Free(elapsed)) = inbox.recv() {
        let bytes = elapsed.bytes();
        drop(elapsed);
        figures.note_freed(bytes);
    }
}

impl Figures {
    fn note_freed(&self, bytes: usize) {
        // Relaxed: figures for reports.
        self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.freed_count.fetch_add(1, Ordering::Relaxed);
    }
}

impl ReclaimerHandle {
    /// Sends garbage; if the thread has ended it is freed by the calling thread.
    pub(crate) fn send(&self, elapsed: Elapsed) {
        let bytes = elapsed.bytes();
        // Relaxed: a figure for reports.
        self.figures.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.messages.send(Message::Free(elapsed)).is_err() {
            self.figures.note_freed(bytes);
        }
    }

    /// Number of pieces that were sent and are freed.
    #[must_use]
    pub fn freed_count(&self) -> u64 {
        // Relaxed: a figure for reports.
        self.figures.freed_count.load(Ordering::Relaxed)
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        // Both fail only when the thread panicked in a destructor, which was reported already.
        let _ = self.handle.messages.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
