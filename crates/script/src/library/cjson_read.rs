//! `cjson.decode`.

use super::cjson::check_single;
use crate::host::Host;
use crate::limits::JSON_DEPTH_MAX;
use crate::value::Value;
use crate::vm::{Args, Ret, Stop, Vm};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// The text is in the reader.
    Text,
    Number(f64),
    Bool(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Bool(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Error(text) => text,
        }
    }
}

struct Reader {
    text: Vec<u8>,
    /// Text of the last token, if it was one.
    token_text: Vec<u8>,
    at: usize,
    /// Begin of the last token, or the place of the error in it.
    index: usize,
    depth: usize,
    depth_max: usize,
    allows_invalid: bool,
}

pub(super) fn decode(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    check_single(vm, args)?;
    let text = vm.check_text(args, 0)?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(vm.fail("JSON parser does not support UTF-16 or UTF-32"));
    }
    let settings = &vm.settings.json;
    // A token's text is shorter.
    let token_text = vm.buffer(text.len())?;
    let mut reader = Reader {
        text,
        token_text,
        at: 0,
        index: 0,
        depth: 0,
        depth_max: settings.decode_depth_max.min(JSON_DEPTH_MAX),
        allows_invalid: settings.decode_invalid,
    };
    let first = reader.next();
    let value = reader.value(vm, host, first)?;
    let last = reader.next();
    if last != Token::End {
        return Err(reader.unexpected(vm, "the end", &last));
    }
    Ok(Ret::One(value))
}

impl Reader {
    fn unexpected(&self, vm: &mut Vm, expected: &str, found: &Token) -> Stop {
        let (found, place) = (found.name(), self.index + 1);
        vm.fail(format!("Expected {expected} but found {found} at character {place}"))
    }

    fn enter(&mut self, vm: &mut Vm) -> Result<(), Stop> {
        self.depth += 1;
        if self.depth > self.depth_max {
            let (depth, at) = (self.depth, self.at);
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(vm.fail(text));
        }
        Ok(())
    }

    fn value(&mut self, vm: &mut Vm, host: &mut dyn Host, token: Token) -> Result<Value, Stop> {
        vm.work(host, 1)?;
        match token {
            Token::Text => vm.string(&self.token_text),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Bool(flag) => Ok(Value::Bool(flag)),
            Token::Null => Ok(Value::Null),
            Token::ObjectBegin => self.object(vm, host),
            Token::ArrayBegin => self.array(vm, host),
            other => Err(self.unexpected(vm, "value", &other)),
        }
    }

    fn object(&mut self, vm: &mut Vm, host: &mut dyn Host) -> Result<Value, Stop> {
        self.enter(vm)?;
        let table = vm.table(0, 0)?;
        let mut token = self.next();
        if token != Token::ObjectEnd {
            loop {
                if token != Token::Text {
                    return Err(self.unexpected(vm, "object key string", &token));
                }
                let key = vm.string(&self.token_text)?;
                token = self.next();
                if token != Token::Colon {
                    return Err(self.unexpected(vm, "colon", &token));
                }
                token = self.next();
                let value = self.value(vm, host, token)?;
                vm.raw_set(table, key, value)?;
                match self.next() {
                    Token::ObjectEnd => break,
                    Token::Comma => token = self.next(),
                    other => {
                        return Err(self.unexpected(vm, "comma or object end", &other));
                    }
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self, vm: &mut Vm, host: &mut dyn Host) -> Result<Value, Stop> {
        self.enter(vm)?;
        let table = vm.table(0, 0)?;
        let mut token = self.next();
        let mut index = 1.0;
        if token != Token::ArrayEnd {
            loop {
                let value = self.value(vm, host, token)?;
                vm.raw_set(table, Value::Number(index), value)?;
                index += 1.0;
                match self.next() {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.next(),
                    other => return Err(self.unexpected(vm, "comma or array end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn error(&mut self, text: &'static str) -> Token {
        self.index = self.at;
        Token::Error(text)
    }

    fn next(&mut self) -> Token {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.index = self.at;
        let byte = self.byte(self.at);
        let simple = match byte {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                if !self.allows_invalid && self.is_invalid_number() {
                    return self.error("invalid number");
                }
                return self.number();
            }
            _ => return self.word(),
        };
        self.at += 1;
        simple
    }

    fn word(&mut self) -> Token {
        let words: [(&[u8], Token); 3] =
            [(b"true", Token::Bool(true)), (b"false", Token::Bool(false)), (b"null", Token::Null)];
        for (word, token) in words {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        if self.allows_invalid && self.is_invalid_number() {
            return self.number();
        }
        self.error("invalid token")
    }

    fn number(&mut self) -> Token {
        match crate::number::parse_prefix(&self.text[self.at..]) {
            Some((number, length)) => {
                self.at += length;
                Token::Number(number)
            }
            None => self.error("invalid number"),
        }
    }

    /// True for what is a number to C but not in JSON.
    fn is_invalid_number(&self) -> bool {
        let mut at = self.at;
        if self.byte(at) == b'+' {
            return true;
        }
        at += usize::from(self.byte(at) == b'-');
        if self.byte(at) == b'0' {
            let second = self.byte(at + 1);
            return second | 0x20 == b'x' || second.is_ascii_digit();
        }
        if self.byte(at) <= b'9' {
            return false;
        }
        let rest = self.text.get(at..at + 3).unwrap_or_default();
        rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"nan")
    }

    fn string(&mut self) -> Token {
        let start = self.at;
        self.at += 1;
        self.token_text.clear();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0);
            let plain = rest.iter().position(is_special).unwrap_or(rest.len());
            self.token_text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    self.index = start;
                    return Token::Text;
                }
                0 => return self.error("unexpected end of string"),
                _ => {
                    let plain = match self.byte(self.at + 1) {
                        b'u' => {
                            if !self.unicode() {
                                return self.error("invalid unicode escape code");
                            }
                            continue;
                        }
                        b'b' => 8,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 12,
                        b'r' => b'\r',
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        _ => return self.error("invalid escape code"),
                    };
                    self.token_text.push(plain);
                    self.at += 2;
                }
            }
        }
    }

    fn hexadecimal(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits
            .iter()
            .try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
    }

    /// Appends the character of a `\u`; a pair of them above U+FFFF.
    fn unicode(&mut self) -> bool {
        let Some(mut code) = self.hexadecimal(self.at + 2) else { return false };
        let mut length = 6;
        if code & 0xf800 == 0xd800 {
            if code & 0x400 != 0
                || self.byte(self.at + 6) != b'\\'
                || self.byte(self.at + 7) != b'u'
            {
                return false;
            }
            match self.hexadecimal(self.at + 8) {
                Some(low) if low & 0xfc00 == 0xdc00 => {
                    code = ((code & 0x3ff) << 10 | low & 0x3ff) + 0x1_0000;
                    length = 12;
                }
                _ => return false,
            }
        }
        let Some(character) = char::from_u32(code) else { return false };
        self.token_text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += length;
        true
    }
}
