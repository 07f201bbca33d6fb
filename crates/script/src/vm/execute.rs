//! The loop over instructions.

use std::rc::Rc;

use super::call::{Called, Floor};
use super::{ALL, Kind, Native, NativeFn, Stop, ThreadState, Vm};
use crate::heap::{Code, Upvalue};
use crate::host::Host;
use crate::limits::{INSTRUCTIONS_PER_STEP, ITEMS_PER_FLUSH, VALUES_PER_STEP};
use crate::number;
use crate::program::{Ins, Op, Proto, RK};
use crate::value::{FunctionId, StackOwner, TableId, UpvalueId, Value};

/// The active function, as the loop holds it.
struct Active {
    proto: Rc<Proto>,
    function: FunctionId,
    base: usize,
    pc: usize,
    /// Steps as which one of its steps counts.
    steps: u32,
}

/// Kind of what is called.
enum Callee {
    Lua(FunctionId, Rc<Proto>),
    /// A library function that changes no frames.
    Plain(NativeFn),
    Other,
}

/// Course of the loop behind an instruction.
enum Flow {
    Next,
    /// Another frame is the active one.
    Reload,
    End,
}

/// Place to which a jump goes from behind its instruction.
#[inline]
fn target(pc: usize, distance: i32) -> usize {
    (pc as i64 + i64::from(distance)) as usize
}

/// Value of an operand: a register or a constant.
macro_rules! operand {
    ($vm:ident, $base:ident, $constants:ident, $operand:expr) => {
        if $operand >= RK {
            $constants[($operand - RK) as usize]
        } else {
            $vm.stack[$base + $operand as usize]
        }
    };
}

/// An operation on two numbers; other operands go the long way.
macro_rules! arithmetic {
    ($vm:ident, $host:ident, $at:ident, $pc:ident, $ins:ident,
     |$a:ident, $b:ident| $result:expr) => {{
        let (base, constants) = $at;
        let left = operand!($vm, base, constants, $ins.b);
        let right = operand!($vm, base, constants, $ins.c);
        let value = if let (Value::Number($a), Value::Number($b)) = (left, right) {
            Value::Number($result)
        } else {
            $vm.save_pc($pc);
            $vm.arithmetic($host, $ins.op, (left, $ins.b), (right, $ins.c))?
        };
        $vm.stack[base + usize::from($ins.a)] = value;
    }};
}

/// A comparison, which passes over the next instruction or not.
macro_rules! compared {
    ($vm:ident, $host:ident, $at:ident, $pc:ident, $ins:ident,
     |$a:ident, $b:ident| $result:expr, $slow:ident) => {{
        let (base, constants) = $at;
        let left = operand!($vm, base, constants, $ins.b);
        let right = operand!($vm, base, constants, $ins.c);
        let is_it = if let (Value::Number($a), Value::Number($b)) = (left, right) {
            $result
        } else {
            $vm.save_pc($pc);
            $vm.$slow($host, left, right)?
        };
        $pc += usize::from(is_it != ($ins.a != 0));
    }};
}

impl Vm {
    /// Executes until the frames are back at the floor.
    pub(super) fn execute(&mut self, host: &mut dyn Host, floor: Floor) -> Result<(), Stop> {
        self.has_call_site = true;
        self.below_native = false;
        loop {
            let outcome = match self.load_active() {
                Some(active) => self.run(host, floor, active),
                None => return Ok(()),
            };
            match outcome {
                Ok(()) => return Ok(()),
                Err(stop) => {
                    let called = self.unwind(host, floor, stop)?;
                    if called == Called::Ended || self.is_at(floor) {
                        return Ok(());
                    }
                    self.has_call_site = true;
                    self.below_native = false;
                }
            }
        }
    }

    /// True for the library's `next`, which a loop over a table then need not call.
    fn is_next(&self, value: Value) -> bool {
        value == Value::Function(self.next_function)
    }

    pub(super) fn is_at(&self, floor: Floor) -> bool {
        self.parents.len() == floor.parents && self.frames.len() <= floor.frames
    }

    fn load_active(&self) -> Option<Active> {
        let frame = self.frames.last()?;
        let proto = Rc::clone(frame.proto.as_ref()?);
        let (function, base, pc) = (frame.function?, frame.base, frame.pc);
        let steps = 1 + (proto.code.len() / INSTRUCTIONS_PER_STEP) as u32;
        Some(Active { proto, function, base, pc, steps })
    }

