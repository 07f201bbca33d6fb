//! The loop over instructions.

use std::rc::Rc;

use super::call::{Called, Floor};
use super::{ALL, Kind, Stop, Vm};
use crate::heap::{Code, Upvalue};
use crate::host::Host;
use crate::limits::{ITEMS_PER_FLUSH, VALUES_PER_STEP};
use crate::number;
use crate::program::{Ins, Op, Proto, RK};
use crate::value::{FunctionId, UpvalueId, Value};

/// The active function, as the loop holds it.
struct Active {
    proto: Rc<Proto>,
    function: FunctionId,
    base: usize,
    pc: usize,
}

/// Course of the loop behind an instruction.
enum Flow {
    Next,
    /// Another frame is the active one.
    Reload,
    End,
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

    fn is_at(&self, floor: Floor) -> bool {
        self.parents.len() == floor.parents && self.frames.len() <= floor.frames
    }

    fn load_active(&self) -> Option<Active> {
        let frame = self.frames.last()?;
        let proto = Rc::clone(frame.proto.as_ref()?);
        Some(Active { proto, function: frame.function?, base: frame.base, pc: frame.pc })
    }

    fn save_pc(&mut self, pc: usize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.pc = pc;
        }
    }

    #[inline]
    fn operand(&self, active: &Active, operand: u32) -> Value {
        if operand >= RK {
            active.proto.constants[(operand - RK) as usize]
        } else {
            self.stack[active.base + operand as usize]
        }
    }

    /// Counts a step that may repeat without bound; the instruction runs again after a suspension.
    #[inline]
    fn step(&mut self, host: &mut dyn Host, pc: usize) -> Result<(), Stop> {
        let steps_left = self.heap.steps_left.get() - 1;
        self.heap.steps_left.set(steps_left);
        if steps_left > 0 {
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
        macro_rules! arithmetic {
            ($ins:ident, $a:ident, $b:ident => $result:expr) => {{
                let left = self.operand(&active, $ins.b);
                let right = self.operand(&active, $ins.c);
                let value = if let (Value::Number($a), Value::Number($b)) = (left, right) {
                    Value::Number($result)
                } else {
                    self.save_pc(active.pc);
                    self.arithmetic(host, $ins.op, (left, $ins.b), (right, $ins.c))?
                };
                self.stack[active.base + usize::from($ins.a)] = value;
            }};
        }
        loop {
            let ins = active.proto.code[active.pc];
            active.pc += 1;
            let a = active.base + usize::from(ins.a);
            match ins.op {
                Op::Move => self.stack[a] = self.stack[active.base + ins.b as usize],
                Op::LoadK => self.stack[a] = active.proto.constants[ins.b as usize],
                Op::LoadBool => {
                    self.stack[a] = Value::Bool(ins.b != 0);
                    active.pc += usize::from(ins.c != 0);
                }
                Op::LoadNil => {
                    self.stack[a..=active.base + ins.b as usize].fill(Value::Nil);
                }
                Op::Add => arithmetic!(ins, x, y => x + y),
                Op::Sub => arithmetic!(ins, x, y => x - y),
                Op::Mul => arithmetic!(ins, x, y => x * y),
                Op::Div => arithmetic!(ins, x, y => x / y),
                Op::Mod => arithmetic!(ins, x, y => x - (x / y).floor() * y),
                Op::Pow => arithmetic!(ins, x, y => x.powf(y)),
                Op::Not => {
                    let value = self.stack[active.base + ins.b as usize];
                    self.stack[a] = Value::Bool(!value.is_truthy());
                }
                Op::Jump => {
                    let distance = ins.jump();
                    if distance < 0 {
                        self.step(host, active.pc)?;
                    }
                    active.pc = (active.pc as i64 + i64::from(distance)) as usize;
                }
                Op::Test => {
                    active.pc += usize::from(self.stack[a].is_truthy() != (ins.c != 0));
                }
                Op::TestSet => {
                    let value = self.stack[active.base + ins.b as usize];
                    if value.is_truthy() == (ins.c != 0) {
                        self.stack[a] = value;
                    } else {
                        active.pc += 1;
                    }
                }
                Op::GetUpvalue => self.stack[a] = self.read_upvalue(&active, ins.b),
                Op::SetUpvalue => {
                    let value = self.stack[a];
                    self.write_upvalue(&active, ins.b, value);
                }
                Op::GetGlobal => {
                    let key = active.proto.constants[ins.b as usize];
                    let found = self.heap.table(self.globals).get(key);
                    self.stack[a] = if found.is_nil() {
                        self.save_pc(active.pc);
                        self.index(host, Value::Table(self.globals), key, RK)?
                    } else {
                        found
                    };
                }
                Op::GetTable => {
                    let value = self.stack[active.base + ins.b as usize];
                    let key = self.operand(&active, ins.c);
                    self.stack[a] = self.get_table(host, &active, value, key, ins.b)?;
                }
                Op::SelfIndex => {
                    let value = self.stack[active.base + ins.b as usize];
                    let key = self.operand(&active, ins.c);
                    self.stack[a + 1] = value;
                    self.stack[a] = self.get_table(host, &active, value, key, ins.b)?;
                }
                Op::SetTable => {
                    let value = self.stack[a];
                    let key = self.operand(&active, ins.b);
                    let item = self.operand(&active, ins.c);
                    self.set_table(host, &active, value, key, item, ins.a)?;
                }
                Op::Eq | Op::Lt | Op::Le => {
                    let is_it = self.compare(host, &active, ins)?;
                    active.pc += usize::from(is_it != (ins.a != 0));
                }
                Op::ForLoop => {
                    let (Value::Number(index), Value::Number(limit), Value::Number(step)) =
                        (self.stack[a], self.stack[a + 1], self.stack[a + 2])
                    else {
                        continue;
                    };
                    let next = index + step;
                    if if step > 0.0 { next <= limit } else { limit <= next } {
                        self.step(host, active.pc)?;
                        self.stack[a] = Value::Number(next);
                        self.stack[a + 3] = Value::Number(next);
                        active.pc = (active.pc as i64 + i64::from(ins.jump())) as usize;
                    }
                }
                Op::Call => {
                    self.step(host, active.pc)?;
                    self.save_pc(active.pc);
                    let count = if ins.b == 0 { self.top - a - 1 } else { ins.b as usize - 1 };
                    let called = self.begin_call(host, a, count, ins.c as i32 - 1)?;
                    if called == Called::Done && self.is_same_frame(&active) {
                        self.collect_if_due();
                        continue;
                    }
                    match self.follow(called, floor, &mut active) {
                        Flow::End => return Ok(()),
                        Flow::Next | Flow::Reload => {}
                    }
                }
                Op::Return => {
                    let count = if ins.b == 0 { self.top - a } else { ins.b as usize - 1 };
                    let called = self.leave(a, count)?;
                    if let Flow::End = self.follow(called, floor, &mut active) {
                        return Ok(());
                    }
                }
                _ => {
                    self.save_pc(active.pc);
                    if let Flow::End = self.run_rare(host, floor, &mut active, ins)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    #[inline]
    fn is_same_frame(&self, active: &Active) -> bool {
        self.frames.last().is_some_and(|frame| {
            frame.base == active.base && frame.function == Some(active.function)
        })
    }

    /// Goes on in the frame that is the active one after a call or return.
    fn follow(&mut self, called: Called, floor: Floor, active: &mut Active) -> Flow {
        if called == Called::Ended || self.is_at(floor) {
            return Flow::End;
        }
        match self.load_active() {
            Some(next) => {
                *active = next;
                Flow::Reload
            }
            None => Flow::End,
        }
    }

    #[inline]
    pub(crate) fn is_collection_due(&self) -> bool {
        self.heap.budget.used_bytes > self.heap.threshold_bytes
    }

    #[inline]
    pub(super) fn collect_if_due(&mut self) {
        if self.is_collection_due() {
            self.collect();
        }
    }

    /// Instructions that are not worth a place in the loop.
    fn run_rare(
        &mut self,
        host: &mut dyn Host,
        floor: Floor,
        active: &mut Active,
        ins: Ins,
    ) -> Result<Flow, Stop> {
        let a = active.base + usize::from(ins.a);
        match ins.op {
            Op::SetGlobal => {
                let key = active.proto.constants[ins.b as usize];
                let item = self.stack[a];
                self.set_index(host, Value::Table(self.globals), key, item, RK)?;
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
            Op::ForPrep => {
                self.prepare_for(a)?;
                active.pc = (active.pc as i64 + i64::from(ins.jump())) as usize;
            }
            Op::TForLoop => return self.generic_for(host, floor, active, ins),
            Op::TForTest => match self.stack[a + 3] {
                Value::Nil => active.pc += 1,
                control => self.stack[a + 2] = control,
            },
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

    fn generic_for(
        &mut self,
        host: &mut dyn Host,
        floor: Floor,
        active: &mut Active,
        ins: Ins,
    ) -> Result<Flow, Stop> {
        self.step(host, active.pc)?;
        let a = active.base + usize::from(ins.a);
        let called = if self.is_next(self.stack[a])
            && let Value::Table(table) = self.stack[a + 1]
        {
            let entry = self.heap.next(table, self.stack[a + 2]).unwrap_or(None);
            let (key, value) = entry.unwrap_or((Value::Nil, Value::Nil));
            self.stack[a + 3] = key;
            self.stack[a + 4] = value;
            for extra in 3..=ins.c as usize {
                self.stack[a + 2 + extra] = Value::Nil;
            }
            Called::Done
        } else {
            self.ensure_stack(a + 6)?;
            self.stack.copy_within(a..a + 3, a + 3);
            self.begin_call(host, a + 3, 2, ins.c as i32)?
        };
        if called == Called::Done && self.is_same_frame(active) {
            return Ok(Flow::Next);
        }
        Ok(self.follow(called, floor, active))
    }

    fn tail_call(
        &mut self,
        host: &mut dyn Host,
        floor: Floor,
        active: &mut Active,
        ins: Ins,
    ) -> Result<Flow, Stop> {
        self.step(host, active.pc)?;
        let a = active.base + usize::from(ins.a);
        let count = if ins.b == 0 { self.top - a - 1 } else { ins.b as usize - 1 };
        let called = self.begin_call(host, a, count, ALL)?;
        let depth = self.frames.len();
        let is_plain = called == Called::Entered
            && depth >= 2
            && self.frames[depth - 1].kind == Kind::Lua
            && self.frames[depth - 1].at == a
            && self.frames[depth - 2].base == active.base;
        if is_plain {
            self.replace_caller(active.base);
        }
        // A library function's results are returned by the instruction that follows.
        if called == Called::Done && self.is_same_frame(active) {
            self.collect_if_due();
            return Ok(Flow::Next);
        }
        Ok(self.follow(called, floor, active))
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
        match self.heap.new_function(code) {
            Ok(id) => Ok(Value::Function(id)),
            Err(_) => Err(self.out_of_memory()),
        }
    }

    #[inline]
    fn get_table(
        &mut self,
        host: &mut dyn Host,
        active: &Active,
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
        self.save_pc(active.pc);
        self.index(host, value, key, register)
    }

    #[inline]
    fn set_table(
        &mut self,
        host: &mut dyn Host,
        active: &Active,
        value: Value,
        key: Value,
        item: Value,
        register: u8,
    ) -> Result<(), Stop> {
        if let Value::Table(id) = value {
            let table = self.heap.table(id);
            if table.metatable.is_none()
                && !table.is_readonly
                && self.heap.set(id, key, item).is_ok()
            {
                self.collect_if_due();
                return Ok(());
            }
        }
        self.save_pc(active.pc);
        self.set_index(host, value, key, item, u32::from(register))
    }

    #[inline]
    fn compare(&mut self, host: &mut dyn Host, active: &Active, ins: Ins) -> Result<bool, Stop> {
        let left = self.operand(active, ins.b);
        let right = self.operand(active, ins.c);
        if let (Value::Number(a), Value::Number(b)) = (left, right) {
            return Ok(match ins.op {
                Op::Eq => a == b,
                Op::Lt => a < b,
                _ => a <= b,
            });
        }
        self.save_pc(active.pc);
        match ins.op {
            Op::Eq => self.equal(host, left, right),
            Op::Lt => self.less(host, left, right),
            _ => self.less_equal(host, left, right),
        }
    }

    fn upvalue_id(&self, active: &Active, index: u32) -> Option<UpvalueId> {
        match &self.heap.function(active.function).code {
            Code::Lua(_, upvalues) => upvalues.get(index as usize).copied(),
            Code::Native(..) => None,
        }
    }

    fn read_upvalue(&self, active: &Active, index: u32) -> Value {
        let Some(id) = self.upvalue_id(active, index) else { return Value::Nil };
        match self.heap.upvalue(id) {
            Upvalue::Closed(value) => value,
            Upvalue::Open { thread, at } if thread == self.current => self.stack[at],
            Upvalue::Open { thread, at } => {
                match self.parents.iter().find(|(parent, _)| *parent == thread) {
                    Some((_, state)) => state.stack[at],
                    None => thread.map_or(Value::Nil, |id| self.heap.thread(id).stack[at]),
                }
            }
        }
    }

    fn write_upvalue(&mut self, active: &Active, index: u32, value: Value) {
        let Some(id) = self.upvalue_id(active, index) else { return };
        match self.heap.upvalue(id) {
            Upvalue::Closed(_) => self.heap.set_upvalue(id, Upvalue::Closed(value)),
            Upvalue::Open { thread, at } if thread == self.current => self.stack[at] = value,
            Upvalue::Open { thread, at } => {
                match self.parents.iter_mut().find(|(parent, _)| *parent == thread) {
                    Some((_, state)) => state.stack[at] = value,
                    None => {
                        if let Some(id) = thread {
                            self.heap.thread_mut(id).stack[at] = value;
                        }
                    }
                }
            }
        }
    }
}
