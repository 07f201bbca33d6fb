//! Instructions of one function while it is compiled: registers, constants, lists of jumps.

use std::collections::HashMap;
use std::rc::Rc;

use crate::limits::{CONSTANTS_MAX, REGISTERS_MAX};
use crate::program::{Ins, LocalName, Op, Proto, RK, UpvalueSource};
use crate::value::{Str, Value};

/// End of a list of jumps.
pub(super) const NO_JUMP: i32 = -1;

/// Form of an expression before its value is in a register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Void,
    Nil,
    True,
    False,
    Constant(u32),
    Number(f64),
    Local(u8),
    Upvalue(u8),
    Global(u32),
    /// Table register and key (register or constant).
    Indexed(u8, u32),
    /// A comparison whose jump is at a place.
    Jump(i32),
    /// An instruction whose target register is not chosen.
    Open(usize),
    Register(u8),
    Call(usize),
    Vararg(usize),
}

/// An expression: its form, jumps that leave it when true, and when false.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exp {
    pub(super) form: Form,
    pub(super) if_true: i32,
    pub(super) if_false: i32,
}

impl Exp {
    pub(super) const fn new(form: Form) -> Self {
        Self { form, if_true: NO_JUMP, if_false: NO_JUMP }
    }

    pub(super) fn has_jumps(&self) -> bool {
        self.if_true != self.if_false
    }

    fn is_numeral(&self) -> Option<f64> {
        match self.form {
            Form::Number(number) if self.if_true == NO_JUMP && self.if_false == NO_JUMP => {
                Some(number)
            }
            _ => None,
        }
    }
}

/// A block within a function.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) breaks: i32,
    pub(super) first_local: usize,
    pub(super) has_upvalue: bool,
    pub(super) is_loop: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ConstantKey {
    Nil,
    Bool(bool),
    Number(u64),
    Str(u32),
}

/// Limit that a function exceeds.
pub(super) type Excess = &'static [u8];

/// A function while it is compiled.
pub(super) struct Draft {
    pub(super) code: Vec<Ins>,
    pub(super) lines: Vec<u32>,
    pub(super) constants: Vec<Value>,
    known: HashMap<ConstantKey, u32>,
    pub(super) protos: Vec<Rc<Proto>>,
    pub(super) locals: Vec<LocalName>,
    /// Indices into `locals` of the variables in scope, by register.
    pub(super) active: Vec<usize>,
    pub(super) upvalues: Vec<(Str, UpvalueSource)>,
    pub(super) blocks: Vec<Block>,
    pub(super) free: u8,
    pub(super) register_count: u8,
    /// Jumps to the next instruction.
    pending: i32,
    last_target: usize,
    pub(super) is_vararg: bool,
    pub(super) needs_arg: bool,
    pub(super) parameter_count: u8,
    pub(super) line: u32,
    pub(super) line_now: u32,
}

impl Draft {
    pub(super) fn new(line: u32) -> Self {
        Self {
            code: Vec::new(),
            lines: Vec::new(),
            constants: Vec::new(),
            known: HashMap::new(),
            protos: Vec::new(),
            locals: Vec::new(),
            active: Vec::new(),
            upvalues: Vec::new(),
            blocks: Vec::new(),
            free: 0,
            register_count: 2,
            pending: NO_JUMP,
            last_target: usize::MAX,
            is_vararg: false,
            needs_arg: false,
            parameter_count: 0,
            line,
            line_now: line,
        }
    }

    pub(super) fn emit(&mut self, op: Op, a: u8, b: u32, c: u32) -> Result<usize, Excess> {
        self.bind_pending()?;
        if self.code.len() >= CONSTANTS_MAX * 4 {
            return Err(b"code size overflow");
        }
        self.code.push(Ins { op, a, b, c });
        self.lines.push(self.line_now);
        Ok(self.code.len() - 1)
    }

    pub(super) fn fix_line(&mut self, line: u32) {
        if let Some(last) = self.lines.last_mut() {
            *last = line;
        }
    }

