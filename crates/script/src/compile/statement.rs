//! Statements.

use super::code::{Exp, Form, NO_JUMP};
use super::lexer::{Token, Word};
use super::{Parser, Result};
use crate::program::{Op, RK};
use crate::value::Str;

impl Parser<'_> {
    pub(super) fn chunk(&mut self) -> Result<()> {
        self.enter()?;
        let mut is_last = false;
        while !is_last && !self.is_block_end() {
            is_last = self.statement()?;
            self.is_next(Token::Char(b';'))?;
            let draft = self.draft();
            draft.free = draft.active.len() as u8;
        }
        self.depth -= 1;
        Ok(())
    }

    fn block(&mut self) -> Result<()> {
        self.open_block(false);
        self.chunk()?;
        self.close_block()
    }

    /// One statement; true if none may follow it in its block.
    fn statement(&mut self) -> Result<bool> {
        let line = self.lexer.line;
        match self.token() {
            Token::Word(Word::If) => self.if_statement(line)?,
            Token::Word(Word::While) => self.while_statement(line)?,
            Token::Word(Word::Do) => {
                self.advance()?;
                self.block()?;
                self.expect_match(Token::Word(Word::End), Token::Word(Word::Do), line)?;
            }
            Token::Word(Word::For) => self.for_statement(line)?,
            Token::Word(Word::Repeat) => self.repeat_statement(line)?,
            Token::Word(Word::Function) => self.function_statement(line)?,
            Token::Word(Word::Local) => {
                self.advance()?;
                if self.is_next(Token::Word(Word::Function))? {
                    self.local_function()?;
                } else {
                    self.local_statement()?;
                }
            }
            Token::Word(Word::Return) => {
                self.return_statement()?;
                return Ok(true);
            }
            Token::Word(Word::Break) => {
                self.advance()?;
                self.break_statement()?;
                return Ok(true);
            }
            _ => self.expression_statement()?,
        }
        Ok(false)
    }

    /// Jumps taken when a condition is false.
    fn condition(&mut self) -> Result<i32> {
        let mut exp = self.expression()?;
        if exp.form == Form::Nil {
            exp.form = Form::False;
        }
        self.generate(|draft| draft.go_if_true(&mut exp))?;
        Ok(exp.if_false)
    }

    fn test_then_block(&mut self) -> Result<i32> {
        self.advance()?;
        let jumps = self.condition()?;
        self.expect(Token::Word(Word::Then))?;
        self.block()?;
        Ok(jumps)
    }

    fn if_statement(&mut self, line: u32) -> Result<()> {
        let mut escapes = NO_JUMP;
        let mut jumps = self.test_then_block()?;
        loop {
            let is_else = self.token() == Token::Word(Word::Else);
            if !is_else && self.token() != Token::Word(Word::ElseIf) {
                self.generate(|draft| draft.concat(&mut escapes, jumps))?;
                break;
            }
            self.generate(|draft| {
                let over = draft.jump()?;
                draft.concat(&mut escapes, over)?;
                draft.patch_here(jumps)
            })?;
            if is_else {
                self.advance()?;
                self.block()?;
                break;
            }
            jumps = self.test_then_block()?;
        }
        self.generate(|draft| draft.patch_here(escapes))?;
        self.expect_match(Token::Word(Word::End), Token::Word(Word::If), line)
    }

    fn while_statement(&mut self, line: u32) -> Result<()> {
        self.advance()?;
        let start = self.draft().label();
        let exit = self.condition()?;
        self.open_block(true);
        self.expect(Token::Word(Word::Do))?;
        self.block()?;
        self.generate(|draft| {
            let back = draft.jump()?;
            draft.patch(back, start)
        })?;
        self.expect_match(Token::Word(Word::End), Token::Word(Word::While), line)?;
        self.close_block()?;
        self.generate(|draft| draft.patch_here(exit))
    }

    fn repeat_statement(&mut self, line: u32) -> Result<()> {
        let start = self.draft().label();
        self.open_block(true);
        self.open_block(false);
        self.advance()?;
        self.chunk()?;
        self.expect_match(Token::Word(Word::Until), Token::Word(Word::Repeat), line)?;
        let exit = self.condition()?;
        let has_upvalue = self.draft().blocks.last().is_some_and(|block| block.has_upvalue);
        if has_upvalue {
            self.break_statement()?;
            self.generate(|draft| draft.patch_here(exit))?;
            self.close_block()?;
            self.generate(|draft| {
                let back = draft.jump()?;
                draft.patch(back, start)
            })?;
        } else {
            self.close_block()?;
            self.generate(|draft| draft.patch(exit, start))?;
        }
        self.close_block()
    }

    fn break_statement(&mut self) -> Result<()> {
        let draft = self.draft();
        let Some(index) = draft.blocks.iter().rposition(|block| block.is_loop) else {
            return Err(self.lexer.error_near(b"no loop to break"));
        };
        let has_upvalue = draft.blocks[index + 1..].iter().any(|block| block.has_upvalue);
        let first_local = draft.blocks[index].first_local as u8;
        self.generate(|draft| {
            if has_upvalue {
                draft.emit(Op::Close, first_local, 0, 0)?;
            }
            let jump = draft.jump()?;
            let mut list = draft.blocks[index].breaks;
            draft.concat(&mut list, jump)?;
            draft.blocks[index].breaks = list;
            Ok(())
        })
    }

    fn for_statement(&mut self, line: u32) -> Result<()> {
        self.open_block(true);
        self.advance()?;
        let first = self.name()?;
        match self.token() {
            Token::Char(b'=') => self.numeric_for(first, line)?,
            Token::Char(b',') | Token::Word(Word::In) => self.generic_for(first, line)?,
            _ => return Err(self.lexer.error_near(b"'=' or 'in' expected")),
        }
        self.expect_match(Token::Word(Word::End), Token::Word(Word::For), line)?;
        self.close_block()
    }

    fn control_variables(&mut self, names: [&[u8]; 3]) -> Result<Vec<usize>> {
        let mut locals = Vec::new();
        for name in names {
            let name = self.text(name)?;
            locals.push(self.declare(name, locals.len())?);
        }
        Ok(locals)
    }

    fn numeric_for(&mut self, variable: Str, line: u32) -> Result<()> {
        let base = self.draft().free;
        let controls = self.control_variables([b"(for index)", b"(for limit)", b"(for step)"])?;
        let variable = self.declare(variable, controls.len())?;
        self.expect_char(b'=')?;
        self.next_value()?;
        self.expect_char(b',')?;
        self.next_value()?;
        if self.is_next(Token::Char(b','))? {
            self.next_value()?;
        } else {
            let mut one = Exp::new(Form::Number(1.0));
            self.generate(|draft| draft.place_in_next(&mut one))?;
        }
        self.for_body(base, line, &controls, &[variable], true)
    }

    fn next_value(&mut self) -> Result<()> {
        let mut exp = self.expression()?;
        self.generate(|draft| draft.place_in_next(&mut exp))
    }

    fn generic_for(&mut self, first: Str, _line: u32) -> Result<()> {
        let base = self.draft().free;
        let names: [&[u8]; 3] = [b"(for generator)", b"(for state)", b"(for control)"];
        let controls = self.control_variables(names)?;
        let mut variables = vec![self.declare(first, controls.len())?];
        while self.is_next(Token::Char(b','))? {
            let name = self.name()?;
            variables.push(self.declare(name, controls.len() + variables.len())?);
        }
        self.expect(Token::Word(Word::In))?;
        let line = self.lexer.line;
        let (mut exp, count) = self.list()?;
        self.adjust(3, count, &mut exp)?;
        self.generate(|draft| draft.check_stack(3))?;
        self.for_body(base, line, &controls, &variables, false)
    }

    fn for_body(
        &mut self,
        base: u8,
        line: u32,
        controls: &[usize],
        variables: &[usize],
        is_numeric: bool,
    ) -> Result<()> {
        self.activate(controls);
        self.expect(Token::Word(Word::Do))?;
        let prepare = self.generate(|draft| {
            if is_numeric {
                draft.emit(Op::ForPrep, base, NO_JUMP as u32, 0).map(|at| at as i32)
            } else {
                draft.jump()
            }
        })?;
        self.open_block(false);
        self.activate(variables);
        self.generate(|draft| draft.reserve(variables.len()))?;
        self.block()?;
        self.close_block()?;
        self.generate(|draft| {
            draft.patch_here(prepare)?;
            let end = if is_numeric {
                draft.emit(Op::ForLoop, base, NO_JUMP as u32, 0)? as i32
            } else {
                draft.emit(Op::TForLoop, base, 0, variables.len() as u32)?;
                draft.fix_line(line);
                draft.emit(Op::TForTest, base, 0, 0)?;
                draft.jump()?
            };
            let own = draft.fix_line_of(end, line);
            draft.patch(own, prepare + 1)
        })
    }

    fn function_statement(&mut self, line: u32) -> Result<()> {
        self.advance()?;
        let name = self.name()?;
        let mut target = self.variable(name)?;
        let mut is_method = false;
        while self.token() == Token::Char(b'.') {
            self.field(&mut target)?;
        }
        if self.token() == Token::Char(b':') {
            is_method = true;
            self.field(&mut target)?;
        }
        let mut body = self.body(is_method, line)?;
        self.generate(|draft| {
            draft.store(&target, &mut body)?;
            draft.fix_line(line);
            Ok(())
        })
    }

    fn local_function(&mut self) -> Result<()> {
        let name = self.name()?;
        let local = self.declare(name, 0)?;
        self.activate(&[local]);
        let register = self.draft().free;
        self.generate(|draft| draft.reserve(1))?;
        let line = self.lexer.line;
        let mut body = self.body(false, line)?;
        let target = Exp::new(Form::Local(register));
        self.generate(|draft| draft.store(&target, &mut body))?;
        let draft = self.draft();
        let here = draft.code.len();
        draft.locals[local].start = here;
        Ok(())
    }

    fn local_statement(&mut self) -> Result<()> {
        let mut locals = Vec::new();
        loop {
            let name = self.name()?;
            locals.push(self.declare(name, locals.len())?);
            if !self.is_next(Token::Char(b','))? {
                break;
            }
        }
        let (mut exp, count) =
            if self.is_next(Token::Char(b'='))? { self.list()? } else { (Exp::new(Form::Void), 0) };
        self.adjust(locals.len(), count, &mut exp)?;
        self.activate(&locals);
        Ok(())
    }

    /// Fits a list of expressions to the number of its targets.
    fn adjust(&mut self, targets: usize, count: usize, exp: &mut Exp) -> Result<()> {
        self.generate(|draft| {
            if matches!(exp.form, Form::Call(_) | Form::Vararg(_)) {
                let extra = (targets + 1).saturating_sub(count);
                draft.set_results(exp, extra as u32 + 1)?;
                if extra > 1 {
                    draft.reserve(extra - 1)?;
                }
                return Ok(());
            }
            if exp.form != Form::Void {
                draft.place_in_next(exp)?;
            }
            if targets > count {
                let from = draft.free;
                draft.reserve(targets - count)?;
                draft.load_nil(from, (targets - count) as u8)?;
            }
            Ok(())
        })
    }

    fn return_statement(&mut self) -> Result<()> {
        self.advance()?;
        let (mut first, mut count) = (0, 0);
        if !self.is_block_end() && self.token() != Token::Char(b';') {
            let (mut exp, expressions) = self.list()?;
            (first, count) = self.generate(|draft| {
                let base = draft.active.len() as u8;
                if matches!(exp.form, Form::Call(_) | Form::Vararg(_)) {
                    draft.set_results(&mut exp, 0)?;
                    if let Form::Call(at) = exp.form
                        && expressions == 1
                    {
                        draft.code[at].op = Op::TailCall;
                    }
                    return Ok((base, RK));
                }
                if expressions == 1 {
                    return Ok((draft.place_anywhere(&mut exp)?, 1));
                }
                draft.place_in_next(&mut exp)?;
                Ok((base, expressions as u32))
            })?;
        }
        let encoded = if count == RK { 0 } else { count + 1 };
        self.generate(|draft| draft.emit(Op::Return, first, encoded, 0))?;
        Ok(())
    }

    fn expression_statement(&mut self) -> Result<()> {
        let exp = self.primary()?;
        if let Form::Call(at) = exp.form {
            self.draft().code[at].c = 1;
            return Ok(());
        }
        self.assignment(&mut vec![exp])
    }

    fn assignment(&mut self, targets: &mut Vec<Exp>) -> Result<()> {
        loop {
            let last = targets[targets.len() - 1];
            let is_variable = matches!(
                last.form,
                Form::Local(_) | Form::Upvalue(_) | Form::Global(_) | Form::Indexed(..)
            );
            if !is_variable {
                return Err(self.lexer.error_near(b"syntax error"));
            }
            if !self.is_next(Token::Char(b','))? {
                break;
            }
            let target = self.primary()?;
            if let Form::Local(register) = target.form {
                self.keep_from_conflict(targets, register)?;
            }
            if targets.len() + self.depth > crate::limits::SYNTAX_DEPTH_MAX {
                let limit = crate::limits::SYNTAX_DEPTH_MAX - self.depth;
                return Err(self.limit_error(limit, "variables in assignment"));
            }
            targets.push(target);
        }
        self.expect_char(b'=')?;
        let (mut exp, count) = self.list()?;
        let mut is_stored = false;
        if count == targets.len() {
            let last = targets.pop();
            self.generate(|draft| {
                draft.set_one_result(&mut exp);
                last.map_or(Ok(()), |last| draft.store(&last, &mut exp))
            })?;
            is_stored = true;
        }
        if !is_stored {
            self.adjust(targets.len(), count, &mut exp)?;
            let surplus = count.saturating_sub(targets.len()) as u8;
            self.draft().free -= surplus;
        }
        while let Some(target) = targets.pop() {
            self.generate(|draft| {
                let mut value = Exp::new(Form::Register(draft.free - 1));
                draft.store(&target, &mut value)
            })?;
        }
        Ok(())
    }

    /// Copies a local variable that is assigned while an earlier target uses it as table or key.
    fn keep_from_conflict(&mut self, targets: &mut [Exp], register: u8) -> Result<()> {
        let copy = self.draft().free;
        let mut has_conflict = false;
        for target in targets {
            if let Form::Indexed(table, key) = &mut target.form {
                if *table == register {
                    has_conflict = true;
                    *table = copy;
                }
                if *key == u32::from(register) {
                    has_conflict = true;
                    *key = u32::from(copy);
                }
            }
        }
        if has_conflict {
            self.generate(|draft| {
                draft.emit(Op::Move, copy, u32::from(register), 0)?;
                draft.reserve(1)
            })?;
        }
        Ok(())
    }
}

impl super::Draft {
    /// Gives the instruction of a loop's end the line of its begin.
    fn fix_line_of(&mut self, at: i32, line: u32) -> i32 {
        self.fix_line(line);
        at
    }
}
