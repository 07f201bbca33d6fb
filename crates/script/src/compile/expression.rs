//! Expressions: operators by precedence, calls, constructors, functions.

use super::code::{Binary, Exp, Form};
use super::lexer::{Token, Word};
use super::{Draft, Parser, Result};
use crate::limits::{CONSTANTS_MAX, ITEMS_PER_FLUSH};
use crate::program::{Op, RK};
use crate::value::Str;

/// Priority of prefix operators.
const PREFIX_PRIORITY: u8 = 8;

/// Operator of a token with the priorities on its left and on its right.
fn binary(token: Token) -> Option<(Binary, u8, u8)> {
    use Binary::{Arithmetic, Compare};
    let compare = |op, expected, is_swapped| Compare { op, expected, is_swapped };
    Some(match token {
        Token::Char(b'+') => (Arithmetic(Op::Add), 6, 6),
        Token::Char(b'-') => (Arithmetic(Op::Sub), 6, 6),
        Token::Char(b'*') => (Arithmetic(Op::Mul), 7, 7),
        Token::Char(b'/') => (Arithmetic(Op::Div), 7, 7),
        Token::Char(b'%') => (Arithmetic(Op::Mod), 7, 7),
        Token::Char(b'^') => (Arithmetic(Op::Pow), 10, 9),
        Token::Concat => (Binary::Concat, 5, 4),
        Token::Ne => (compare(Op::Eq, false, false), 3, 3),
        Token::Eq => (compare(Op::Eq, true, false), 3, 3),
        Token::Char(b'<') => (compare(Op::Lt, true, false), 3, 3),
        Token::Le => (compare(Op::Le, true, false), 3, 3),
        Token::Char(b'>') => (compare(Op::Lt, true, true), 3, 3),
        Token::Ge => (compare(Op::Le, true, true), 3, 3),
        Token::Word(Word::And) => (Binary::And, 2, 2),
        Token::Word(Word::Or) => (Binary::Or, 1, 1),
        _ => return None,
    })
}

/// A table constructor on its way.
struct Constructor {
    table: u8,
    item: Option<Exp>,
    array_count: u32,
    hash_count: u32,
    to_store: u32,
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Exp> {
        self.subexpression(0)
    }

