//! Tokens of a source, and the errors that name them.

use crate::heap::Heap;
use crate::value::Str;

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token {
    /// An operator or a bracket of one character.
    Char(u8),
    Word(Word),
    Concat,
    Dots,
    Eq,
    Ge,
    Le,
    Ne,
    Number(f64),
    Name(Str),
    Text(Str),
    End,
}

macro_rules! words {
    ($($variant:ident $text:literal),* $(,)?) => {
        /// A reserved word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Word { $($variant),* }

        impl Word {
            fn of(name: &[u8]) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            pub(super) fn text(self) -> &'static [u8] {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

words! {
    And b"and", Break b"break", Do b"do", Else b"else", ElseIf b"elseif", End b"end",
    False b"false", For b"for", Function b"function", If b"if", In b"in", Local b"local",
    Nil b"nil", Not b"not", Or b"or", Repeat b"repeat", Return b"return", Then b"then",
    True b"true", Until b"until", While b"while",
}

/// A source that cannot be compiled: the message with chunk and line.
pub(crate) struct SyntaxError(pub(crate) Vec<u8>);

/// Reader of tokens.
pub(super) struct Lexer<'s> {
    source: &'s [u8],
    at: usize,
    /// Begin of the current token.
    start: usize,
    pub(super) line: u32,
    /// Line of the token before the current one.
    pub(super) last_line: u32,
    pub(super) token: Token,
    ahead: Option<(Token, usize, usize)>,
    chunk: Vec<u8>,
    token_end: usize,
    /// The last text, as errors show it.
    shown_text: Vec<u8>,
}

/// Text of a token without a value of its own.
pub(super) fn token_text(token: Token) -> Vec<u8> {
    match token {
        Token::Char(byte) if byte.is_ascii_control() => format!("char({byte})").into_bytes(),
        Token::Char(byte) => vec![byte],
        Token::Word(word) => word.text().to_vec(),
        Token::Concat => b"..".to_vec(),
        Token::Dots => b"...".to_vec(),
        Token::Eq => b"==".to_vec(),
        Token::Ge => b">=".to_vec(),
        Token::Le => b"<=".to_vec(),
        Token::Ne => b"~=".to_vec(),
        Token::Number(_) => b"<number>".to_vec(),
        Token::Name(_) => b"<name>".to_vec(),
        Token::Text(_) => b"<string>".to_vec(),
        Token::End => b"<eof>".to_vec(),
    }
}

fn is_newline(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s [u8], chunk: &[u8]) -> Self {
        Self {
            source,
            at: 0,
            start: 0,
            line: 1,
            last_line: 1,
            token: Token::End,
            ahead: None,
            chunk: chunk.to_vec(),
            token_end: 0,
            shown_text: Vec::new(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn is_next(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    /// An error with chunk and line, without a token.
    pub(super) fn error(&self, text: &[u8]) -> SyntaxError {
        let mut message = self.chunk.clone();
        message.extend_from_slice(format!(":{}: ", self.line).as_bytes());
        message.extend_from_slice(text);
        SyntaxError(message)
    }

    fn error_near_text(&self, text: &[u8], near: &[u8]) -> SyntaxError {
        let mut message = self.error(text);
        message.0.extend_from_slice(b" near '");
        // C strings end at the first zero byte.
        let end = near.iter().position(|byte| *byte == 0).unwrap_or(near.len());
        message.0.extend_from_slice(&near[..end]);
        message.0.push(b'\'');
        message
    }

    /// An error near the current token.
    pub(super) fn error_near(&self, text: &[u8]) -> SyntaxError {
        let near = match self.token {
            Token::Text(_) => self.shown_text.clone(),
            Token::Name(_) | Token::Number(_) => {
                self.source[self.start..self.token_end.max(self.start)].to_vec()
            }
            // The number of this token is C's false.
            Token::Char(0) => return self.error(text),
            token => token_text(token),
        };
        self.error_near_text(text, &near)
    }

    fn raw_error(&self, text: &[u8]) -> SyntaxError {
        self.error_near_text(text, &self.source[self.start..self.at])
    }

    /// Goes to the next token.
    pub(super) fn advance(&mut self, heap: &mut Heap) -> Result<(), SyntaxError> {
        self.last_line = self.line;
        if let Some((token, start, end)) = self.ahead.take() {
            (self.token, self.start, self.token_end) = (token, start, end);
            return Ok(());
        }
        self.token = self.scan(heap)?;
        self.token_end = self.at;
        Ok(())
    }

    /// The token behind the current one.
    pub(super) fn look_ahead(&mut self, heap: &mut Heap) -> Result<Token, SyntaxError> {
        let (start, end) = (self.start, self.token_end);
        let token = self.scan(heap)?;
        self.ahead = Some((token, self.start, self.at));
        (self.start, self.token_end) = (start, end);
        Ok(token)
    }

    fn newline(&mut self) {
        let first = self.source[self.at];
        self.at += 1;
        if let Some(second) = self.peek()
            && is_newline(second)
            && second != first
        {
            self.at += 1;
        }
        self.line += 1;
    }

    fn scan(&mut self, heap: &mut Heap) -> Result<Token, SyntaxError> {
        loop {
            self.start = self.at;
            let Some(byte) = self.peek() else { return Ok(Token::End) };
            match byte {
                b'\n' | b'\r' => {
                    self.newline();
                    continue;
                }
                b' ' | b'\t' | 0x0b | 0x0c => {
                    self.at += 1;
                    continue;
                }
                b'-' => {
                    self.at += 1;
                    if !self.is_next(b'-') {
                        return Ok(Token::Char(b'-'));
                    }
                    self.skip_comment()?;
                    continue;
                }
                b'"' | b'\'' => return self.quoted(byte, heap),
                b'0'..=b'9' => return self.number(),
                b'[' => {
                    return match self.long_bracket() {
                        Ok(level) => {
                            let range = self.long_text(level, false)?;
                            self.text(&range, heap)
                        }
                        Err(false) => Ok(Token::Char(b'[')),
                        Err(true) => Err(self.raw_error(b"invalid long string delimiter")),
                    };
                }
                b'A'..=b'Z' | b'a'..=b'z' | b'_' => return self.name(heap),
                _ => return self.operator(byte),
            }
        }
    }

    fn operator(&mut self, byte: u8) -> Result<Token, SyntaxError> {
        self.at += 1;
        Ok(match byte {
            b'=' if self.is_next(b'=') => Token::Eq,
            b'<' if self.is_next(b'=') => Token::Le,
            b'>' if self.is_next(b'=') => Token::Ge,
            b'~' if self.is_next(b'=') => Token::Ne,
            b'.' if self.is_next(b'.') => {
                if self.is_next(b'.') {
                    Token::Dots
                } else {
                    Token::Concat
                }
            }
            b'.' if self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                self.at -= 1;
                return self.number();
            }
            _ => Token::Char(byte),
        })
    }

    fn skip_comment(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'[')
            && let Ok(level) = self.long_bracket()
        {
            self.long_text(level, true)?;
            return Ok(());
        }
        while self.peek().is_some_and(|byte| !is_newline(byte)) {
            self.at += 1;
        }
        Ok(())
    }

    /// Level of an opening long bracket at the cursor, which moves behind it. Otherwise the cursor
    /// is behind the first bracket and its signs, and the answer tells if there were signs.
    fn long_bracket(&mut self) -> Result<usize, bool> {
        self.at += 1;
        let begin = self.at;
        while self.is_next(b'=') {}
        let level = self.at - begin;
        if self.is_next(b'[') {
            return Ok(level);
        }
        Err(level > 0)
    }

    fn long_text(&mut self, level: usize, is_comment: bool) -> Result<Vec<u8>, SyntaxError> {
        let mut text = Vec::new();
        if self.peek().is_some_and(is_newline) {
            self.newline();
        }
        loop {
            match self.peek() {
                None => {
                    let what = if is_comment { "comment" } else { "string" };
                    let text = format!("unfinished long {what}");
                    return Err(self.error_near_text(text.as_bytes(), b"<eof>"));
                }
                Some(b']') => {
                    let begin = self.at;
                    self.at += 1;
                    while self.is_next(b'=') {}
                    if self.at - begin - 1 == level && self.is_next(b']') {
                        return Ok(text);
                    }
                    text.extend_from_slice(&self.source[begin..self.at]);
                }
                Some(byte) if is_newline(byte) => {
                    self.newline();
                    text.push(b'\n');
                }
                Some(byte) => {
                    self.at += 1;
                    text.push(byte);
                }
            }
        }
    }

    /// A text as errors show it: between its delimiters, escapes replaced.
    fn shown(&self, text: &[u8]) -> Vec<u8> {
        let begin = &self.source[self.start..];
        let level = begin[1..].iter().take_while(|byte| **byte == b'=').count();
        if begin[0] == b'[' {
            let equals = &begin[1..=level];
            return [b"[", equals, b"[", text, b"]", equals, b"]"].concat();
        }
        [&begin[..1], text, &begin[..1]].concat()
    }

    fn text(&mut self, bytes: &[u8], heap: &mut Heap) -> Result<Token, SyntaxError> {
        self.shown_text = self.shown(bytes);
        heap.string(bytes).map(Token::Text).map_err(|_| SyntaxError(b"not enough memory".to_vec()))
    }

    fn quoted(&mut self, quote: u8, heap: &mut Heap) -> Result<Token, SyntaxError> {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            let Some(byte) = self.peek() else {
                return Err(self.error_near_text(b"unfinished string", b"<eof>"));
            };
            match byte {
                b'\n' | b'\r' => {
                    text.insert(0, quote);
                    return Err(self.error_near_text(b"unfinished string", &text));
                }
                b'\\' => {
                    self.at += 1;
                    self.escape(quote, &mut text)?;
                }
                _ => {
                    self.at += 1;
                    if byte == quote {
                        return self.text(&text, heap);
                    }
                    text.push(byte);
                }
            }
        }
    }

    fn escape(&mut self, quote: u8, text: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let Some(byte) = self.peek() else { return Ok(()) };
        let plain = match byte {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\n' | b'\r' => {
                self.newline();
                text.push(b'\n');
                return Ok(());
            }
            b'0'..=b'9' => {
                let mut code = 0_u32;
                for _ in 0..3 {
                    let Some(digit) = self.peek().filter(u8::is_ascii_digit) else { break };
                    code = code * 10 + u32::from(digit - b'0');
                    self.at += 1;
                }
                let Ok(code) = u8::try_from(code) else {
                    text.insert(0, quote);
                    return Err(self.error_near_text(b"escape sequence too large", text));
                };
                text.push(code);
                return Ok(());
            }
            other => other,
        };
        self.at += 1;
        text.push(plain);
        Ok(())
    }

    fn number(&mut self) -> Result<Token, SyntaxError> {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit() || byte == b'.') {
            self.at += 1;
        }
        if (self.is_next(b'e') || self.is_next(b'E')) && !self.is_next(b'+') {
            self.is_next(b'-');
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.at += 1;
        }
        match crate::number::parse(&self.source[self.start..self.at]) {
            Some(number) => Ok(Token::Number(number)),
            None => Err(self.raw_error(b"malformed number")),
        }
    }

    fn name(&mut self, heap: &mut Heap) -> Result<Token, SyntaxError> {
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.at += 1;
        }
        let name = &self.source[self.start..self.at];
        if let Some(word) = Word::of(name) {
            return Ok(Token::Word(word));
        }
        match heap.string(name) {
            Ok(name) => Ok(Token::Name(name)),
            Err(_) => Err(SyntaxError(b"not enough memory".to_vec())),
        }
    }
}
