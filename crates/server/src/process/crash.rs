//! The reason of a crash, in the log.
//!
//! A panic, a failed allocation and a fatal signal each leave one line: version, commit, thread,
//! reason. It is written where log lines go, since a server in the background has no standard
//! error. Nothing here allocates, takes a lock or needs more stack than a signal handler has: the
//! memory may be what is broken. Then the process ends as it would have without us, by the signal,
//! so that there is a core file where the system keeps them.
//!
//! A panic of any thread ends the process. Unwinding it would leave what the thread held: locked
//! slots that are never released, clients that wait without end.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt::{self, Write};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::libc::siginfo_t;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

use crate::allocator;
use crate::log::Stamp;

/// Signals by which a process crashes.
const SIGNALS: [Signal; 5] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE, Signal::SIGABRT];

/// Bytes of a line; what is longer is cut. The second fits the stack of a signal handler, some 8
/// KiB.
const PANIC_BYTES: usize = 2048;
const SIGNAL_BYTES: usize = 256;

/// Time that a line waits for a reader of the standard output.
const READER_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Text and previous actions for the signal handler; set once, before there is another thread.
#[derive(Debug)]
struct Setup {
    commit: &'static str,
    log_file: Option<LogFile>,
    /// Actions of the signals before, in the order of [`SIGNALS`]: the standard library recognizes
    /// stack overflows by two of them.
    previous: [SigAction; SIGNALS.len()],
}

#[derive(Debug)]
struct LogFile {
    /// Absolute. Opened anew, because the file may have been rotated.
    path: CString,
    /// For when it cannot be opened: no descriptor is free, or the directory is gone.
    spare: File,
}

static SETUP: OnceLock<Setup> = OnceLock::new();

/// Pause between two looks whether another thread has told its reason, and the number of looks: it
/// may have to open a file, and wait for a reader, but must not keep the process from ending.
const TELLER_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const TELLER_LOOKS: usize = 100;

/// The first reason is told, not what follows from it: a panic ends in SIGABRT.
static TELLER: Teller = Teller::new(TELLER_LOOKS);

/// The one thread that tells the reason of the crash.
///
/// A second thread that crashes would end the process while the first one still opens the file:
/// it waits for a bounded time.
#[derive(Debug)]
struct Teller {
    /// [`Teller::NONE`], the number of the thread that tells, or [`Teller::DONE`].
    state: AtomicI32,
    /// Number of looks after which a thread waits no longer.
    looks: usize,
}

impl Teller {
    const NONE: i32 = 0;
    /// No thread has a negative number.
    const DONE: i32 = -1;

    const fn new(looks: usize) -> Teller {
        Teller { state: AtomicI32::new(Teller::NONE), looks }
    }

    /// Lets the first thread that crashes tell its reason. Any other waits until that is done, at
    /// most for `looks` times [`TELLER_PAUSE`], unless a signal ends a pause early. A thread that
    /// crashes once more while it tells does not wait for itself.
    ///
    /// For signal handlers too: it loads and stores an atomic, and makes system calls.
    fn tell_once(&self, tell: impl FnOnce()) {
        let own = rustix::thread::gettid().as_raw_pid();
        // Relaxed: that one exchange succeeds is all that decides who is first, and nothing is
        // handed over by it.
        let told =
            self.state.compare_exchange(Teller::NONE, own, Ordering::Relaxed, Ordering::Relaxed);
        match told {
            Ok(_) => {
                tell();
                // Release: pairs with the load in `wait`. The line is written before another thread
                // goes on to end the process.
                self.state.store(Teller::DONE, Ordering::Release);
            }
            Err(teller) if teller == own => {}
            Err(_) => self.wait(),
        }
    }

    fn wait(&self) {
        for _ in 0..self.looks {
            // Acquire: pairs with the store in `tell_once`. What this thread does next, which ends
            // the process, comes behind the line.
            if self.state.load(Ordering::Acquire) == Teller::DONE {
                return;
            }
            // Done early when a signal comes; the next look follows at once.
            let _ = rustix::thread::nanosleep(&TELLER_PAUSE);
        }
    }
}

/// Prepares for crashes. To be called once, after the log was started and before a thread is.
///
/// # Errors
///
/// Text for the operator when the log file cannot be opened or the system refuses handlers.
pub(crate) fn install(commit: &'static str, log_file: Option<&str>) -> Result<(), String> {
    let log_file = log_file.map(LogFile::open).transpose()?;
    // The previous actions are known only once the handlers are installed; a crash in between is
    // not reported.
    let handler = SigHandler::SigAction(on_signal);
    let action =
        SigAction::new(handler, SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK, SigSet::empty());
    let mut previous = [action; SIGNALS.len()];
    for (signal, previous) in SIGNALS.into_iter().zip(&mut previous) {
        // SAFETY: the handler only does what POSIX allows in one: it uses atomics and the cell of
        // its thread, formats into an array on its stack, and makes system calls.
        *previous = unsafe { sigaction(signal, &action) }
            .map_err(|error| format!("no handler for {signal}: {}", error.desc()))?;
    }
    // Prepared already is as good: this is called once.
    let _ = SETUP.set(Setup { commit, log_file, previous });
    let to_standard_error = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        on_panic(info);
        // As without us, unless it would never be read: the process has to end.
        if is_writable(rustix::stdio::stderr()) {
            to_standard_error(info);
        }
        std::process::abort();
    }));
    Ok(())
}

