//! Compiler: one pass from source to instructions, as Lua 5.1 does it, so that registers, names in
//! error texts and the order of errors are the same.

mod code;
mod expression;
mod lexer;
mod statement;

use std::cell::Cell;
use std::rc::Rc;

use crate::heap::Heap;
use crate::limits::{LOCALS_MAX, SYNTAX_DEPTH_MAX, UPVALUES_MAX};
use crate::program::{LocalName, Op, Proto, UpvalueSource};
use crate::value::Str;
use code::{Block, Draft, Excess, Exp, Form, NO_JUMP};
use lexer::{Lexer, Token, Word, token_text};

pub(crate) use lexer::SyntaxError;

type Result<T> = std::result::Result<T, SyntaxError>;

/// Name of a chunk in error texts: of what runs, and of what does not compile.
#[derive(Clone, Copy)]
pub(crate) struct ChunkNames<'n> {
    pub(crate) running: &'n [u8],
    pub(crate) compiling: &'n [u8],
}

/// Compiles a chunk.
pub(crate) fn compile(heap: &mut Heap, source: &[u8], names: ChunkNames<'_>) -> Result<Rc<Proto>> {
    let mut parser = Parser {
        lexer: Lexer::new(source, names.compiling),
        heap,
        drafts: Vec::new(),
        depth: 0,
        chunk: Rc::from(names.running),
    };
    parser.drafts.push(Draft::new(0));
    parser.draft().is_vararg = true;
    parser.advance()?;
    parser.open_block(false);
    parser.chunk()?;
    parser.expect(Token::End)?;
    parser.close_function()
}

struct Parser<'s> {
    lexer: Lexer<'s>,
    heap: &'s mut Heap,
    drafts: Vec<Draft>,
    depth: usize,
    chunk: Rc<[u8]>,
}

