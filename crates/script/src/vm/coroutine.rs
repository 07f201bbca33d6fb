//! Coroutines: the machine exchanges its stack and frames for those of the coroutine.

use std::borrow::Cow;

use super::call::Called;
use super::{ALL, Frame, Kind, Stop, ThreadState, Vm};
use crate::host::Host;
use crate::limits::RESUMED_MAX;
use crate::value::{StackOwner, ThreadId, Value};

/// State of a coroutine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    #[default]
    Suspended,
    Running,
    Normal,
    Dead,
}

impl Vm {
    /// A coroutine whose first resumption calls a function.
    pub(crate) fn new_coroutine(&mut self, function: Value) -> Result<ThreadId, Stop> {
        let state = ThreadState { stack: vec![function], ..ThreadState::default() };
        self.heap.new_thread(state).map_err(|_| self.out_of_memory())
    }

    pub(crate) fn running(&self) -> Option<ThreadId> {
        self.current.coroutine()
    }

    pub(crate) fn status(&self, thread: ThreadId) -> Status {
        if self.current == StackOwner::Coroutine(thread) {
            return Status::Running;
        }
        self.heap.thread(thread).status
    }

    pub(super) fn resume(
        &mut self,
        host: &mut dyn Host,
        at: usize,
        count: usize,
        wanted: i32,
    ) -> Result<Called, Stop> {
        let Some(Value::Thread(thread)) = self.stack.get(at + 1).copied().filter(|_| count > 0)
        else {
            return Err(self.argument_error(1, "coroutine expected"));
        };
        self.switch_to(host, thread, at, (at + 2, count - 1), wanted, false)
    }

    pub(super) fn resume_wrapped(
        &mut self,
        host: &mut dyn Host,
        at: usize,
        count: usize,
        wanted: i32,
    ) -> Result<Called, Stop> {
        let thread = match self.stack[at] {
            Value::Function(id) => self.native_state(id, 0),
            _ => Value::Nil,
        };
        let Value::Thread(thread) = thread else { return Ok(Called::Done) };
        self.switch_to(host, thread, at, (at + 1, count), wanted, true)
    }

    fn switch_to(
        &mut self,
        host: &mut dyn Host,
        thread: ThreadId,
        at: usize,
        arguments: (usize, usize),
        wanted: i32,
        is_wrapped: bool,
    ) -> Result<Called, Stop> {
        let refusal = match self.status(thread) {
            Status::Suspended if self.parents.len() >= RESUMED_MAX => "C stack overflow",
            Status::Suspended => "",
            Status::Running => "cannot resume running coroutine",
            Status::Normal => "cannot resume normal coroutine",
            Status::Dead => "cannot resume dead coroutine",
        };
        if !refusal.is_empty() {
            if is_wrapped {
                return Err(self.fail(refusal));
            }
            let text = self.string(refusal.as_bytes())?;
            self.ensure_stack(at + 2)?;
            self.stack[at] = Value::Bool(false);
            self.stack[at + 1] = text;
            self.deliver(at, 2, wanted)?;
            return Ok(Called::Done);
        }
        let (from, count) = arguments;
        let values = self.stack[from..from + count].to_vec();
        self.frames.push(Frame {
            kind: Kind::Resumer { is_wrapped },
            function: None,
            proto: None,
            at,
            base: from + count,
            pc: 0,
            wanted,
            tail_calls: 0,
        });
        // Active, here or in a run that is suspended, until it yields or ends.
        let active = ThreadState::without_stack(Status::Normal);
        let state = std::mem::replace(self.heap.thread_mut(thread), active);
        let is_first = state.frames.is_empty();
        let own = ThreadState {
            stack: std::mem::replace(&mut self.stack, state.stack),
            frames: std::mem::replace(&mut self.frames, state.frames),
            open: std::mem::replace(&mut self.open, state.open),
            status: Status::Normal,
        };
        let owner = StackOwner::Coroutine(thread);
        self.parents.push((std::mem::replace(&mut self.current, owner), own));
        self.top = 0;
        self.native_end = 0;
        if is_first {
            self.ensure_stack(count + 2)?;
            self.stack[1..=count].copy_from_slice(&values);
            let called = self.begin_call(host, 0, count, ALL)?;
            if called == Called::Done && self.current == owner && self.frames.is_empty() {
                self.end_coroutine()?;
            }
            return Ok(Called::Entered);
        }
        // The frame of the call of `yield` is the active one: its results are the values.
        let Some((at, wanted)) = self.yielded_at() else { return Ok(Called::Entered) };
        self.ensure_stack(at + count)?;
        self.stack[at..at + count].copy_from_slice(&values);
        self.deliver(at, count, wanted)?;
        Ok(Called::Entered)
    }