/// Writes to an address without write permission. For tests of this module.
pub(crate) fn violate_memory() {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let (flags, length) = (MapFlags::PRIVATE, rustix::param::page_size());
    // SAFETY: a new mapping at an address that the system chooses touches no other.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::empty(), flags) };
    if let Ok(page) = page {
        // SAFETY: the page is ours alone. Nothing is written: the processor refuses, and the
        // process ends.
        unsafe { page.cast::<u8>().write_volatile(1) };
    }
}

impl LogFile {
    fn open(path: &str) -> Result<LogFile, String> {
        let failed =
            |error: &dyn fmt::Display| format!("Can't open the log file '{path}': {error}");
        let absolute = std::path::absolute(path).unwrap_or_else(|_| Path::new(path).to_owned());
        let spare = File::options().append(true).create(true).open(&absolute);
        let spare = spare.map_err(|error| failed(&error))?;
        let bytes = absolute.into_os_string().into_encoded_bytes();
        let path = CString::new(bytes).map_err(|error| failed(&error))?;
        Ok(LogFile { path, spare })
    }

    fn write(&self, line: &[u8]) {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let is_written = rustix::fs::open(self.path.as_c_str(), flags, mode)
            .is_ok_and(|file| rustix::io::write(&file, line).is_ok());
        if !is_written {
            // Lost when this fails too: there is nowhere else.
            let _ = rustix::io::write(&self.spare, line);
        }
    }
}

/// A line that is cut where the array ends.
struct Line<const BYTES: usize> {
    bytes: [u8; BYTES],
    length: usize,
}

impl<const BYTES: usize> Write for Line<BYTES> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte is the line's end. A message of several lines becomes one.
        let room = self.bytes[..BYTES - 1].iter_mut().skip(self.length);
        for (place, byte) in room.zip(text.bytes()) {
            *place = if byte < b' ' { b' ' } else { byte };
            self.length += 1;
        }
        Ok(())
    }
}

impl<const BYTES: usize> Line<BYTES> {
    fn new() -> Self {
        Line { bytes: [0; BYTES], length: 0 }
    }

    /// Writes the whole line: when, what, where and why.
    fn fill(&mut self, commit: &str, reason: fmt::Arguments<'_>) -> &[u8] {
        let (process, stamp, version) =
            (std::process::id(), Stamp::now(), env!("CARGO_PKG_VERSION"));
        // Neither this nor an array refuses.
        let _ = write!(
            self,
            "{process}:M {stamp} # Tidemill {version} commit {commit} crashed in thread "
        );
        self.thread_name();
        let _ = write!(self, ": {reason}");
        self.bytes[self.length] = b'\n';
        &self.bytes[..=self.length]
    }

    /// The calling thread's name, as the kernel knows it: other ways to learn it allocate or need
    /// more unsafe code.
    fn thread_name(&mut self) {
        const PATH: &CStr = c"/proc/thread-self/comm";
        let mut name = [0; 16];
        let length = rustix::fs::open(PATH, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|file| rustix::io::read(&file, &mut name));
        let name = str::from_utf8(&name[..length.unwrap_or(0)]).unwrap_or_default().trim_end();
        let _ = self.write_str(if name.is_empty() { "?" } else { name });
    }
}

fn tell<const BYTES: usize>(reason: fmt::Arguments<'_>) {
    let setup = SETUP.get();
    let mut line = Line::<BYTES>::new();
    let line = line.fill(setup.map_or("unknown", |setup| setup.commit), reason);
    match setup.and_then(|setup| setup.log_file.as_ref()) {
        Some(file) => file.write(line),
        None => {
            let output = rustix::stdio::stdout();
            if is_writable(output) {
                let _ = rustix::io::write(output, line);
            }
        }
    }
}

/// True if bytes written to the output are taken soon.
fn is_writable(output: BorrowedFd<'_>) -> bool {
    let output = output.as_fd();
    let mut watched = [PollFd::new(&output, PollFlags::OUT)];
    poll(&mut watched, Some(&READER_TIMEOUT)).is_ok_and(|count| count > 0)
}

