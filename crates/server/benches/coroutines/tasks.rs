//! The second arm: a task for each connection on a single-threaded executor, on the same thread and
//! the same poller.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use async_executor::LocalExecutor;
use futures_lite::future::yield_now;
use slab::Slab;

use crate::core::{Connection, Core, Need};
use crate::poller::Poller;

/// Steps of tasks between two looks at the sockets, so that tasks which always have another turn do
/// not delay the others.
const TICKS_MAX: usize = 1024;

/// Readiness of a socket, with the waker of the task that waits for it.
#[derive(Default)]
struct Readiness {
    is_ready: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Readiness {
    fn set(&self) {
        self.is_ready.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn wait(&self) {
        poll_fn(|context| {
            if self.is_ready.take() {
                return Poll::Ready(());
            }
            self.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

struct Worker {
    core: RefCell<Core>,
    poller: RefCell<Poller>,
    waiting: RefCell<Slab<Rc<Readiness>>>,
}

/// A connection's life. The sequence that the event loop keeps as a state is the position in this
/// function.
async fn serve(worker: Rc<Worker>, mut connection: Connection) {
    let readiness = Rc::new(Readiness::default());
    let number = worker.waiting.borrow_mut().insert(Rc::clone(&readiness));
    worker.poller.borrow().add(&connection.socket, number);
    loop {
        readiness.wait().await;
        let mut need = worker.core.borrow_mut().read(&mut connection);
        loop {
            match need {
                Need::Input => break,
                Need::Turn => {
                    yield_now().await;
                    need = worker.core.borrow_mut().turn(&mut connection);
                }
                Need::Room => {
                    worker.poller.borrow().wants_room(&connection.socket, number, true);
                    readiness.wait().await;
                    worker.poller.borrow().wants_room(&connection.socket, number, false);
                    need = worker.core.borrow_mut().send(&mut connection);
                }
                Need::End => {
                    worker.waiting.borrow_mut().remove(number);
                    return worker.core.borrow_mut().end(connection);
                }
            }
        }
    }
}

pub fn run(poller: Poller) {
    let worker = Rc::new(Worker {
        core: RefCell::new(Core::new()),
        poller: RefCell::new(poller),
        waiting: RefCell::default(),
    });
    let executor = LocalExecutor::new();
    let mut may_sleep = true;
    loop {
        let ready = worker.poller.borrow_mut().wait(may_sleep);
        for number in ready {
            match number {
                Some(number) => {
                    if let Some(readiness) = worker.waiting.borrow().get(number) {
                        readiness.set();
                    }
                }
                None => {
                    while let Ok((socket, _)) = worker.poller.borrow().listener.accept() {
                        let connection = worker.core.borrow_mut().adopt(socket);
                        executor.spawn(serve(Rc::clone(&worker), connection)).detach();
                    }
                }
            }
        }
        may_sleep = (0..TICKS_MAX).any(|_| !executor.try_tick());
        worker.core.borrow_mut().end_iteration();
    }
}