    /// Place and number of the results of the call that yielded.
    fn yielded_at(&mut self) -> Option<(usize, i32)> {
        let frame = self.frames.pop()?;
        Some((frame.at, frame.wanted))
    }

    pub(super) fn yield_values(
        &mut self,
        at: usize,
        count: usize,
        wanted: i32,
    ) -> Result<Called, Stop> {
        let is_lua = |frame: &Frame| frame.kind == Kind::Lua;
        let may_yield =
            !self.parents.is_empty() && self.has_call_site && self.frames.iter().all(is_lua);
        if !may_yield {
            let text = b"attempt to yield across metamethod/C-call boundary";
            return Err(self.plain_error(text));
        }
        let values = self.stack[at + 1..at + 1 + count].to_vec();
        self.frames.push(Frame {
            kind: Kind::Resumer { is_wrapped: false },
            function: None,
            proto: None,
            at,
            base: at + 1,
            pc: 0,
            wanted,
            tail_calls: 0,
        });
        self.switch_back(Status::Suspended);
        self.hand_over(true, &values)?;
        Ok(Called::Entered)
    }

    /// The coroutine's function has returned: its results are at the begin of its stack.
    pub(super) fn end_coroutine(&mut self) -> Result<Called, Stop> {
        if self.parents.is_empty() {
            return Ok(Called::Ended);
        }
        let values = self.stack[..self.top].to_vec();
        self.switch_back(Status::Dead);
        self.hand_over(true, &values)
    }

    /// The coroutine has failed; the inner error goes on in the one that resumed it.
    pub(super) fn fail_coroutine(&mut self, error: Value) -> Result<Result<Called, Stop>, Stop> {
        self.close_upvalues(0);
        self.frames.clear();
        self.switch_back(Status::Dead);
        let is_wrapped =
            self.frames.last().map(|frame| frame.kind) == Some(Kind::Resumer { is_wrapped: true });
        if !is_wrapped {
            return self.hand_over(false, &[error]).map(Ok);
        }
        self.frames.pop();
        if let Some(text) = self.text_of(error).map(Cow::into_owned) {
            // A library function that has resumed it is no place in a source.
            let is_below_native = self
                .frames
                .last()
                .is_some_and(|frame| matches!(frame.kind, Kind::Native { below_native: true }));
            return Ok(Err(if is_below_native {
                self.plain_error(&text)
            } else {
                self.fail(text)
            }));
        }
        Ok(Err(Stop::Error(error)))
    }

    fn switch_back(&mut self, status: Status) {
        let Some((parent, state)) = self.parents.pop() else { return };
        let left = ThreadState {
            stack: std::mem::replace(&mut self.stack, state.stack),
            frames: std::mem::replace(&mut self.frames, state.frames),
            open: std::mem::replace(&mut self.open, state.open),
            status,
        };
        if let StackOwner::Coroutine(thread) = std::mem::replace(&mut self.current, parent) {
            *self.heap.thread_mut(thread) =
                if status == Status::Dead { ThreadState::without_stack(status) } else { left };
        }
    }

    /// Gives values to the call that resumed the coroutine.
    fn hand_over(&mut self, is_success: bool, values: &[Value]) -> Result<Called, Stop> {
        let Some(frame) = self.frames.pop() else { return Ok(Called::Ended) };
        let Kind::Resumer { is_wrapped } = frame.kind else { return Ok(Called::Done) };
        let first = usize::from(!is_wrapped);
        self.top = frame.at;
        self.native_end = 0;
        self.ensure_stack(frame.at + values.len() + 1)?;
        if !is_wrapped {
            self.stack[frame.at] = Value::Bool(is_success);
        }
        let from = frame.at + first;
        self.stack[from..from + values.len()].copy_from_slice(values);
        self.deliver(frame.at, values.len() + first, frame.wanted)?;
        match self.frames.last() {
            Some(Frame { kind: Kind::Lua | Kind::Boundary { .. }, .. }) => Ok(Called::Done),
            _ => self.settle(),
        }
    }
}
