//! Calls and returns, protected calls, unwinding.

use std::rc::Rc;

use super::{ALL, Args, Frame, Kind, Native, NativeFn, Ret, Stop, Vm};
use crate::heap::{Code, Upvalue};
use crate::host::{Host, Interrupt};
use crate::limits::{
    CALLS_MAX, INSTRUCTIONS_PER_STEP, NESTED_CALLS_MAX, STACK_VALUES_MAX, STEPS_PER_INTERRUPT,
};
use crate::program::{Proto, RK};
use crate::value::{FunctionId, UpvalueId, Value};

/// Values by which a stack grows beyond what is needed.
const STACK_SLACK: usize = 32;

/// State of a call that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// A frame was pushed: the function has to be executed.
    Entered,
    /// The results are there.
    Done,
    /// The frame at which the machine's loop ends is gone.
    Ended,
}

/// Heights at which a loop of the machine began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor {
    pub(super) parents: usize,
    pub(super) frames: usize,
}

impl Vm {
    pub(super) fn ensure_stack(&mut self, size: usize) -> Result<(), Stop> {
        if size <= self.stack.len() {
            return Ok(());
        }
        self.grow_stack(size)
    }

    #[cold]
    fn grow_stack(&mut self, size: usize) -> Result<(), Stop> {
        if size > STACK_VALUES_MAX {
            return Err(self.operation_error(b"stack overflow"));
        }
        let mut target = size + STACK_SLACK;
        let room = self.stack.capacity();
        if target > room {
            target = target.max(room * 3 / 2);
            let bytes = (target - room) * size_of::<Value>();
            self.check_room(bytes)?;
            if self.stack.try_reserve_exact(target - self.stack.len()).is_err() {
                return Err(self.out_of_memory());
            }
            self.heap.budget.add(bytes);
        }
        self.stack.resize(target, Value::Nil);
        Ok(())
    }

    /// Calls the value at a place of the stack; its arguments follow it.
    pub(super) fn begin_call(
        &mut self,
        host: &mut dyn Host,
        at: usize,
        count: usize,
        wanted: i32,
    ) -> Result<Called, Stop> {
        let Value::Function(id) = self.stack[at] else {
            return self.call_object(host, at, count, wanted);
        };
        match &self.heap.function(id).code {
            Code::Lua(proto, _) => {
                let proto = Rc::clone(proto);
                self.enter(id, proto, at, count, wanted, Kind::Lua)?;
                Ok(Called::Entered)
            }
            Code::Native(Native::Plain(function), _) => {
                let function = *function;
                self.call_plain(host, function, at, count, wanted)?;
                Ok(Called::Done)
            }
            Code::Native(native, _) => {
                let native = *native;
                self.begin_special(host, native, at, count, wanted)
            }
        }
    }

    /// Calls a library function that changes no frames.
    #[inline]
    pub(super) fn call_plain(
        &mut self,
        host: &mut dyn Host,
        function: NativeFn,
        at: usize,
        count: usize,
        wanted: i32,
    ) -> Result<(), Stop> {
        let end = std::mem::replace(&mut self.native_end, at + 1 + count);
        self.in_native = true;
        let ret = function(self, host, Args { at: at + 1, count });
        self.in_native = false;
        self.native_end = end;
        self.finish_native(at, wanted, ret?)
    }

    #[inline]
    fn finish_native(&mut self, at: usize, wanted: i32, ret: Ret) -> Result<(), Stop> {
        let count = match ret {
            Ret::None => 0,
            Ret::One(value) => {
                self.stack[at] = value;
                1
            }
            Ret::Many => {
                let count = self.results.len();
                self.ensure_stack(at + count)?;
                self.stack[at..at + count].copy_from_slice(&self.results);
                self.results.clear();
                count
            }
        };
        self.deliver(at, count, wanted)
    }

    /// Fits the results at a place to their number.
    #[inline]
    pub(super) fn deliver(&mut self, at: usize, count: usize, wanted: i32) -> Result<(), Stop> {
        if wanted == ALL {
            self.top = at + count;
            return Ok(());
        }
        let wanted = wanted as usize;
        if count < wanted {
            self.ensure_stack(at + wanted)?;
            self.stack[at + count..at + wanted].fill(Value::Nil);
        }
        Ok(())
    }