    fn subexpression(&mut self, limit: u8) -> Result<Exp> {
        self.enter()?;
        let prefix = match self.token() {
            Token::Word(Word::Not) => Some(Op::Not),
            Token::Char(b'-') => Some(Op::Unm),
            Token::Char(b'#') => Some(Op::Len),
            _ => None,
        };
        let mut left = if let Some(op) = prefix {
            self.advance()?;
            let mut operand = self.subexpression(PREFIX_PRIORITY)?;
            let line = self.lexer.last_line;
            self.generate(|draft| draft.prefix(op, &mut operand, line))?;
            operand
        } else {
            self.simple()?
        };
        while let Some((op, priority, right_priority)) = binary(self.token()) {
            if priority <= limit {
                break;
            }
            self.advance()?;
            self.generate(|draft| draft.infix(op, &mut left))?;
            let mut right = self.subexpression(right_priority)?;
            let line = self.lexer.last_line;
            self.generate(|draft| draft.postfix(op, &mut left, &mut right, line))?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn simple(&mut self) -> Result<Exp> {
        let exp = match self.token() {
            Token::Number(number) => Exp::new(Form::Number(number)),
            Token::Text(text) => self.string_exp(text)?,
            Token::Word(Word::Nil) => Exp::new(Form::Nil),
            Token::Word(Word::True) => Exp::new(Form::True),
            Token::Word(Word::False) => Exp::new(Form::False),
            Token::Dots => {
                if !self.draft().is_vararg {
                    let text = b"cannot use '...' outside a vararg function";
                    return Err(self.lexer.error_near(text));
                }
                self.draft().needs_arg = false;
                let at = self.generate(|draft| draft.emit(Op::Vararg, 0, 1, 0))?;
                Exp::new(Form::Vararg(at))
            }
            Token::Char(b'{') => return self.constructor(),
            Token::Word(Word::Function) => {
                self.advance()?;
                let line = self.lexer.line;
                return self.body(false, line);
            }
            _ => return self.primary(),
        };
        self.advance()?;
        Ok(exp)
    }

    fn prefix_expression(&mut self) -> Result<Exp> {
        match self.token() {
            Token::Char(b'(') => {
                let line = self.lexer.line;
                self.advance()?;
                let mut exp = self.expression()?;
                self.expect_match(Token::Char(b')'), Token::Char(b'('), line)?;
                self.generate(|draft| draft.discharge(&mut exp))?;
                Ok(exp)
            }
            Token::Name(name) => {
                self.advance()?;
                self.variable(name)
            }
            _ => Err(self.lexer.error_near(b"unexpected symbol")),
        }
    }

    pub(super) fn primary(&mut self) -> Result<Exp> {
        let mut exp = self.prefix_expression()?;
        loop {
            match self.token() {
                Token::Char(b'.') => self.field(&mut exp)?,
                Token::Char(b'[') => {
                    self.generate(|draft| draft.place_anywhere(&mut exp))?;
                    let mut key = self.bracketed_key()?;
                    self.generate(|draft| draft.index(&mut exp, &mut key))?;
                }
                Token::Char(b':') => {
                    self.advance()?;
                    let name = self.name()?;
                    let mut key = self.string_exp(name)?;
                    self.generate(|draft| draft.method(&mut exp, &mut key))?;
                    self.arguments(&mut exp)?;
                }
                Token::Char(b'(' | b'{') | Token::Text(_) => {
                    self.generate(|draft| draft.place_in_next(&mut exp))?;
                    self.arguments(&mut exp)?;
                }
                _ => return Ok(exp),
            }
        }
    }

    /// The member behind a dot or a colon.
    pub(super) fn field(&mut self, exp: &mut Exp) -> Result<()> {
        self.generate(|draft| draft.place_anywhere(exp))?;
        self.advance()?;
        let name = self.name()?;
        let mut key = self.string_exp(name)?;
        self.generate(|draft| draft.index(exp, &mut key))
    }

    fn bracketed_key(&mut self) -> Result<Exp> {
        self.advance()?;
        let mut key = self.expression()?;
        self.generate(|draft| draft.settle_value(&mut key))?;
        self.expect_char(b']')?;
        Ok(key)
    }

    fn arguments(&mut self, function: &mut Exp) -> Result<()> {
        let line = self.lexer.line;
        let mut last = Exp::new(Form::Void);
        match self.token() {
            Token::Char(b'(') => {
                if line != self.lexer.last_line {
                    let text = b"ambiguous syntax (function call x new statement)";
                    return Err(self.lexer.error_near(text));
                }
                self.advance()?;
                if self.token() != Token::Char(b')') {
                    last = self.list()?.0;
                    self.generate(|draft| draft.set_results(&mut last, 0))?;
                }
                self.expect_match(Token::Char(b')'), Token::Char(b'('), line)?;
            }
            Token::Char(b'{') => last = self.constructor()?,
            Token::Text(text) => {
                last = self.string_exp(text)?;
                self.advance()?;
            }
            _ => return Err(self.lexer.error_near(b"function arguments expected")),
        }
        let Form::Register(base) = function.form else { return Ok(()) };
        let at = self.generate(|draft| {
            let is_open = matches!(last.form, Form::Call(_) | Form::Vararg(_));
            let count = if is_open {
                0
            } else {
                if last.form != Form::Void {
                    draft.place_in_next(&mut last)?;
                }
                u32::from(draft.free) - u32::from(base)
            };
            let at = draft.emit(Op::Call, base, count, 2)?;
            draft.fix_line(line);
            draft.free = base + 1;
            Ok(at)
        })?;
        *function = Exp::new(Form::Call(at));
        Ok(())
    }

    /// Expressions with commas; the last one is not in a register yet.
    pub(super) fn list(&mut self) -> Result<(Exp, usize)> {
        let mut exp = self.expression()?;
        let mut count = 1;
        while self.is_next(Token::Char(b','))? {
            self.generate(|draft| draft.place_in_next(&mut exp))?;
            exp = self.expression()?;
            count += 1;
        }
        Ok((exp, count))
    }

    fn constructor(&mut self) -> Result<Exp> {
        self.enter()?;
        let line = self.lexer.line;
        let at = self.generate(|draft| draft.emit(Op::NewTable, 0, 0, 0))?;
        let mut table = Exp::new(Form::Open(at));
        self.generate(|draft| draft.place_in_next(&mut table))?;
        let Form::Register(register) = table.form else { return Ok(table) };
        let mut state =
            Constructor { table: register, item: None, array_count: 0, hash_count: 0, to_store: 0 };
        self.expect_char(b'{')?;
        while self.token() != Token::Char(b'}') {
            self.close_item(&mut state)?;
            self.item(&mut state)?;
            if !self.is_next(Token::Char(b','))? && !self.is_next(Token::Char(b';'))? {
                break;
            }
        }
        self.expect_match(Token::Char(b'}'), Token::Char(b'{'), line)?;
        self.last_item(&mut state)?;
        let draft = self.draft();
        draft.code[at].b = rounded(state.array_count);
        draft.code[at].c = rounded(state.hash_count);
        self.depth -= 1;
        Ok(table)
    }

    fn item(&mut self, state: &mut Constructor) -> Result<()> {
        match self.token() {
            Token::Name(name) if self.lexer.look_ahead(self.heap)? == Token::Char(b'=') => {
                let free = self.draft().free;
                self.advance()?;
                let key = self.string_exp(name)?;
                self.member(state, key, free)
            }
            Token::Char(b'[') => {
                let free = self.draft().free;
                let key = self.bracketed_key()?;
                self.member(state, key, free)
            }
            _ => {
                state.item = Some(self.expression()?);
                if state.array_count as usize > CONSTANTS_MAX {
                    return Err(self.limit_error(CONSTANTS_MAX, "items in a constructor"));
                }
                state.array_count += 1;
                state.to_store += 1;
                Ok(())
            }
        }
    }

    /// A member with a key. The registers from `free` on are its own, the one of its key too.
    fn member(&mut self, state: &mut Constructor, mut key: Exp, free: u8) -> Result<()> {
        state.hash_count += 1;
        self.expect_char(b'=')?;
        let key = self.generate(|draft| draft.operand(&mut key))?;
        let mut value = self.expression()?;
        let table = state.table;
        self.generate(|draft| {
            let value = draft.operand(&mut value)?;
            draft.emit(Op::SetTable, table, key, value)?;
            draft.free = free;
            Ok(())
        })
    }

    fn close_item(&mut self, state: &mut Constructor) -> Result<()> {
        let Some(mut item) = state.item.take() else { return Ok(()) };
        self.generate(|draft| {
            draft.place_in_next(&mut item)?;
            if state.to_store == ITEMS_PER_FLUSH {
                store(draft, state, false)?;
            }
            Ok(())
        })
    }

    fn last_item(&mut self, state: &mut Constructor) -> Result<()> {
        if state.to_store == 0 {
            return Ok(());
        }
        let item = state.item.take();
        self.generate(|draft| match item {
            Some(mut item) if matches!(item.form, Form::Call(_) | Form::Vararg(_)) => {
                draft.set_results(&mut item, 0)?;
                store(draft, state, true)?;
                state.array_count -= 1;
                Ok(())
            }
            other => {
                if let Some(mut item) = other {
                    draft.place_in_next(&mut item)?;
                }
                store(draft, state, false)
            }
        })
    }

    /// Parameters and body of a function.
    pub(super) fn body(&mut self, is_method: bool, line: u32) -> Result<Exp> {
        self.enter()?;
        self.drafts.push(Draft::new(line));
        self.open_block(false);
        self.expect_char(b'(')?;
        if is_method {
            let name = self.text(b"self")?;
            let local = self.declare(name, 0)?;
            self.activate(&[local]);
        }
        self.parameters()?;
        self.expect_char(b')')?;
        self.chunk()?;
        self.expect_match(Token::Word(Word::End), Token::Word(Word::Function), line)?;
        let proto = self.close_function()?;
        self.depth -= 1;
        let at = self.generate(|draft| {
            if draft.protos.len() >= CONSTANTS_MAX {
                return Err(b"constant table overflow".as_slice());
            }
            draft.protos.push(proto);
            let index = draft.protos.len() as u32 - 1;
            draft.emit(Op::Closure, 0, index, 0)
        })?;
        Ok(Exp::new(Form::Open(at)))
    }

    fn parameters(&mut self) -> Result<()> {
        let mut locals: Vec<usize> = Vec::new();
        if self.token() != Token::Char(b')') {
            loop {
                match self.token() {
                    Token::Name(name) => {
                        self.advance()?;
                        locals.push(self.declare(name, locals.len())?);
                    }
                    Token::Dots => {
                        self.advance()?;
                        // A function that does not use '...' finds its arguments in 'arg'.
                        let name: Str = self.text(b"arg")?;
                        locals.push(self.declare(name, locals.len())?);
                        let draft = self.draft();
                        draft.is_vararg = true;
                        draft.needs_arg = true;
                        break;
                    }
                    _ => return Err(self.lexer.error_near(b"<name> or '...' expected")),
                }
                if !self.is_next(Token::Char(b','))? {
                    break;
                }
            }
        }
        self.activate(&locals);
        self.generate(|draft| {
            let count = draft.active.len();
            draft.parameter_count = (count - usize::from(draft.is_vararg)) as u8;
            draft.reserve(count)
        })
    }
}

/// Stores the gathered items; the last one may be several.
fn store(
    draft: &mut Draft,
    state: &mut Constructor,
    is_open: bool,
) -> std::result::Result<(), super::Excess> {
    let count = if is_open { 0 } else { state.to_store };
    let batch = (state.array_count - 1) / ITEMS_PER_FLUSH + 1;
    draft.emit(Op::SetList, state.table, count, batch)?;
    draft.free = state.table + 1;
    state.to_store = 0;
    debug_assert!(u32::from(draft.free) < RK);
    Ok(())
}

/// Size of a constructor's part as Lua 5.1 encodes it: up to eight exactly, then in eighths.
fn rounded(count: u32) -> u32 {
    let (mut mantissa, mut exponent) = (count, 0);
    while mantissa >= 16 {
        mantissa = mantissa.div_ceil(2);
        exponent += 1;
    }
    mantissa << exponent
}
