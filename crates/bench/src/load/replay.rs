//! Commands as a server's MONITOR printed them, to be sent again.
//!
//! A line is `1339518083.107412 [0 127.0.0.1:60866] "set" "key" "value"`; proxies put their name
//! before it. What is no such line is left out, and so is what must not or cannot be sent again:
//! commands of scripts (the script itself sends them), commands that set up a connection (ours has
//! its own user, database and protocol; passwords are not in the file), and those with another
//! number of replies than one.

use std::fmt;
use std::sync::Arc;

use tidemill_resp::request::encode;

use crate::limits::REPLAY_NAMES_MAX;
use crate::load::command::{Command, Piece, Role, has_one_reply, split_words};
use crate::load::keys::Pattern;

/// Contents of a file of MONITOR's output.
#[derive(Debug, Default)]
pub struct Recording {
    /// Commands in order, each as its words.
    pub commands: Vec<Vec<Vec<u8>>>,
    /// Lines that were left out.
    pub left_out: usize,
}

impl Recording {
    /// Reads a file's bytes. Never fails: what cannot be read is left out and counted.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut recording = Self::default();
        for line in bytes.split(|&byte| byte == b'\n') {
            match words_of(line) {
                Some(words) => recording.commands.push(words),
                None if line.iter().all(u8::is_ascii_whitespace) => {}
                None => recording.left_out += 1,
            }
        }
        recording
    }

    /// One command of it, sent unchanged.
    ///
    /// # Errors
    /// When there is no such line; they count from 1.
    pub fn command(&self, number: usize) -> Result<Command, String> {
        let words = number.checked_sub(1).and_then(|index| self.commands.get(index));
        let words = words.ok_or_else(|| {
            format!(
                "--monitor-input holds {} commands, none of number {number}",
                self.commands.len()
            )
        })?;
        let literal = |word: &Vec<u8>| vec![Piece::Literal(word.clone())];
        let arguments = words.iter().map(literal).collect();
        Ok(kind(name_of(words), format!("__monitor_line{number}__"), arguments, None))
    }

    /// All of them in turn (or at random): one entry of the mix for all of them, and one without a
    /// place in the mix for every further command name, so that the report tells them apart.
    ///
    /// # Errors
    /// When there are none, or more names than any server has commands.
    pub fn commands_in_turn(&self, random: bool) -> Result<Vec<Command>, String> {
        let mut names: Vec<String> = Vec::new();
        let mut lines = Vec::new();
        for words in &self.commands {
            let name = name_of(words);
            let known = names.iter().position(|known| *known == name);
            let place = known.unwrap_or(names.len());
            if known.is_none() {
                names.push(name);
            }
            if names.len() > REPLAY_NAMES_MAX {
                return Err(format!("--monitor-input: more than {REPLAY_NAMES_MAX} command names"));
            }
            let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            lines.push(Line { request: encode(&arguments), kind_offset: place as u32 });
        }
        if lines.is_empty() {
            return Err("--monitor-input holds no commands".into());
        }
        let replay = Arc::new(Replay { lines, random });
        let entry = |(place, name): (usize, String)| {
            let line = format!("__monitor_line@__ {name}");
            let mut command = kind(name, line, Vec::new(), (place == 0).then(|| replay.clone()));
            command.ratio = u32::from(place == 0);
            command
        };
        Ok(names.into_iter().enumerate().map(entry).collect())
    }
}

fn kind(
    name: String,
    line: String,
    arguments: Vec<Vec<Piece>>,
    replay: Option<Arc<Replay>>,
) -> Command {
    Command {
        name,
        line,
        role: Role::Other,
        arguments,
        ratio: 1,
        pattern: Pattern::Uniform,
        replay,
    }
}

fn name_of(words: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&words[0]).to_uppercase()
}