    #[cold]
    fn call_object(
        &mut self,
        host: &mut dyn Host,
        at: usize,
        count: usize,
        wanted: i32,
    ) -> Result<Called, Stop> {
        let value = self.stack[at];
        let handler = self.metamethod(value, self.names.call);
        if !matches!(handler, Value::Function(_)) {
            let base = self.frames.last().map_or(0, |frame| frame.base);
            let is_named =
                !self.in_native && self.frames.last().is_some_and(|frame| frame.proto.is_some());
            let register = if is_named { at.wrapping_sub(base) as u32 } else { RK };
            return Err(self.type_error("call", register, value));
        }
        self.ensure_stack(at + count + 2)?;
        self.stack.copy_within(at..=at + count, at + 1);
        self.stack[at] = handler;
        self.begin_call(host, at, count + 1, wanted)
    }

    /// Pushes the frame of a function of the language and arranges its arguments.
    pub(super) fn enter(
        &mut self,
        id: FunctionId,
        proto: Rc<Proto>,
        at: usize,
        count: usize,
        wanted: i32,
        kind: Kind,
    ) -> Result<(), Stop> {
        if self.frames.len() >= CALLS_MAX {
            return Err(self.operation_error(b"stack overflow"));
        }
        self.heap.spend(proto.code.len() / INSTRUCTIONS_PER_STEP);
        let parameters = usize::from(proto.parameter_count);
        let first = at + 1;
        let base = if proto.is_vararg { first + count } else { first };
        self.ensure_stack(base + usize::from(proto.register_count) + 1)?;
        let mut filled = count.min(parameters);
        if proto.is_vararg {
            for index in 0..filled {
                self.stack[base + index] = self.stack[first + index];
                self.stack[first + index] = Value::Nil;
            }
            if proto.needs_arg {
                let arg = self.arg_table(first + parameters, count.saturating_sub(parameters))?;
                self.stack[base + filled..base + parameters].fill(Value::Nil);
                self.stack[base + parameters] = arg;
                filled = parameters + 1;
            }
        }
        let end = base + usize::from(proto.register_count);
        self.stack[base + filled..end].fill(Value::Nil);
        self.frames.push(Frame {
            kind,
            function: Some(id),
            proto: Some(proto),
            at,
            base,
            pc: 0,
            wanted,
            tail_calls: 0,
        });
        Ok(())
    }

    /// The implicit parameter `arg` of a vararg function.
    fn arg_table(&mut self, first: usize, count: usize) -> Result<Value, Stop> {
        let table = self.table(count, 1)?;
        for index in 0..count {
            let value = self.stack[first + index];
            self.raw_set(table, Value::Number((index + 1) as f64), value)?;
        }
        self.raw_set(table, Value::Str(self.names.n), Value::Number(count as f64))?;
        Ok(Value::Table(table))
    }

    fn begin_special(
        &mut self,
        host: &mut dyn Host,
        native: Native,
        at: usize,
        count: usize,
        wanted: i32,
    ) -> Result<Called, Stop> {
        let args = Args { at: at + 1, count };
        match native {
            Native::Pcall => {
                if count == 0 {
                    return self.protect_nothing(at, wanted);
                }
                self.protect(host, at, count - 1, wanted, None)
            }
            Native::Xpcall => {
                if count < 2 {
                    return Err(self.argument_error(2, "value expected"));
                }
                let handler = self.arg(args, 1);
                self.protect(host, at, 0, wanted, Some(handler))
            }
            Native::Resume => self.resume(host, at, count, wanted),
            Native::Wrapped => self.resume_wrapped(host, at, count, wanted),
            Native::Yield => self.yield_values(at, count, wanted),
            Native::Plain(_) => Ok(Called::Done),
        }
    }

    /// `pcall` without a function: Valkey's own calls the result that it has prepared.
    fn protect_nothing(&mut self, at: usize, wanted: i32) -> Result<Called, Stop> {
        let text = self.string(b"attempt to call a boolean value")?;
        self.ensure_stack(at + 2)?;
        self.stack[at] = Value::Bool(false);
        self.stack[at + 1] = text;
        self.deliver(at, 2, wanted)?;
        Ok(Called::Done)
    }

