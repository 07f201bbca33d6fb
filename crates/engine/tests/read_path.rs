//! Proof that a `GET` neither stores to the keyspace, nor allocates, nor executes an instruction
//! that locks the bus.
//!
//! - Keys are built in memory of their own, which is then mapped read-only; a million pipelined
//!   `GET`s run over it. A store would end the process by a signal, and the allocator counts.
//! - A child executes some pipelined `GET`s while this process steps it instruction by instruction
//!   and decodes each one. It also prints how many instructions a `GET` takes in this build.
//!
//! A `SET`, which does all three, shows that each is noticed.
//!
//! A process of its own without a harness: it has an allocator, runs itself again with arguments
//! for its own `main`, and traces that child.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

mod harness;

use std::alloc::{GlobalAlloc, Layout, System};
use std::num::NonZeroUsize;
use std::process::{Command, ExitCode, Stdio};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use harness::Server;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

const KEY_COUNT: usize = 2000;
const GET_COUNT: usize = 1_000_000;
const TRACED_COUNT: usize = 320;
const ARENA_BYTES: usize = 64 << 20;
/// The slot words are the one large allocation of a new server that belongs to the keyspace.
const SLOTS_BYTES: usize = 1 << 20;

static ARENA: AtomicUsize = AtomicUsize::new(0);
static ARENA_USED: AtomicUsize = AtomicUsize::new(0);
static IN_ARENA: AtomicBool = AtomicBool::new(false);
static ALLOCATION_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Allocates in the arena while asked to, else from the system; counts.
struct Divided;

