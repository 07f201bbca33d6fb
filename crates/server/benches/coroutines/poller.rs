//! The one way in which both arms wait: `epoll`, level-triggered, changed only when a socket is
//! full.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

const EVENTS_MAX: usize = 1024;
const LISTENER: u64 = u64::MAX;

pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
    pub listener: TcpListener,
}

impl Poller {
    pub fn new(listener: TcpListener) -> Poller {
        listener.set_nonblocking(true).expect("a listener can be non-blocking");
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("there is epoll");
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)
            .expect("a listener can be polled");
        Poller { epoll, events: Vec::with_capacity(EVENTS_MAX), listener }
    }

    /// Waits, or only looks; returns the number of each connection that is ready, and none for the
    /// listener.
    pub fn wait(&mut self, may_sleep: bool) -> Vec<Option<usize>> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.events.clear();
        let timeout = if may_sleep { None } else { Some(&now) };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("epoll: {error}"),
        }
        let number = |event: &Event| match event.data.u64() {
            LISTENER => None,
            number => Some(number as usize),
        };
        self.events.iter().map(number).collect()
    }

    pub fn add(&self, socket: impl AsFd, number: usize) {
        epoll::add(&self.epoll, socket, EventData::new_u64(number as u64), EventFlags::IN)
            .expect("a socket can be polled");
    }

    /// Waits for room instead of input, or the other way round.
    pub fn wants_room(&self, socket: impl AsFd, number: usize, wants_room: bool) {
        let flags = if wants_room { EventFlags::OUT } else { EventFlags::IN };
        epoll::modify(&self.epoll, socket, EventData::new_u64(number as u64), flags)
            .expect("a polled socket can be changed");
    }
}