    /// Calls the value behind `at` so that errors become results.
    fn protect(
        &mut self,
        host: &mut dyn Host,
        at: usize,
        count: usize,
        wanted: i32,
        handler: Option<Value>,
    ) -> Result<Called, Stop> {
        let protected = self.frames.iter().rev().take(NESTED_CALLS_MAX * 2);
        if protected.filter(|frame| frame.proto.is_none()).count() >= NESTED_CALLS_MAX * 2 - 1 {
            return Err(self.operation_error(b"C stack overflow"));
        }
        if self.frames.len() >= CALLS_MAX {
            return Err(self.operation_error(b"stack overflow"));
        }
        self.frames.push(Frame {
            kind: Kind::Protected(handler),
            function: None,
            proto: None,
            at,
            base: at + 2 + count,
            pc: 0,
            wanted,
            tail_calls: 0,
        });
        match self.begin_call(host, at + 1, count, ALL)? {
            Called::Done => self.settle(),
            other => Ok(other),
        }
    }

    /// Hands the results of a call to the protected call that made it, and so on.
    pub(super) fn settle(&mut self) -> Result<Called, Stop> {
        while let Some(Frame { kind: Kind::Protected(_), at, wanted, .. }) = self.frames.last() {
            let (at, wanted) = (*at, *wanted);
            self.frames.pop();
            self.stack[at] = Value::Bool(true);
            self.deliver(at, self.top - at, wanted)?;
        }
        if self.frames.is_empty() {
            return self.end_coroutine();
        }
        Ok(Called::Done)
    }

    /// Returns values of the active function to its caller.
    pub(super) fn leave(&mut self, from: usize, count: usize) -> Result<Called, Stop> {
        let Some(frame) = self.frames.pop() else { return Ok(Called::Ended) };
        self.close_upvalues(frame.base);
        if from != frame.at {
            self.stack.copy_within(from..from + count, frame.at);
        }
        self.deliver(frame.at, count, frame.wanted)?;
        if matches!(frame.kind, Kind::Boundary { .. }) {
            return Ok(Called::Ended);
        }
        match self.frames.last() {
            Some(Frame { kind: Kind::Lua | Kind::Boundary { .. }, .. }) => Ok(Called::Done),
            _ => self.settle(),
        }
    }

    pub(super) fn close_upvalues(&mut self, from: usize) {
        while let Some((at, id)) = self.open.last().copied() {
            if at < from {
                break;
            }
            self.open.pop();
            self.heap.set_upvalue(id, Upvalue::Closed(self.stack[at]));
        }
    }

    /// The shared variable at a place of the stack.
    pub(super) fn find_upvalue(&mut self, at: usize) -> Result<UpvalueId, Stop> {
        let index = self.open.partition_point(|(other, _)| *other < at);
        if let Some((other, id)) = self.open.get(index)
            && *other == at
        {
            return Ok(*id);
        }
        let upvalue = Upvalue::Open { owner: self.current, at };
        let id = self.heap.new_upvalue(upvalue).map_err(|_| self.out_of_memory())?;
        self.open.insert(index, (at, id));
        Ok(id)
    }

    /// Does what may call functions while values are kept that nothing else may reach: a
    /// collection within it does not free them.
    pub(crate) fn holding<T>(
        &mut self,
        values: &[Value],
        act: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let pinned = self.pinned.len();
        self.pinned.extend_from_slice(values);
        let outcome = act(self);
        self.pinned.truncate(pinned);
        outcome
    }

    /// Calls a function from a library function or a metamethod and gives all its results.
    pub(crate) fn call(
        &mut self,
        host: &mut dyn Host,
        function: Value,
        arguments: &[Value],
    ) -> Result<Vec<Value>, Stop> {
        let (at, end) = self.call_nested(host, function, arguments)?;
        Ok(self.stack[at..end].to_vec())
    }

    /// As `call`, with the first result only.
    pub(crate) fn call_one(
        &mut self,
        host: &mut dyn Host,
        function: Value,
        arguments: &[Value],
    ) -> Result<Value, Stop> {
        let (at, end) = self.call_nested(host, function, arguments)?;
        Ok(if at < end { self.stack[at] } else { Value::Nil })
    }

    fn call_nested(
        &mut self,
        host: &mut dyn Host,
        function: Value,
        arguments: &[Value],
    ) -> Result<(usize, usize), Stop> {
        if self.nested >= NESTED_CALLS_MAX {
            return Err(self.operation_error(b"C stack overflow"));
        }
        let at = self.live_end();
        self.ensure_stack(at + arguments.len() + 1)?;
        self.stack[at] = function;
        self.stack[at + 1..=at + arguments.len()].copy_from_slice(arguments);
        let saved = (self.in_native, self.has_call_site, self.native_end, self.top);
        let below_native = std::mem::replace(&mut self.below_native, self.in_native);
        self.nested += 1;
        self.in_native = false;
        self.has_call_site = false;
        self.native_end = at;
        let outcome = self.call_above(host, at, arguments.len());
        self.nested -= 1;
        self.hurry_if_overdue();
        let end = self.top;
        (self.in_native, self.has_call_site, self.native_end, self.top) = saved;
        self.below_native = below_native;
        outcome?;
        Ok((at, end))
    }