fn on_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("of unknown kind");
    TELLER.tell_once(|| match info.location() {
        Some(location) => tell::<PANIC_BYTES>(format_args!("panic at {location}: {text}")),
        None => tell::<PANIC_BYTES>(format_args!("panic: {text}")),
    });
}

extern "C" fn on_signal(number: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    let Ok(signal) = Signal::try_from(number) else { return };
    // SAFETY: the kernel calls with the address of the information that it wrote on this stack.
    let info = unsafe { &*info };
    let is_fault = info.si_code > 0;
    TELLER.tell_once(|| {
        if is_fault {
            // SAFETY: faults come with an address.
            let address = unsafe { info.si_addr() };
            tell::<SIGNAL_BYTES>(format_args!("signal {number} {signal} at address {address:p}"));
        } else {
            tell_sent(signal, info);
        }
    });
    let setup = SETUP.get().filter(|_| is_fault);
    let index = SIGNALS.iter().position(|&each| each == signal);
    let previous = setup.zip(index).map(|(setup, index)| setup.previous[index]);
    let by_default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: what was installed before us is as good as ever, and the default is no handler.
    let _ = unsafe { sigaction(signal, &previous.unwrap_or(by_default)) };
    // A fault comes again when the instruction does; what was sent does not come by itself. It is
    // blocked until we return.
    if !is_fault {
        let _ = raise(signal);
    }
}

/// Tells of a signal that a process sent: this one, to say that it cannot go on, or another one.
fn tell_sent(signal: Signal, info: &siginfo_t) {
    // SAFETY: signals that a process sends come with its number.
    let sender = unsafe { info.si_pid() };
    if sender.cast_unsigned() != std::process::id() {
        return tell::<SIGNAL_BYTES>(format_args!("signal {signal} from process {sender}"));
    }
    match allocator::failed_bytes().filter(|_| signal == Signal::SIGABRT) {
        Some(bytes) => {
            tell::<SIGNAL_BYTES>(format_args!("memory allocation of {bytes} bytes failed"));
        }
        None => tell::<SIGNAL_BYTES>(format_args!("signal {signal} from itself")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::allocator::tests::allocations;

    #[test]
    fn a_reason_is_told_without_an_allocation() {
        let file = std::env::temp_dir().join(format!("tidemill-crash-{}", std::process::id()));
        let log = LogFile::open(&file.display().to_string()).expect("a file");
        let before = allocations();
        let mut line = Line::<SIGNAL_BYTES>::new();
        log.write(line.fill("abc", format_args!("panic at {}:{}", file!(), line!())));
        assert!(is_writable(log.spare.as_fd()));
        assert_eq!(allocations(), before);
        let text = std::fs::read_to_string(&file).expect("it was written");
        std::fs::remove_file(&file).expect("it is ours");
        assert!(text.contains("abc crashed in thread ") && text.contains("panic at "), "{text}");
    }

    #[test]
    fn second_thread_waits_until_the_first_has_told() {
        // Looks for a minute: the first thread may have no CPU for longer than a crash waits.
        let (teller, is_told) = (Teller::new(6_000), AtomicBool::new(false));
        let (begun, has_begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                teller.tell_once(|| {
                    begun.send(()).expect("the test waits");
                    std::thread::sleep(Duration::from_millis(200));
                    is_told.store(true, Ordering::SeqCst);
                    teller.tell_once(|| unreachable!("a thread tells one reason"));
                });
            });
            has_begun.recv().expect("the first thread tells");
            teller.tell_once(|| unreachable!("the first reason is told"));
            assert!(is_told.load(Ordering::SeqCst));
        });
        teller.tell_once(|| unreachable!("one reason is told"));
    }

    #[test]
    fn wait_for_a_thread_that_never_tells_has_an_end() {
        let teller = Teller::new(TELLER_LOOKS);
        teller.state.store(i32::MAX, Ordering::SeqCst);
        let begin = Instant::now();
        teller.tell_once(|| unreachable!("another thread tells"));
        let waited = begin.elapsed();
        assert!(waited < Duration::from_secs(60), "{waited:?}");
    }

    #[test]
    fn a_line_is_whole_or_cut_and_always_one() {
        let mut line = Line::<256>::new();
        let text = line.fill("abc", format_args!("left: 1\n right: {}", 2)).to_owned();
        let text = String::from_utf8(text).expect("it is text");
        let version = env!("CARGO_PKG_VERSION");
        // The kernel cuts the test's name.
        assert!(
            text.contains(&format!(" # Tidemill {version} commit abc crashed in thread ")),
            "{text}"
        );
        assert!(text.ends_with(": left: 1  right: 2\n"), "{text}");
        let mut line = Line::<64>::new();
        let text = line.fill("abc", format_args!("{:200}", 1));
        assert_eq!((text.len(), text[63]), (64, b'\n'));
    }
}