    fn constant(&mut self, key: ConstantKey, value: Value) -> Result<u32, Excess> {
        if let Some(index) = self.known.get(&key) {
            return Ok(*index);
        }
        if self.constants.len() >= CONSTANTS_MAX {
            return Err(b"constant table overflow");
        }
        let index = self.constants.len() as u32;
        self.constants.push(value);
        self.known.insert(key, index);
        Ok(index)
    }

    pub(super) fn string_constant(&mut self, string: Str) -> Result<u32, Excess> {
        self.constant(ConstantKey::Str(string.index), Value::Str(string))
    }

    fn number_constant(&mut self, number: f64) -> Result<u32, Excess> {
        // Zero and negative zero are one constant in Lua 5.1: the first one.
        self.constant(ConstantKey::Number((number + 0.0).to_bits()), Value::Number(number))
    }

    pub(super) fn check_stack(&mut self, count: usize) -> Result<(), Excess> {
        let needed = usize::from(self.free) + count;
        if needed > usize::from(self.register_count) {
            if needed >= REGISTERS_MAX {
                return Err(b"function or expression too complex");
            }
            self.register_count = needed as u8;
        }
        Ok(())
    }

    pub(super) fn reserve(&mut self, count: usize) -> Result<(), Excess> {
        self.check_stack(count)?;
        self.free += count as u8;
        Ok(())
    }

    fn free_register(&mut self, register: u32) {
        if register < RK && register as usize >= self.active.len() {
            self.free -= 1;
        }
    }

    fn free_exp(&mut self, exp: &Exp) {
        if let Form::Register(register) = exp.form {
            self.free_register(u32::from(register));
        }
    }

    // Jumps.

    pub(super) fn jump(&mut self) -> Result<i32, Excess> {
        let pending = std::mem::replace(&mut self.pending, NO_JUMP);
        let mut jump = self.emit(Op::Jump, 0, NO_JUMP as u32, 0)? as i32;
        self.concat(&mut jump, pending)?;
        Ok(jump)
    }

    /// Marks the next instruction as a target of jumps.
    pub(super) fn label(&mut self) -> i32 {
        self.last_target = self.code.len();
        self.code.len() as i32
    }

    fn following(&self, jump: i32) -> i32 {
        match self.code[jump as usize].jump() {
            NO_JUMP => NO_JUMP,
            distance => jump + 1 + distance,
        }
    }

    fn fix_jump(&mut self, jump: i32, target: i32) -> Result<(), Excess> {
        let distance = target - (jump + 1);
        if distance.unsigned_abs() as usize > CONSTANTS_MAX / 2 {
            return Err(b"control structure too long");
        }
        self.code[jump as usize].b = distance as u32;
        Ok(())
    }

    pub(super) fn concat(&mut self, list: &mut i32, other: i32) -> Result<(), Excess> {
        if other == NO_JUMP {
            return Ok(());
        }
        if *list == NO_JUMP {
            *list = other;
            return Ok(());
        }
        let mut last = *list;
        loop {
            let next = self.following(last);
            if next == NO_JUMP {
                return self.fix_jump(last, other);
            }
            last = next;
        }
    }

    /// Index of the test that controls a jump.
    fn control(&self, jump: i32) -> usize {
        let jump = jump as usize;
        let is_test = |op| matches!(op, Op::Eq | Op::Lt | Op::Le | Op::Test | Op::TestSet);
        if jump >= 1 && is_test(self.code[jump - 1].op) { jump - 1 } else { jump }
    }

    fn needs_value(&self, list: i32) -> bool {
        let mut at = list;
        while at != NO_JUMP {
            if self.code[self.control(at)].op != Op::TestSet {
                return true;
            }
            at = self.following(at);
        }
        false
    }

    /// Chooses the register of a test that keeps its value; false if the jump has no such test.
    fn patch_test(&mut self, jump: i32, register: Option<u8>) -> bool {
        let at = self.control(jump);
        let test = self.code[at];
        if test.op != Op::TestSet {
            return false;
        }
        match register {
            Some(register) if u32::from(register) != test.b => self.code[at].a = register,
            _ => self.code[at] = Ins { op: Op::Test, a: test.b as u8, b: 0, c: test.c },
        }
        true
    }