    /// Calls what is at a place of the stack and executes it to its end.
    pub(super) fn call_at(
        &mut self,
        host: &mut dyn Host,
        at: usize,
        count: usize,
    ) -> Result<(), Stop> {
        let floor = Floor { parents: self.parents.len(), frames: self.frames.len() };
        if let Value::Function(id) = self.stack[at]
            && let Code::Lua(proto, _) = &self.heap.function(id).code
        {
            let proto = Rc::clone(proto);
            let kind = Kind::Boundary { below_native: self.below_native };
            self.enter(id, proto, at, count, ALL, kind)?;
            return self.execute(host, floor);
        }
        match self.begin_call(host, at, count, ALL) {
            Ok(Called::Entered) => self.execute(host, floor),
            Ok(_) => Ok(()),
            Err(stop) => match self.unwind(host, floor, stop)? {
                Called::Ended => Ok(()),
                _ if self.is_at(floor) => Ok(()),
                _ => self.execute(host, floor),
            },
        }
    }

    /// As `call_at`, above the frames of a function that goes on behind the call. A function of the
    /// language has a frame in which the call ends. Others, `pcall` and wrapped coroutines among
    /// them, get one: without it their results, errors and ends would go to frames of the caller.
    fn call_above(&mut self, host: &mut dyn Host, at: usize, count: usize) -> Result<(), Stop> {
        if let Value::Function(id) = self.stack[at]
            && let Code::Lua(..) = &self.heap.function(id).code
        {
            return self.call_at(host, at, count);
        }
        let depth = self.frames.len();
        self.frames.push(Frame {
            kind: Kind::Native { below_native: self.below_native },
            function: None,
            proto: None,
            at,
            base: at + 1 + count,
            pc: 0,
            wanted: ALL,
            tail_calls: 0,
        });
        let outcome = self.call_at(host, at, count);
        self.frames.truncate(depth);
        outcome
    }

    /// Looks for the protected call that catches an error.
    pub(super) fn unwind(
        &mut self,
        host: &mut dyn Host,
        floor: Floor,
        stop: Stop,
    ) -> Result<Called, Stop> {
        let mut stop = stop;
        loop {
            let Stop::Error(value) = stop else { return Err(stop) };
            let lowest = if self.parents.len() > floor.parents { 0 } else { floor.frames };
            let is_catcher = |frame: &Frame| matches!(frame.kind, Kind::Protected(_));
            let found = self.frames[lowest..].iter().rposition(is_catcher);
            let Some(index) = found.map(|index| index + lowest) else {
                if self.parents.len() > floor.parents {
                    match self.fail_coroutine(value)? {
                        Ok(called) => return Ok(called),
                        Err(again) => stop = again,
                    }
                    continue;
                }
                if floor.frames == 0 {
                    self.error_place = self.current_line();
                }
                if let Some(frame) = self.frames.get(floor.frames) {
                    let at = frame.at;
                    self.close_upvalues(at);
                }
                self.frames.truncate(floor.frames);
                return Err(stop);
            };
            let mut value = value;
            if let Kind::Protected(Some(handler)) = self.frames[index].kind {
                self.top = self.live_end();
                value = match self.call_one(host, handler, &[value]) {
                    Ok(value) => value,
                    Err(Stop::Error(_)) => self.string(b"error in error handling")?,
                    Err(other) => return Err(other),
                };
            }
            let mut member = None;
            if let (Kind::Protected(None), Value::Table(_)) = (self.frames[index].kind, value) {
                // Valkey's `pcall` gives the text of an error that is a table, or else what its
                // member is behind the table.
                self.top = self.live_end();
                let name = Value::Str(self.names.err);
                match self.holding(&[value], |vm| vm.index(host, value, name, RK)) {
                    Ok(text @ (Value::Str(_) | Value::Number(_))) => value = text,
                    Ok(other) => member = Some(other),
                    Err(again) => {
                        self.close_upvalues(self.frames[index].at);
                        self.frames.truncate(index);
                        stop = again;
                        continue;
                    }
                }
            }
            let (at, wanted) = (self.frames[index].at, self.frames[index].wanted);
            self.close_upvalues(at);
            self.frames.truncate(index);
            self.in_native = false;
            self.ensure_stack(at + 3)?;
            self.stack[at] = Value::Bool(false);
            self.stack[at + 1] = value;
            self.stack[at + 2] = member.unwrap_or(Value::Nil);
            self.deliver(at, if member.is_some() { 3 } else { 2 }, wanted)?;
            return self.settle_unless_floor(floor);
        }
    }