/// The words of a line's command, if it can be sent again; at least one.
fn words_of(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let bracket = memchr::memmem::find(line, b"] \"")?;
    if line[..bracket].ends_with(b" lua") {
        return None;
    }
    // MONITOR escapes what is not ASCII.
    let words = split_words(std::str::from_utf8(&line[bracket + 2..]).ok()?).ok()?;
    let name = String::from_utf8_lossy(words.first()?).to_uppercase();
    let second = words.get(1).map(|word| word.to_ascii_uppercase());
    let sets_up = matches!(name.as_str(), "AUTH" | "HELLO" | "SELECT" | "QUIT" | "RESET")
        || (name == "CLIENT" && second.as_deref() == Some(b"REPLY"));
    (has_one_reply(&name) && !sets_up).then_some(words)
}

/// Requests to be sent one after the other or at random; shared by all threads, changed by none.
pub struct Replay {
    lines: Vec<Line>,
    random: bool,
}

struct Line {
    request: Vec<u8>,
    kind_offset: u32,
}

impl Replay {
    /// Number of requests.
    pub fn len(&self) -> u64 {
        self.lines.len() as u64
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// True if each is drawn at random.
    pub fn is_random(&self) -> bool {
        self.random
    }

    /// A request, and how far behind the entry of the mix its command is counted.
    pub(super) fn line(&self, index: u64) -> (&[u8], u32) {
        let line = &self.lines[index as usize % self.lines.len()];
        (&line.request, line.kind_offset)
    }
}

impl fmt::Debug for Replay {
    /// The file may be long, and hold what its users would not print.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} commands, {}",
            self.lines.len(),
            if self.random { "at random" } else { "in turn" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"OK
1339518083.107412 [0 127.0.0.1:60866] "set" "a key" "\x00\"\\\n\a it's"
[ proxy49 ] 1764031576.604009 [0 172.16.10.147:51682] "GET" "a key"
1339518083.2 [0 lua] "get" "from a script"
1339518083.3 [3 unix:/tmp/r.sock] "Get" "] \"odd\""
1339518083.4 [0 127.0.0.1:1] "auth" "(redacted)"
1339518083.5 [0 127.0.0.1:1] "select" "4"
1339518083.6 [0 127.0.0.1:1] "client" "reply" "off"
1339518083.7 [0 127.0.0.1:1] "subscribe" "news"
1339518083.8 [0 127.0.0.1:1] "cut off
"#;

    #[test]
    fn commands_are_taken_from_monitors_output_byte_for_byte() {
        let recording = Recording::parse(TEXT.replace('\n', "\r\n").as_bytes());
        let words: Vec<Vec<&[u8]>> = recording
            .commands
            .iter()
            .map(|words| words.iter().map(Vec::as_slice).collect())
            .collect();
        assert_eq!(
            words,
            [
                vec![&b"set"[..], b"a key", b"\x00\"\\\n\x07 it's"],
                vec![b"GET", b"a key"],
                vec![b"Get", b"] \"odd\""]
            ]
        );
        assert_eq!(recording.left_out, 7);
    }

    #[test]
    fn lines_are_counted_by_command_name() {
        let recording = Recording::parse(TEXT.as_bytes());
        let commands = recording.commands_in_turn(false).unwrap();
        let kinds: Vec<_> =
            commands.iter().map(|command| (command.name.as_str(), command.ratio)).collect();
        assert_eq!(kinds, [("SET", 1), ("GET", 0)]);
        let replay = commands[0].replay.clone().unwrap();
        assert_eq!(replay.line(1), (&b"*2\r\n$3\r\nGET\r\n$5\r\na key\r\n"[..], 1));
        assert_eq!((0..3).map(|index| replay.line(index).1).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!(recording.command(2).unwrap().name, "GET");
        assert!(recording.command(0).is_err() && recording.command(4).is_err());
        assert!(Recording::parse(b"OK\n").commands_in_turn(false).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut random = crate::load::keys::Random::new(9);
        for _ in 0..2_000 {
            let mut bytes = TEXT.as_bytes().to_vec();
            for _ in 0..8 {
                let at = crate::load::keys::below(&mut random, bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(crate::load::keys::below(&mut random, bytes.len() as u64 + 1) as usize);
            let recording = Recording::parse(&bytes);
            let _ = recording.commands_in_turn(true);
            assert!(recording.commands.iter().all(|words| !words.is_empty()));
        }
    }
}