    fn remove_values(&mut self, list: i32) {
        let mut at = list;
        while at != NO_JUMP {
            self.patch_test(at, None);
            at = self.following(at);
        }
    }

    fn patch_all(
        &mut self,
        list: i32,
        with_value: i32,
        register: Option<u8>,
        without: i32,
    ) -> Result<(), Excess> {
        let mut at = list;
        while at != NO_JUMP {
            let next = self.following(at);
            let target = if self.patch_test(at, register) { with_value } else { without };
            self.fix_jump(at, target)?;
            at = next;
        }
        Ok(())
    }

    fn bind_pending(&mut self) -> Result<(), Excess> {
        let pending = std::mem::replace(&mut self.pending, NO_JUMP);
        let here = self.code.len() as i32;
        self.patch_all(pending, here, None, here)
    }

    pub(super) fn patch(&mut self, list: i32, target: i32) -> Result<(), Excess> {
        if target == self.code.len() as i32 {
            return self.patch_here(list);
        }
        self.patch_all(list, target, None, target)
    }

    pub(super) fn patch_here(&mut self, list: i32) -> Result<(), Excess> {
        self.label();
        let mut pending = self.pending;
        self.concat(&mut pending, list)?;
        self.pending = pending;
        Ok(())
    }

    // Expressions.

