//! The first arm: a loop over events, the state of a connection in a slab.

use std::collections::VecDeque;

use slab::Slab;

use crate::core::{Connection, Core, Need};
use crate::poller::Poller;

struct State {
    connection: Connection,
    need: Need,
}

pub fn run(mut poller: Poller) {
    let mut core = Core::new();
    let mut states: Slab<State> = Slab::new();
    let mut queue = VecDeque::new();
    loop {
        for ready in poller.wait(queue.is_empty()) {
            match ready {
                Some(number) => step(&mut core, &poller, &mut states, &mut queue, number),
                None => {
                    while let Ok((socket, _)) = poller.listener.accept() {
                        let state = State { connection: core.adopt(socket), need: Need::Input };
                        let number = states.insert(state);
                        poller.add(&states[number].connection.socket, number);
                    }
                }
            }
        }
        for _ in 0..queue.len() {
            if let Some(number) = queue.pop_front() {
                step(&mut core, &poller, &mut states, &mut queue, number);
            }
        }
        core.end_iteration();
    }
}

fn step(
    core: &mut Core,
    poller: &Poller,
    states: &mut Slab<State>,
    queue: &mut VecDeque<usize>,
    number: usize,
) {
    let Some(state) = states.get_mut(number) else { return };
    let before = state.need;
    state.need = match before {
        Need::Input => core.read(&mut state.connection),
        Need::Room => core.send(&mut state.connection),
        // Its event is handled when its turn has come.
        Need::Turn if queue.contains(&number) => return,
        Need::Turn => core.turn(&mut state.connection),
        Need::End => return,
    };
    if (before == Need::Room) != (state.need == Need::Room) {
        poller.wants_room(&state.connection.socket, number, state.need == Need::Room);
    }
    match state.need {
        Need::Turn => queue.push_back(number),
        Need::End => core.end(states.remove(number).connection),
        Need::Input | Need::Room => {}
    }
}