    fn settle_unless_floor(&mut self, floor: Floor) -> Result<Called, Stop> {
        if self.parents.len() == floor.parents && self.frames.len() <= floor.frames {
            return Ok(Called::Ended);
        }
        self.settle()
    }

    /// Asks the host, now and then, if the run may go on.
    #[cold]
    pub(super) fn interrupt(&mut self, host: &mut dyn Host) -> Result<(), Stop> {
        self.ask(host, self.nested == 0)
    }

    fn ask(&mut self, host: &mut dyn Host, may_suspend: bool) -> Result<(), Stop> {
        let answer = host.interrupt(may_suspend);
        self.take_answer(answer, may_suspend)
    }

    /// Does what the host has answered.
    pub(crate) fn take_answer(&mut self, answer: Interrupt, may_suspend: bool) -> Result<(), Stop> {
        self.heap.budget.steps_left.set(STEPS_PER_INTERRUPT);
        self.native_steps = 0;
        self.is_overdue = false;
        match answer {
            Interrupt::Continue => Ok(()),
            Interrupt::Suspend if may_suspend => Err(Stop::Suspended),
            Interrupt::Suspend => {
                self.is_overdue = true;
                self.hurry_if_overdue();
                Ok(())
            }
            Interrupt::Kill(text) => Err(self.kill(text)),
        }
    }

    /// Lets the next step ask the host, if that wants to suspend the run and it can be again.
    fn hurry_if_overdue(&mut self) {
        if self.is_overdue && self.nested == 0 {
            self.heap.budget.steps_left.set(1);
        }
    }

    /// The error that ends the run, with its text.
    pub(crate) fn kill(&mut self, text: &str) -> Stop {
        self.error_place = self.current_line();
        match self.plain_error(text.as_bytes()) {
            Stop::Error(value) => Stop::Killed(value),
            other => other,
        }
    }

    /// Counts steps of a library function, and asks the host when they are many: a suspension has
    /// to wait. What a function does in less steps counts with that of the next one.
    #[inline]
    pub(crate) fn work(&mut self, host: &mut dyn Host, steps: usize) -> Result<(), Stop> {
        self.native_steps += steps;
        if self.native_steps < STEPS_PER_INTERRUPT as usize {
            return Ok(());
        }
        self.ask(host, false)
    }

    /// Steps of library functions that count with those of the next one.
    pub(crate) fn native_steps(&mut self) -> &mut usize {
        &mut self.native_steps
    }

    /// Begins a run of a function with arguments.
    pub(crate) fn start(
        &mut self,
        host: &mut dyn Host,
        function: Value,
        arguments: &[Value],
    ) -> Result<Value, Stop> {
        self.ensure_stack(arguments.len() + 2)?;
        self.stack[0] = function;
        self.stack[1..=arguments.len()].copy_from_slice(arguments);
        self.native_end = 0;
        self.call_at(host, 0, arguments.len())?;
        Ok(self.first_result())
    }

    /// Goes on with a suspended run.
    pub(crate) fn go_on(&mut self, host: &mut dyn Host) -> Result<Value, Stop> {
        self.execute(host, Floor { parents: 0, frames: 0 })?;
        Ok(self.first_result())
    }

    fn first_result(&self) -> Value {
        if self.top > 0 { self.stack[0] } else { Value::Nil }
    }
}

impl Vm {
    /// A value that a library function keeps.
    pub(crate) fn native_state(&self, id: FunctionId, index: usize) -> Value {
        match &self.heap.function(id).code {
            Code::Native(_, state) => state.get(index).copied().unwrap_or(Value::Nil),
            Code::Lua(..) => Value::Nil,
        }
    }

    pub(crate) fn set_native_state(&mut self, id: FunctionId, index: usize, value: Value) {
        if let Code::Native(_, state) = &mut self.heap.function_mut(id).code
            && let Some(place) = state.get_mut(index)
        {
            *place = value;
        }
    }

    /// The library function that runs; its arguments follow it.
    pub(crate) fn running_function(&self, args: Args) -> Value {
        self.stack[args.at - 1]
    }
}