    pub(super) fn set_results(&mut self, exp: &mut Exp, wanted: u32) -> Result<(), Excess> {
        match exp.form {
            Form::Call(at) => self.code[at].c = wanted,
            Form::Vararg(at) => {
                self.code[at].b = wanted;
                self.code[at].a = self.free;
                self.reserve(1)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn set_one_result(&mut self, exp: &mut Exp) {
        match exp.form {
            Form::Call(at) => exp.form = Form::Register(self.code[at].a),
            Form::Vararg(at) => {
                self.code[at].b = 2;
                exp.form = Form::Open(at);
            }
            _ => {}
        }
    }

    pub(super) fn discharge(&mut self, exp: &mut Exp) -> Result<(), Excess> {
        match exp.form {
            Form::Local(register) => exp.form = Form::Register(register),
            Form::Upvalue(index) => {
                exp.form = Form::Open(self.emit(Op::GetUpvalue, 0, u32::from(index), 0)?);
            }
            Form::Global(name) => exp.form = Form::Open(self.emit(Op::GetGlobal, 0, name, 0)?),
            Form::Indexed(table, key) => {
                self.free_register(key);
                self.free_register(u32::from(table));
                exp.form = Form::Open(self.emit(Op::GetTable, 0, u32::from(table), key)?);
            }
            Form::Call(_) | Form::Vararg(_) => self.set_one_result(exp),
            _ => {}
        }
        Ok(())
    }

    fn discharge_to(&mut self, exp: &mut Exp, register: u8) -> Result<(), Excess> {
        self.discharge(exp)?;
        match exp.form {
            Form::Nil => self.load_nil(register, 1)?,
            Form::True | Form::False => {
                self.emit(Op::LoadBool, register, u32::from(exp.form == Form::True), 0)?;
            }
            Form::Constant(index) => {
                self.emit(Op::LoadK, register, index, 0)?;
            }
            Form::Number(number) => {
                let index = self.number_constant(number)?;
                self.emit(Op::LoadK, register, index, 0)?;
            }
            Form::Open(at) => self.code[at].a = register,
            Form::Register(source) => {
                if source != register {
                    self.emit(Op::Move, register, u32::from(source), 0)?;
                }
            }
            _ => return Ok(()),
        }
        exp.form = Form::Register(register);
        Ok(())
    }

    pub(super) fn load_nil(&mut self, from: u8, count: u8) -> Result<(), Excess> {
        let here = self.code.len();
        if here != self.last_target && self.pending == NO_JUMP {
            if here == 0 {
                if usize::from(from) >= self.active.len() {
                    return Ok(());
                }
            } else if let Some(last) = self.code.last_mut()
                && last.op == Op::LoadNil
                && u32::from(last.a) <= u32::from(from)
                && u32::from(from) <= last.b + 1
            {
                last.b = last.b.max(u32::from(from) + u32::from(count) - 1);
                return Ok(());
            }
        }
        self.emit(Op::LoadNil, from, u32::from(from) + u32::from(count) - 1, 0)?;
        Ok(())
    }

    fn place_in(&mut self, exp: &mut Exp, register: u8) -> Result<(), Excess> {
        self.discharge_to(exp, register)?;
        if let Form::Jump(jump) = exp.form {
            let mut list = exp.if_true;
            self.concat(&mut list, jump)?;
            exp.if_true = list;
        }
        if exp.has_jumps() {
            let (mut load_false, mut load_true) = (NO_JUMP, NO_JUMP);
            if self.needs_value(exp.if_true) || self.needs_value(exp.if_false) {
                let over = if matches!(exp.form, Form::Jump(_)) { NO_JUMP } else { self.jump()? };
                self.label();
                load_false = self.emit(Op::LoadBool, register, 0, 1)? as i32;
                self.label();
                load_true = self.emit(Op::LoadBool, register, 1, 0)? as i32;
                self.patch_here(over)?;
            }
            let end = self.label();
            self.patch_all(exp.if_false, end, Some(register), load_false)?;
            self.patch_all(exp.if_true, end, Some(register), load_true)?;
        }
        *exp = Exp::new(Form::Register(register));
        Ok(())
    }

    pub(super) fn place_in_next(&mut self, exp: &mut Exp) -> Result<(), Excess> {
        self.discharge(exp)?;
        self.free_exp(exp);
        self.reserve(1)?;
        self.place_in(exp, self.free - 1)
    }

    pub(super) fn place_anywhere(&mut self, exp: &mut Exp) -> Result<u8, Excess> {
        self.discharge(exp)?;
        if let Form::Register(register) = exp.form {
            if !exp.has_jumps() {
                return Ok(register);
            }
            if usize::from(register) >= self.active.len() {
                self.place_in(exp, register)?;
                return Ok(register);
            }
        }
        self.place_in_next(exp)?;
        Ok(self.free - 1)
    }

    pub(super) fn settle_value(&mut self, exp: &mut Exp) -> Result<(), Excess> {
        if exp.has_jumps() { self.place_anywhere(exp).map(|_| ()) } else { self.discharge(exp) }
    }

    pub(super) fn operand(&mut self, exp: &mut Exp) -> Result<u32, Excess> {
        self.settle_value(exp)?;
        let index = match exp.form {
            Form::Nil => Some(self.constant(ConstantKey::Nil, Value::Nil)?),
            Form::True => Some(self.constant(ConstantKey::Bool(true), Value::Bool(true))?),
            Form::False => Some(self.constant(ConstantKey::Bool(false), Value::Bool(false))?),
            Form::Number(number) => Some(self.number_constant(number)?),
            Form::Constant(index) => Some(index),
            _ => None,
        };
        match index {
            // Lua 5.1 has 256 such operands, which decides about names in error texts.
            Some(index) if index < 256 => {
                exp.form = Form::Constant(index);
                Ok(RK + index)
            }
            _ => Ok(u32::from(self.place_anywhere(exp)?)),
        }
    }

    pub(super) fn store(&mut self, target: &Exp, exp: &mut Exp) -> Result<(), Excess> {
        match target.form {
            Form::Local(register) => {
                self.free_exp(exp);
                return self.place_in(exp, register);
            }
            Form::Upvalue(index) => {
                let register = self.place_anywhere(exp)?;
                self.emit(Op::SetUpvalue, register, u32::from(index), 0)?;
            }
            Form::Global(name) => {
                let register = self.place_anywhere(exp)?;
                self.emit(Op::SetGlobal, register, name, 0)?;
            }
            Form::Indexed(table, key) => {
                let value = self.operand(exp)?;
                self.emit(Op::SetTable, table, key, value)?;
            }
            _ => {}
        }
        self.free_exp(exp);
        Ok(())
    }

    pub(super) fn method(&mut self, exp: &mut Exp, key: &mut Exp) -> Result<(), Excess> {
        let object = self.place_anywhere(exp)?;
        self.free_exp(exp);
        let function = self.free;
        self.reserve(2)?;
        let name = self.operand(key)?;
        self.emit(Op::SelfIndex, function, u32::from(object), name)?;
        self.free_exp(key);
        exp.form = Form::Register(function);
        Ok(())
    }

    fn jump_if(&mut self, exp: &mut Exp, condition: bool) -> Result<i32, Excess> {
        if let Form::Open(at) = exp.form
            && self.code[at].op == Op::Not
        {
            let operand = self.code[at].b as u8;
            self.code.pop();
            self.lines.pop();
            self.emit(Op::Test, operand, 0, u32::from(!condition))?;
            return self.jump();
        }
        if !matches!(exp.form, Form::Register(_)) {
            self.reserve(1)?;
            let register = self.free - 1;
            self.discharge_to(exp, register)?;
        }
        self.free_exp(exp);
        let Form::Register(register) = exp.form else { return Ok(NO_JUMP) };
        self.emit(Op::TestSet, u8::MAX, u32::from(register), u32::from(condition))?;
        self.jump()
    }

    pub(super) fn go_if_true(&mut self, exp: &mut Exp) -> Result<(), Excess> {
        self.discharge(exp)?;
        let jump = match exp.form {
            Form::Constant(_) | Form::Number(_) | Form::True => NO_JUMP,
            Form::Jump(jump) => {
                self.invert(jump);
                jump
            }
            _ => self.jump_if(exp, false)?,
        };
        let mut list = exp.if_false;
        self.concat(&mut list, jump)?;
        exp.if_false = list;
        self.patch_here(exp.if_true)?;
        exp.if_true = NO_JUMP;
        Ok(())
    }

    fn go_if_false(&mut self, exp: &mut Exp) -> Result<(), Excess> {
        self.discharge(exp)?;
        let jump = match exp.form {
            Form::Nil | Form::False => NO_JUMP,
            Form::Jump(jump) => jump,
            _ => self.jump_if(exp, true)?,
        };
        let mut list = exp.if_true;
        self.concat(&mut list, jump)?;
        exp.if_true = list;
        self.patch_here(exp.if_false)?;
        exp.if_false = NO_JUMP;
        Ok(())
    }

    fn invert(&mut self, jump: i32) {
        let at = self.control(jump);
        self.code[at].a ^= 1;
    }

    fn not(&mut self, exp: &mut Exp) -> Result<(), Excess> {
        self.discharge(exp)?;
        match exp.form {
            Form::Nil | Form::False => exp.form = Form::True,
            Form::Constant(_) | Form::Number(_) | Form::True => exp.form = Form::False,
            Form::Jump(jump) => self.invert(jump),
            Form::Open(_) | Form::Register(_) => {
                if !matches!(exp.form, Form::Register(_)) {
                    self.reserve(1)?;
                    let register = self.free - 1;
                    self.discharge_to(exp, register)?;
                }
                self.free_exp(exp);
                let Form::Register(register) = exp.form else { return Ok(()) };
                exp.form = Form::Open(self.emit(Op::Not, 0, u32::from(register), 0)?);
            }
            _ => {}
        }
        std::mem::swap(&mut exp.if_true, &mut exp.if_false);
        self.remove_values(exp.if_false);
        self.remove_values(exp.if_true);
        Ok(())
    }

    pub(super) fn index(&mut self, table: &mut Exp, key: &mut Exp) -> Result<(), Excess> {
        let operand = self.operand(key)?;
        if let Form::Register(register) = table.form {
            table.form = Form::Indexed(register, operand);
        }
        Ok(())
    }

    fn fold(op: Op, left: &Exp, right: &Exp) -> Option<f64> {
        let (a, b) = (left.is_numeral()?, right.is_numeral()?);
        if matches!(op, Op::Div | Op::Mod) && b == 0.0 || op == Op::Len {
            return None;
        }
        let result = crate::number::arithmetic(op, a, b);
        if result.is_nan() { None } else { Some(result) }
    }

    fn arithmetic(
        &mut self,
        op: Op,
        left: &mut Exp,
        right: &mut Exp,
        line: u32,
    ) -> Result<(), Excess> {
        if let Some(number) = Self::fold(op, left, right) {
            left.form = Form::Number(number);
            return Ok(());
        }
        let is_unary = matches!(op, Op::Unm | Op::Len);
        let second = if is_unary { 0 } else { self.operand(right)? };
        let first = self.operand(left)?;
        if first > second && !is_unary {
            self.free_exp(left);
            self.free_exp(right);
        } else {
            if !is_unary {
                self.free_exp(right);
            }
            self.free_exp(left);
        }
        *left = Exp::new(Form::Open(self.emit(op, 0, first, second)?));
        self.fix_line(line);
        Ok(())
    }

    pub(super) fn prefix(&mut self, op: Op, exp: &mut Exp, line: u32) -> Result<(), Excess> {
        let mut zero = Exp::new(Form::Number(0.0));
        match op {
            Op::Not => self.not(exp),
            Op::Unm => {
                if exp.is_numeral().is_none() {
                    self.place_anywhere(exp)?;
                }
                self.arithmetic(op, exp, &mut zero, line)
            }
            _ => {
                self.place_anywhere(exp)?;
                self.arithmetic(op, exp, &mut zero, line)
            }
        }
    }

    /// Prepares the left operand before the right one is read.
    pub(super) fn infix(&mut self, op: Binary, left: &mut Exp) -> Result<(), Excess> {
        match op {
            Binary::And => self.go_if_true(left),
            Binary::Or => self.go_if_false(left),
            Binary::Concat => self.place_in_next(left),
            Binary::Arithmetic(_) if left.is_numeral().is_some() => Ok(()),
            _ => self.operand(left).map(|_| ()),
        }
    }

    pub(super) fn postfix(
        &mut self,
        op: Binary,
        left: &mut Exp,
        right: &mut Exp,
        line: u32,
    ) -> Result<(), Excess> {
        match op {
            Binary::And | Binary::Or => {
                self.discharge(right)?;
                let (mut list, other) = match op {
                    Binary::And => (right.if_false, left.if_false),
                    _ => (right.if_true, left.if_true),
                };
                self.concat(&mut list, other)?;
                if op == Binary::And {
                    right.if_false = list
                } else {
                    right.if_true = list
                }
                *left = *right;
                Ok(())
            }
            Binary::Concat => {
                self.settle_value(right)?;
                if let Form::Open(at) = right.form
                    && self.code[at].op == Op::Concat
                {
                    let Form::Register(first) = left.form else { return Ok(()) };
                    self.free_exp(left);
                    self.code[at].b = u32::from(first);
                    left.form = right.form;
                    return Ok(());
                }
                self.place_in_next(right)?;
                self.arithmetic(Op::Concat, left, right, line)
            }
            Binary::Arithmetic(op) => self.arithmetic(op, left, right, line),
            Binary::Compare { op, expected, is_swapped } => {
                let mut first = self.operand(left)?;
                let mut second = self.operand(right)?;
                self.free_exp(right);
                self.free_exp(left);
                if is_swapped {
                    std::mem::swap(&mut first, &mut second);
                }
                self.emit(op, u8::from(expected), first, second)?;
                *left = Exp::new(Form::Jump(self.jump()?));
                Ok(())
            }
        }
    }
}

/// Operators between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    And,
    Or,
    Concat,
    Arithmetic(Op),
    /// A comparison; `a > b` is `b < a`.
    Compare {
        op: Op,
        expected: bool,
        is_swapped: bool,
    },
}