    fn save_pc(&mut self, pc: usize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.pc = pc;
        }
    }

    /// Counts a step that may repeat without bound, of a long function as several: all of it may
    /// lie between two such steps. The instruction runs again after a suspension.
    #[inline]
    fn step(&mut self, host: &mut dyn Host, active: &Active, pc: usize) -> Result<(), Stop> {
        let steps_left = &self.heap.budget.steps_left;
        if steps_left.get() > active.steps {
            steps_left.set(steps_left.get() - active.steps);
            return Ok(());
        }
        self.save_pc(pc);
        let outcome = self.interrupt(host);
        if let Err(Stop::Suspended) = outcome {
            self.save_pc(pc - 1);
        }
        outcome
    }

    fn run(&mut self, host: &mut dyn Host, floor: Floor, mut active: Active) -> Result<(), Stop> {
        loop {
            let flow = self.run_frame(host, floor, &active)?;
            let next = match flow {
                Flow::End => None,
                Flow::Next | Flow::Reload => self.load_active(),
            };
            match next {
                Some(next) => active = next,
                None => return Ok(()),
            }
        }
    }

    /// Executes one activation of a function until another one is the active one. What each
    /// instruction needs is in local variables: the machine is reached by a reference, so its
    /// fields would be read anew each time.
    fn run_frame(
        &mut self,
        host: &mut dyn Host,
        floor: Floor,
        active: &Active,
    ) -> Result<Flow, Stop> {
        let code = active.proto.code.as_slice();
        let at = (active.base, active.proto.constants.as_slice());
        let (base, constants) = at;
        let mut pc = active.pc;
        loop {
            let ins = code[pc];
            pc += 1;
            let a = base + usize::from(ins.a);
            match ins.op {
                Op::Move => self.stack[a] = self.stack[base + ins.b as usize],
                Op::LoadK => self.stack[a] = constants[ins.b as usize],
                Op::LoadBool => {
                    self.stack[a] = Value::Bool(ins.b != 0);
                    pc += usize::from(ins.c != 0);
                }
                Op::LoadNil => self.stack[a..=base + ins.b as usize].fill(Value::Nil),
                Op::Add => arithmetic!(self, host, at, pc, ins, |x, y| x + y),
                Op::Sub => arithmetic!(self, host, at, pc, ins, |x, y| x - y),
                Op::Mul => arithmetic!(self, host, at, pc, ins, |x, y| x * y),
                Op::Div => arithmetic!(self, host, at, pc, ins, |x, y| x / y),
                Op::Mod => arithmetic!(self, host, at, pc, ins, |x, y| x - (x / y).floor() * y),
                Op::Pow => arithmetic!(self, host, at, pc, ins, |x, y| x.powf(y)),
                Op::Not => {
                    let value = self.stack[base + ins.b as usize];
                    self.stack[a] = Value::Bool(!value.is_truthy());
                }
                Op::Jump => {
                    let distance = ins.jump();
                    if distance < 0 {
                        self.step(host, active, pc)?;
                    }
                    pc = target(pc, distance);
                }
                Op::Test => pc += usize::from(self.stack[a].is_truthy() != (ins.c != 0)),
                Op::TestSet => {
                    let value = self.stack[base + ins.b as usize];
                    if value.is_truthy() == (ins.c != 0) {
                        self.stack[a] = value;
                    } else {
                        pc += 1;
                    }
                }
                Op::GetUpvalue => self.stack[a] = self.read_upvalue(active.function, ins.b),
                Op::SetUpvalue => {
                    let value = self.stack[a];
                    self.write_upvalue(active.function, ins.b, value);
                }
                Op::GetGlobal => {
                    let key = constants[ins.b as usize];
                    let globals = self.globals_of(active.function);
                    self.stack[a] = self.get_table(host, pc, Value::Table(globals), key, RK)?;
                }
                Op::GetTable => {
                    let value = self.stack[base + ins.b as usize];
                    let key = operand!(self, base, constants, ins.c);
                    self.stack[a] = self.get_table(host, pc, value, key, ins.b)?;
                }
                Op::SelfIndex => {
                    let value = self.stack[base + ins.b as usize];
                    let key = operand!(self, base, constants, ins.c);
                    self.stack[a + 1] = value;
                    self.stack[a] = self.get_table(host, pc, value, key, ins.b)?;
                }
                Op::SetTable => {
                    let value = self.stack[a];
                    let key = operand!(self, base, constants, ins.b);
                    let item = operand!(self, base, constants, ins.c);
                    self.set_table(host, pc, value, key, item, ins.a)?;
                }
                Op::Eq => compared!(self, host, at, pc, ins, |x, y| x == y, equal),
                Op::Lt => compared!(self, host, at, pc, ins, |x, y| x < y, less),
                Op::Le => compared!(self, host, at, pc, ins, |x, y| x <= y, less_equal),
                Op::ForLoop => {
                    if let Some(next) = self.next_of_for(a) {
                        self.step(host, active, pc)?;
                        self.stack[a] = Value::Number(next);
                        self.stack[a + 3] = Value::Number(next);
                        pc = target(pc, ins.jump());
                    }
                }
                Op::ForPrep => {
                    self.save_pc(pc);
                    self.prepare_for(a)?;
                    pc = target(pc, ins.jump());
                }
                Op::Call => {
                    self.step(host, active, pc)?;
                    self.save_pc(pc);
                    let count = if ins.b == 0 { self.top - a - 1 } else { ins.b as usize - 1 };
                    let wanted = ins.c as i32 - 1;
                    match self.callee(a) {
                        Callee::Lua(id, proto) => {
                            self.enter(id, proto, a, count, wanted, Kind::Lua)?;
                            return Ok(Flow::Reload);
                        }
                        Callee::Plain(function) => {
                            self.call_plain(host, function, a, count, wanted)?;
                        }
                        Callee::Other => {
                            let called = self.begin_call(host, a, count, wanted)?;
                            if called != Called::Done || !self.is_same_frame(active) {
                                return Ok(self.follow(called, floor));
                            }
                        }
                    }
                    self.collect_if_due();
                }
                Op::Return => {
                    let count = if ins.b == 0 { self.top - a } else { ins.b as usize - 1 };
                    let called = self.leave(a, count)?;
                    return Ok(self.follow(called, floor));
                }
                Op::TForLoop => {
                    self.step(host, active, pc)?;
                    self.save_pc(pc);
                    let called = self.generic_for(host, a, ins)?;
                    if !self.stays(called, active) {
                        return Ok(self.follow(called, floor));
                    }
                }
                Op::TForTest => match self.stack[a + 3] {
                    Value::Nil => pc += 1,
                    control => self.stack[a + 2] = control,
                },
                _ => {
                    self.save_pc(pc);
                    match self.run_rare(host, floor, active, ins)? {
                        Flow::Next => {}
                        flow => return Ok(flow),
                    }
                }
            }
        }
    }

    /// True if a call was of a library function, behind which the frame goes on. What the function
    /// made may be garbage.
    #[inline]
    fn stays(&mut self, called: Called, active: &Active) -> bool {
        let stays = called == Called::Done && self.is_same_frame(active);
        if stays {
            self.collect_if_due();
        }
        stays
    }

    #[inline]
    fn is_same_frame(&self, active: &Active) -> bool {
        self.frames.last().is_some_and(|frame| {
            frame.base == active.base && frame.function == Some(active.function)
        })
    }

    /// Next index of a numeric loop; none behind its limit.
    #[inline]
    fn next_of_for(&self, a: usize) -> Option<f64> {
        let (Value::Number(index), Value::Number(limit), Value::Number(step)) =
            (self.stack[a], self.stack[a + 1], self.stack[a + 2])
        else {
            return None;
        };
        let next = index + step;
        let goes_on = if step > 0.0 { next <= limit } else { limit <= next };
        goes_on.then_some(next)
    }

    /// Course behind a call or return.
    fn follow(&mut self, called: Called, floor: Floor) -> Flow {
        if called == Called::Ended || self.is_at(floor) { Flow::End } else { Flow::Reload }
    }

    #[inline]
    pub(crate) fn is_collection_due(&self) -> bool {
        self.heap.budget.used_bytes > self.heap.threshold_bytes
    }

    #[inline]
    pub(super) fn collect_if_due(&mut self) {
        if self.is_collection_due() {
            self.collect_in_run();
        }
    }

    /// A collection looks at all that there is, so it counts as steps of the run.
    #[cold]
    fn collect_in_run(&mut self) {
        self.heap.spend(self.heap.place_count() / VALUES_PER_STEP);
        self.collect();
    }

    /// Instructions that are not worth a place in the loop.
    fn run_rare(
        &mut self,
        host: &mut dyn Host,
        floor: Floor,
        active: &Active,
        ins: Ins,
    ) -> Result<Flow, Stop> {
        let a = active.base + usize::from(ins.a);
        match ins.op {
            Op::SetGlobal => {
                let key = active.proto.constants[ins.b as usize];
                let item = self.stack[a];
                let globals = self.globals_of(active.function);
                self.set_index(host, Value::Table(globals), key, item, RK)?;
            }
            Op::NewTable => {
                let table = self.table(ins.b as usize, ins.c as usize)?;
                self.stack[a] = Value::Table(table);
                self.collect_if_due();
            }
            Op::Unm => {
                let value = self.stack[active.base + ins.b as usize];
                self.stack[a] = match value {
                    Value::Number(number) => Value::Number(-number),
                    _ => self.arithmetic(host, Op::Unm, (value, ins.b), (value, ins.b))?,
                };
            }
            Op::Len => {
                let value = self.stack[active.base + ins.b as usize];
                let length = match value {
                    Value::Table(table) => self.heap.table(table).len(),
                    Value::Str(text) => self.heap.bytes(text).len(),
                    Value::Proxy(_) => {
                        self.stack[a] = self.length_of_proxy(host, value, ins.b)?;
                        return Ok(Flow::Next);
                    }
                    _ => return Err(self.type_error("get length of", ins.b, value)),
                };
                self.stack[a] = Value::Number(length as f64);
            }
            Op::Concat => {
                let (first, last) = (ins.b as usize, ins.c as usize);
                self.stack[a] = self.concat(host, active.base, first, last)?;
                self.collect_if_due();
            }
            Op::TailCall => return self.tail_call(host, floor, active, ins),
            Op::SetList => self.set_list(a, ins)?,
            Op::Close => self.close_upvalues(a),
            Op::Closure => {
                let proto = Rc::clone(&active.proto.protos[ins.b as usize]);
                self.stack[a] = self.closure(active, proto)?;
                self.collect_if_due();
            }
            _ => self.spread_varargs(active, ins)?,
        }
        Ok(Flow::Next)
    }

    #[cold]
    fn length_of_proxy(
        &mut self,
        host: &mut dyn Host,
        value: Value,
        register: u32,
    ) -> Result<Value, Stop> {
        let handler = self.metamethod(value, self.names.len);
        if handler.is_nil() {
            return Err(self.type_error("get length of", register, value));
        }
        self.call_one(host, handler, &[value, Value::Nil])
    }

    /// Stores the values behind a new table in it.
    fn set_list(&mut self, a: usize, ins: Ins) -> Result<(), Stop> {
        let Value::Table(table) = self.stack[a] else { return Ok(()) };
        let count = if ins.b == 0 { self.top - a - 1 } else { ins.b as usize };
        let first = (ins.c as usize - 1) * ITEMS_PER_FLUSH as usize;
        self.heap.spend(count / VALUES_PER_STEP);
        if self.heap.reserve_list(table, first + count).is_err() {
            return Err(self.out_of_memory());
        }
        for index in (1..=count).rev() {
            let value = self.stack[a + index];
            self.raw_set(table, Value::Number((first + index) as f64), value)?;
        }
        Ok(())
    }

    fn spread_varargs(&mut self, active: &Active, ins: Ins) -> Result<(), Stop> {
        let a = active.base + usize::from(ins.a);
        let parameters = usize::from(active.proto.parameter_count);
        let at = self.frames.last().map_or(0, |frame| frame.at);
        let first = at + 1 + parameters;
        let available = active.base.saturating_sub(first);
        let count = if ins.b == 0 { available } else { ins.b as usize - 1 };
        self.ensure_stack(a + count)?;
        self.heap.spend(count / VALUES_PER_STEP);
        for index in 0..count {
            let value = if index < available { self.stack[first + index] } else { Value::Nil };
            self.stack[a + index] = value;
        }
        if ins.b == 0 {
            self.top = a + count;
        }
        Ok(())
    }

    fn prepare_for(&mut self, a: usize) -> Result<(), Stop> {
        let names = ["initial value", "limit", "step"];
        for (index, name) in names.into_iter().enumerate() {
            match self.to_number(self.stack[a + index]) {
                Some(number) => self.stack[a + index] = Value::Number(number),
                None => {
                    let text = format!("'for' {name} must be a number");
                    return Err(self.operation_error(text.as_bytes()));
                }
            }
        }
        if let (Value::Number(first), Value::Number(step)) = (self.stack[a], self.stack[a + 2]) {
            self.stack[a] = Value::Number(number::arithmetic(Op::Sub, first, step));
        }
        Ok(())
    }

    fn generic_for(&mut self, host: &mut dyn Host, a: usize, ins: Ins) -> Result<Called, Stop> {
        if self.is_next(self.stack[a])
            && let Value::Table(table) = self.stack[a + 1]
        {
            let Some(entry) = self.heap.next(table, self.stack[a + 2]) else {
                return Err(self.plain_error(b"invalid key to 'next'"));
            };
            let (key, value) = entry.unwrap_or((Value::Nil, Value::Nil));
            self.stack[a + 3] = key;
            self.stack[a + 4] = value;
            for extra in 3..=ins.c as usize {
                self.stack[a + 2 + extra] = Value::Nil;
            }
            return Ok(Called::Done);
        }
        self.ensure_stack(a + 6)?;
        self.stack.copy_within(a..a + 3, a + 3);
        self.begin_call(host, a + 3, 2, ins.c as i32)
    }

    fn tail_call(
        &mut self,
        host: &mut dyn Host,
        floor: Floor,
        active: &Active,
        ins: Ins,
    ) -> Result<Flow, Stop> {
        let pc = self.frames.last().map_or(0, |frame| frame.pc);
        self.step(host, active, pc)?;
        let a = active.base + usize::from(ins.a);
        let count = if ins.b == 0 { self.top - a - 1 } else { ins.b as usize - 1 };
        let (depth, parents) = (self.frames.len() + 1, self.parents.len());
        let called = self.begin_call(host, a, count, ALL)?;
        // Frames of another coroutine may be there by now, alike by chance.
        let is_plain = called == Called::Entered
            && (self.frames.len(), self.parents.len()) == (depth, parents)
            && self.frames[depth - 1].kind == Kind::Lua
            && self.frames[depth - 1].at == a;
        if is_plain {
            self.replace_caller(active.base);
        }
        // A library function's results are returned by the instruction that follows.
        if self.stays(called, active) {
            return Ok(Flow::Next);
        }
        Ok(self.follow(called, floor))
    }

    /// Gives the callee of a tail call the place of its caller on the stack.
    fn replace_caller(&mut self, base: usize) {
        self.close_upvalues(base);
        let Some(mut callee) = self.frames.pop() else { return };
        let Some(caller) = self.frames.last_mut() else { return };
        let registers = callee.proto.as_ref().map_or(0, |proto| usize::from(proto.register_count));
        let end = callee.base + registers;
        let shift = callee.at - caller.at;
        callee.at = caller.at;
        callee.base -= shift;
        callee.kind = caller.kind;
        callee.wanted = caller.wanted;
        callee.tail_calls = caller.tail_calls + 1;
        *caller = callee;
        let target = caller.at;
        self.stack.copy_within(target + shift..end, target);
    }

    fn closure(&mut self, active: &Active, proto: Rc<Proto>) -> Result<Value, Stop> {
        let mut upvalues: Vec<UpvalueId> = Vec::with_capacity(proto.upvalues.len());
        for source in &proto.upvalues {
            upvalues.push(if source.is_local {
                self.find_upvalue(active.base + usize::from(source.index))?
            } else {
                match &self.heap.function(active.function).code {
                    Code::Lua(_, own) => own[usize::from(source.index)],
                    Code::Native(..) => continue,
                }
            });
        }
        let code = Code::Lua(proto, upvalues.into_boxed_slice());
        let environment = self.heap.function(active.function).environment;
        match self.heap.new_function_in(code, environment) {
            Ok(id) => Ok(Value::Function(id)),
            Err(_) => Err(self.out_of_memory()),
        }
    }

    #[inline]
    fn get_table(
        &mut self,
        host: &mut dyn Host,
        pc: usize,
        value: Value,
        key: Value,
        register: u32,
    ) -> Result<Value, Stop> {
        if let Value::Table(id) = value {
            let table = self.heap.table(id);
            let found = table.get(key);
            if !found.is_nil() || table.metatable.is_none() {
                return Ok(found);
            }
        }
        self.save_pc(pc);
        self.index(host, value, key, register)
    }

    #[inline]
    fn set_table(
        &mut self,
        host: &mut dyn Host,
        pc: usize,
        value: Value,
        key: Value,
        item: Value,
        register: u8,
    ) -> Result<(), Stop> {
        if let Value::Table(id) = value
            && self.heap.set_plain(id, key, item)
        {
            self.collect_if_due();
            return Ok(());
        }
        self.save_pc(pc);
        self.set_index(host, value, key, item, u32::from(register))
    }

    /// Table of the globals that a function sees.
    #[inline]
    fn globals_of(&self, function: FunctionId) -> TableId {
        if self.heap.has_environments { self.environment_of(function) } else { self.globals }
    }

    /// Kind of what is called at a place of the stack.
    #[inline]
    fn callee(&self, at: usize) -> Callee {
        let Value::Function(id) = self.stack[at] else { return Callee::Other };
        match &self.heap.function(id).code {
            Code::Lua(proto, _) => Callee::Lua(id, Rc::clone(proto)),
            Code::Native(Native::Plain(function), _) => Callee::Plain(*function),
            Code::Native(..) => Callee::Other,
        }
    }

    fn upvalue_id(&self, function: FunctionId, index: u32) -> Option<UpvalueId> {
        match &self.heap.function(function).code {
            Code::Lua(_, upvalues) => upvalues.get(index as usize).copied(),
            Code::Native(..) => None,
        }
    }

    fn read_upvalue(&self, function: FunctionId, index: u32) -> Value {
        let Some(id) = self.upvalue_id(function, index) else { return Value::Nil };
        match self.heap.upvalue(id) {
            Upvalue::Closed(value) => value,
            Upvalue::Open { owner, at } if owner == self.current => self.stack[at],
            Upvalue::Open { owner, at } => self.stack_of(owner)[at],
        }
    }

    fn write_upvalue(&mut self, function: FunctionId, index: u32, value: Value) {
        let Some(id) = self.upvalue_id(function, index) else { return };
        match self.heap.upvalue(id) {
            Upvalue::Closed(_) => self.heap.set_upvalue(id, Upvalue::Closed(value)),
            Upvalue::Open { owner, at } if owner == self.current => self.stack[at] = value,
            Upvalue::Open { owner, at } => self.stack_of_mut(owner)[at] = value,
        }
    }

    /// A stack that is not the one of the running function: below it in this run, in a suspended
    /// run, or of a coroutine that waits.
    #[cold]
    fn stack_of(&self, owner: StackOwner) -> &[Value] {
        let is_it = |stack: &&(StackOwner, ThreadState)| stack.0 == owner;
        if let Some((_, state)) = self.parents.iter().find(is_it) {
            return &state.stack;
        }
        for (_, parked) in &self.parked {
            if parked.current == owner {
                return &parked.state.stack;
            }
            if let Some((_, state)) = parked.parents.iter().find(is_it) {
                return &state.stack;
            }
        }
        owner.coroutine().map_or(&[], |thread| &self.heap.thread(thread).stack)
    }

    #[cold]
    fn stack_of_mut(&mut self, owner: StackOwner) -> &mut [Value] {
        let is_it = |stack: &&mut (StackOwner, ThreadState)| stack.0 == owner;
        if let Some((_, state)) = self.parents.iter_mut().find(is_it) {
            return &mut state.stack;
        }
        for (_, parked) in &mut self.parked {
            if parked.current == owner {
                return &mut parked.state.stack;
            }
            if let Some((_, state)) = parked.parents.iter_mut().find(is_it) {
                return &mut state.stack;
            }
        }
        owner.coroutine().map_or(&mut [], |thread| &mut self.heap.thread_mut(thread).stack)
    }
}