// SAFETY: memory comes from the system's allocator or, never twice, from the arena, which is never
// given back.
unsafe impl GlobalAlloc for Divided {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATION_COUNT.fetch_add(1, Ordering::Relaxed);
        let arena = ARENA.load(Ordering::Relaxed);
        let is_meant = IN_ARENA.load(Ordering::Relaxed) || layout.size() >= SLOTS_BYTES;
        if arena != 0 && is_meant {
            let size = layout.size() + layout.align();
            let start = ARENA_USED.fetch_add(size, Ordering::Relaxed);
            if start + size <= ARENA_BYTES {
                return (arena + start).next_multiple_of(layout.align()) as *mut u8;
            }
        }
        // SAFETY: the caller's promise about the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let arena = ARENA.load(Ordering::Relaxed);
        if arena == 0 || !(arena..arena + ARENA_BYTES).contains(&(pointer as usize)) {
            // SAFETY: what is not in the arena came from the system, with this layout.
            unsafe { System.dealloc(pointer, layout) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: Divided = Divided;

/// Maps the arena and returns it.
fn map_arena() -> NonNull<core::ffi::c_void> {
    let length = NonZeroUsize::new(ARENA_BYTES).expect("not zero");
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping, which replaces nothing.
    let arena = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) }
        .expect("64 MiB of address space");
    ARENA.store(arena.as_ptr() as usize, Ordering::Relaxed);
    arena
}

/// A server whose keyspace lies in the arena.
fn filled_server() -> (Server, u64) {
    let mut server = Server::new(1, 1_700_000_000_000);
    let client = server.connect(0);
    // Whatever is made once per worker is made outside.
    server.call(client, &["SET", "warm", "up"]);
    for index in 0..KEY_COUNT {
        let input = request(&["SET", &format!("key:{index}"), "thirty-two bytes of a small value"]);
        IN_ARENA.store(true, Ordering::Relaxed);
        server.pipeline(client, &input);
        IN_ARENA.store(false, Ordering::Relaxed);
    }
    drop(server.journal.take());
    (server, client)
}

fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

fn pipelined_gets(count: usize) -> Vec<u8> {
    (0..count).flat_map(|index| request(&["GET", &format!("key:{}", index % KEY_COUNT)])).collect()
}

/// A child's part: reads, or writes to be noticed, in a keyspace that is mapped read-only.
fn run_read_only(writes: bool) -> ExitCode {
    let arena = map_arena();
    let (mut server, client) = filled_server();
    let input = pipelined_gets(1000);
    server.set_running(0, true);
    let bytes = server.pipeline(client, &input);
    // SAFETY: the arena is mapped; from here on this thread only reads in it, or dies showing that
    // it does not.
    unsafe { mprotect(arena, ARENA_BYTES, ProtFlags::PROT_READ) }.expect("own mapping");
    let before = ALLOCATION_COUNT.load(Ordering::Relaxed);
    if writes {
        server.pipeline(client, &request(&["SET", "key:1", "another"]));
    }
    for _ in 0..GET_COUNT / 1000 {
        assert_eq!(server.pipeline(client, &input), bytes, "the replies changed");
    }
    let allocations = ALLOCATION_COUNT.load(Ordering::Relaxed) - before;
    // Ends here: dropping the keyspace would write.
    println!("{GET_COUNT} GETs over a read-only keyspace, {allocations} allocations");
    std::process::exit(i32::from(allocations != 0));
}

/// A child's part: asks to be traced, and stops itself before and after what is to be looked at.
fn run_traced(writes: bool) -> ExitCode {
    let (mut server, client) = filled_server();
    let gets = pipelined_gets(TRACED_COUNT);
    let input = if writes { request(&["SET", "key:1", "another"]) } else { gets };
    server.set_running(0, true);
    server.pipeline(client, &input);
    ptrace::traceme().expect("a child may ask for it");
    nix::sys::signal::raise(Signal::SIGSTOP).expect("own process");
    server.pipeline(client, &input);
    nix::sys::signal::raise(Signal::SIGSTOP).expect("own process");
    std::process::exit(0);
}

/// True if an instruction locks the bus: a `lock` prefix, or `xchg` with memory, which implies one.
fn is_locked(code: &[u8]) -> bool {
    let mut rest = code;
    while let [
        prefix @ (0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65),
        tail @ ..,
    ] = rest
    {
        if *prefix == 0xf0 {
            return true;
        }
        rest = tail;
    }
    if let [0x40..=0x4f, tail @ ..] = rest {
        rest = tail;
    }
    matches!(rest, [0x86 | 0x87, operands, ..] if operands >> 6 != 3)
}

/// Steps a child from its first stop to its second. Returns the number of instructions that it
/// executed, and those of them that locked the bus.
fn step_through(child: &mut std::process::Child) -> (usize, Vec<String>) {
    let pid = Pid::from_raw(child.id() as i32);
    let stopped = |status| matches!(status, WaitStatus::Stopped(_, Signal::SIGSTOP));
    assert!(
        stopped(waitpid(pid, None).expect("a child")),
        "the child did not come to its first stop"
    );
    let (mut count, mut locked) = (0, Vec::new());
    let mut in_raise = true;
    loop {
        let registers = ptrace::getregs(pid).expect("a stopped child");
        let word = ptrace::read(pid, registers.rip as ptrace::AddressType).expect("code");
        let code = word.to_le_bytes();
        if is_locked(&code) {
            locked.push(format!("{:#x}: {code:02x?}", registers.rip));
        }
        count += 1;
        ptrace::step(pid, None).expect("a stopped child");
        match waitpid(pid, None).expect("a child") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => in_raise = false,
            // The second stop; the signal of the first may be reported once more.
            status if stopped(status) && !in_raise => break,
            status if stopped(status) => {}
            status => panic!("the child ended: {status:?}"),
        }
    }
    child.kill().expect("own child");
    child.wait().expect("own child");
    (count, locked)
}

fn child(mode: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.arg(mode).stdout(Stdio::inherit());
    command
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("child-reads") => return run_read_only(false),
        Some("child-writes") => return run_read_only(true),
        Some("child-traced-reads") => return run_traced(false),
        Some("child-traced-writes") => return run_traced(true),
        _ => {}
    }
    use std::os::unix::process::ExitStatusExt as _;

    let status = child("child-reads").status().expect("this test starts");
    assert!(status.success(), "a GET stores to the keyspace, or allocates: {status}");
    let status = child("child-writes").stderr(Stdio::null()).status().expect("this test starts");
    assert_eq!(status.signal(), Some(Signal::SIGSEGV as i32), "a SET was not noticed: {status}");

    let (count, locked) = step_through(&mut child("child-traced-reads").spawn().expect("starts"));
    println!("{} instructions per GET in a pipeline of {TRACED_COUNT}", count / TRACED_COUNT);
    assert!(count > TRACED_COUNT * 50, "only {count} instructions were seen");
    assert!(locked.is_empty(), "a GET locks the bus: {locked:#?}");
    let (_, locked) = step_through(&mut child("child-traced-writes").spawn().expect("starts"));
    assert!(!locked.is_empty(), "the locks of a SET were not noticed");
    println!("read_path: ok");
    ExitCode::SUCCESS
}