impl Parser<'_> {
    fn draft(&mut self) -> &mut Draft {
        self.drafts.last_mut().expect("a function is being compiled")
    }

    fn advance(&mut self) -> Result<()> {
        self.lexer.advance(self.heap)
    }

    fn token(&self) -> Token {
        self.lexer.token
    }

    /// Runs a step of code generation; its failure is an error at the current token.
    fn generate<T>(
        &mut self,
        step: impl FnOnce(&mut Draft) -> std::result::Result<T, Excess>,
    ) -> Result<T> {
        let line = self.lexer.last_line;
        let draft = self.draft();
        draft.line_now = line;
        step(draft).map_err(|text| self.lexer.error_near(text))
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > SYNTAX_DEPTH_MAX {
            return Err(self.lexer.error(b"chunk has too many syntax levels"));
        }
        Ok(())
    }

    fn is_next(&mut self, token: Token) -> Result<bool> {
        if self.token() != token {
            return Ok(false);
        }
        self.advance()?;
        Ok(true)
    }

    fn check(&self, token: Token) -> Result<()> {
        if self.token() == token {
            return Ok(());
        }
        Err(self.expected(token))
    }

    fn expected(&self, token: Token) -> SyntaxError {
        let text = [b"'".as_slice(), &token_text(token), b"' expected"].concat();
        self.lexer.error_near(&text)
    }

    fn expect(&mut self, token: Token) -> Result<()> {
        self.check(token)?;
        self.advance()
    }

    fn expect_char(&mut self, byte: u8) -> Result<()> {
        self.expect(Token::Char(byte))
    }

    /// Expects the end of what began with another token in some line.
    fn expect_match(&mut self, what: Token, opened: Token, line: u32) -> Result<()> {
        if self.token() == what {
            return self.advance();
        }
        if line == self.lexer.line {
            return Err(self.expected(what));
        }
        let text = [
            b"'".as_slice(),
            &token_text(what),
            b"' expected (to close '",
            &token_text(opened),
            format!("' at line {line})").as_bytes(),
        ]
        .concat();
        Err(self.lexer.error_near(&text))
    }

    fn name(&mut self) -> Result<Str> {
        let Token::Name(name) = self.token() else {
            return Err(self.lexer.error_near(b"'<name>' expected"));
        };
        self.advance()?;
        Ok(name)
    }

    fn text(&mut self, text: &[u8]) -> Result<Str> {
        self.heap.string(text).map_err(|_| SyntaxError(b"not enough memory".to_vec()))
    }

    fn string_exp(&mut self, string: Str) -> Result<Exp> {
        let index = self.generate(|draft| draft.string_constant(string))?;
        Ok(Exp::new(Form::Constant(index)))
    }

    fn limit_error(&self, limit: usize, what: &str) -> SyntaxError {
        let line = self.drafts.last().map_or(0, |draft| draft.line);
        let text = if line == 0 {
            format!("main function has more than {limit} {what}")
        } else {
            format!("function at line {line} has more than {limit} {what}")
        };
        self.lexer.error(text.as_bytes())
    }

    // Variables.

    /// Declares a variable that `activate` will bring into scope.
    fn declare(&mut self, name: Str, waiting: usize) -> Result<usize> {
        let draft = self.draft();
        if draft.active.len() + waiting + 1 > LOCALS_MAX {
            return Err(self.limit_error(LOCALS_MAX, "local variables"));
        }
        draft.locals.push(LocalName { name, start: 0, end: usize::MAX });
        Ok(draft.locals.len() - 1)
    }

    fn activate(&mut self, locals: &[usize]) {
        let draft = self.draft();
        let start = draft.code.len();
        for local in locals {
            draft.locals[*local].start = start;
            draft.active.push(*local);
        }
    }

    fn remove_locals(&mut self, count: usize) {
        let draft = self.draft();
        let end = draft.code.len();
        while draft.active.len() > count {
            if let Some(local) = draft.active.pop() {
                draft.locals[local].end = end;
            }
        }
    }

    fn upvalue(&mut self, level: usize, name: Str, source: UpvalueSource) -> Result<u8> {
        let upvalues = &self.drafts[level].upvalues;
        let is_same = |known: &UpvalueSource| {
            known.is_local == source.is_local && known.index == source.index
        };
        if let Some(index) = upvalues.iter().position(|(_, known)| is_same(known)) {
            return Ok(index as u8);
        }
        if upvalues.len() >= UPVALUES_MAX {
            return Err(self.limit_error(UPVALUES_MAX, "upvalues"));
        }
        self.drafts[level].upvalues.push((name, source));
        Ok((self.drafts[level].upvalues.len() - 1) as u8)
    }

    /// Finds a variable in a function; `None` if it is global.
    fn find(&mut self, level: usize, name: Str, is_base: bool) -> Result<Option<Form>> {
        let draft = &mut self.drafts[level];
        let is_it = |local: &usize| draft.locals[*local].name == name;
        if let Some(register) = draft.active.iter().rposition(is_it) {
            if !is_base {
                // The innermost block that holds the variable has to close it.
                let block = draft.blocks.iter_mut().rev();
                if let Some(block) = block.into_iter().find(|block| block.first_local <= register) {
                    block.has_upvalue = true;
                }
            }
            return Ok(Some(Form::Local(register as u8)));
        }
        if level == 0 {
            return Ok(None);
        }
        let source = match self.find(level - 1, name, false)? {
            Some(Form::Local(index)) => UpvalueSource { is_local: true, index },
            Some(Form::Upvalue(index)) => UpvalueSource { is_local: false, index },
            _ => return Ok(None),
        };
        Ok(Some(Form::Upvalue(self.upvalue(level, name, source)?)))
    }

    fn variable(&mut self, name: Str) -> Result<Exp> {
        let level = self.drafts.len() - 1;
        match self.find(level, name, true)? {
            Some(form) => Ok(Exp::new(form)),
            None => {
                let index = self.generate(|draft| draft.string_constant(name))?;
                Ok(Exp::new(Form::Global(index)))
            }
        }
    }

    // Blocks and functions.

    fn open_block(&mut self, is_loop: bool) {
        let draft = self.draft();
        let first_local = draft.active.len();
        draft.blocks.push(Block { breaks: NO_JUMP, first_local, has_upvalue: false, is_loop });
    }

    fn close_block(&mut self) -> Result<()> {
        let Some(block) = self.draft().blocks.pop() else { return Ok(()) };
        self.remove_locals(block.first_local);
        self.generate(|draft| {
            if block.has_upvalue {
                draft.emit(Op::Close, block.first_local as u8, 0, 0)?;
            }
            draft.free = draft.active.len() as u8;
            draft.patch_here(block.breaks)
        })
    }

    /// Ends the innermost function.
    fn close_function(&mut self) -> Result<Rc<Proto>> {
        self.remove_locals(0);
        self.generate(|draft| {
            draft.label();
            draft.emit(Op::Return, 0, 1, 0)
        })?;
        let draft = self.drafts.pop().expect("a function is being compiled");
        Ok(Rc::new(Proto {
            code: draft.code,
            constants: draft.constants,
            protos: draft.protos,
            lines: draft.lines,
            locals: draft.locals,
            upvalue_names: draft.upvalues.iter().map(|(name, _)| *name).collect(),
            upvalues: draft.upvalues.iter().map(|(_, source)| *source).collect(),
            chunk: Rc::clone(&self.chunk),
            parameter_count: draft.parameter_count,
            is_vararg: draft.is_vararg,
            needs_arg: draft.needs_arg,
            register_count: draft.register_count,
            counted_by: Cell::new(0),
        }))
    }

    fn is_block_end(&self) -> bool {
        matches!(
            self.token(),
            Token::End | Token::Word(Word::Else | Word::ElseIf | Word::End | Word::Until)
        )
    }
}
