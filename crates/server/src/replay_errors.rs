//! Errors by which commands of a log were answered: which commands, and what was said.
//!
//! Looked for only once a turn had an error, in the commands of that turn and the replies to them:
//! execution itself notes nothing for a case that a sound log does not have.

use tidemill_resp::reply::{ReplyParser, ReplyProgress, Value};
use tidemill_resp::request::{Arguments, Limits, Progress, RequestParser};
use tidemill_store::limits::ELEMENT_BYTES_MAX;

/// Limits of what a log may have. Its server may have had any `proto-max-bulk-len`.
pub(crate) const LOG_LIMITS: Limits =
    Limits { bulk_bytes_max: ELEMENT_BYTES_MAX, authenticated: true };

/// A command that was answered by an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayError {
    /// Position of the command.
    pub(crate) position: usize,
    /// Its name.
    pub(crate) command: String,
    /// The error.
    pub(crate) text: String,
}

/// Finds the errors among the replies to whole commands. Commands of a transaction whose `MULTI` is
/// not among them are those of its `EXEC`.
pub(crate) fn errors(commands: &[u8], replies: &[u8]) -> Vec<ReplayError> {
    let (mut errors, mut arguments) = (Vec::new(), Arguments::new());
    let (mut position, mut answered) = (0, 0);
    let mut queued: Option<Vec<(usize, String)>> = None;
    while position < commands.len() {
        let rest = &commands[position..];
        let parsed = RequestParser::new().parse(rest, &LOG_LIMITS, &mut arguments);
        let Ok(Progress::Complete { consumed }) = parsed else { break };
        let reply = ReplyParser::new().parse(&replies[answered..]);
        let Ok(ReplyProgress::Complete { consumed: reply_bytes, value }) = reply else { break };
        let command = String::from_utf8_lossy(arguments.view(rest).get(0)).to_lowercase();
        let called = (position, command);
        match value {
            Value::Array(results) if called.1 == "exec" => {
                let queued = queued.take().unwrap_or_default();
                for (index, result) in results.into_iter().enumerate() {
                    note(&mut errors, queued.get(index).unwrap_or(&called), result);
                }
            }
            value => {
                note(&mut errors, &called, value);
                match &mut queued {
                    _ if called.1 == "multi" => queued = Some(Vec::new()),
                    Some(queued) => queued.push(called),
                    None => {}
                }
            }
        }
        position += consumed;
        answered += reply_bytes;
    }
    errors
}

fn note(errors: &mut Vec<ReplayError>, (position, command): &(usize, String), reply: Value) {
    if let Value::Error(text) = reply {
        let (position, command) = (*position, command.clone());
        let text = String::from_utf8_lossy(&text).into_owned();
        errors.push(ReplayError { position, command, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> String {
        let words: Vec<_> = line.split(' ').collect();
        let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        format!("*{}\r\n{}", words.len(), words.iter().map(word).collect::<String>())
    }

    fn found(lines: &[&str], replies: &str) -> Vec<(usize, String, String)> {
        let commands: String = lines.iter().map(|line| request(line)).collect();
        let position =
            |index: usize| lines[..index].iter().map(|line| request(line).len()).sum::<usize>();
        let index_of = |at: usize| (0..lines.len()).find(|&index| at == position(index));
        let errors = errors(commands.as_bytes(), replies.as_bytes());
        let index = |at| index_of(at).expect("a command begins there");
        errors.into_iter().map(|error| (index(error.position), error.command, error.text)).collect()
    }

    #[test]
    fn errors_are_those_of_their_commands() {
        let lines = ["SET a 1", "LPUSH a x", "GET a", "SADD a x"];
        let replies = "+OK\r\n-WRONGTYPE no list\r\n$6\r\n-ERR\r\n\r\n-WRONGTYPE no set\r\n";
        let wanted = |index, command: &str, text: &str| (index, command.into(), text.into());
        assert_eq!(
            found(&lines, replies),
            [wanted(1, "lpush", "WRONGTYPE no list"), wanted(3, "sadd", "WRONGTYPE no set")]
        );
    }

    #[test]
    fn errors_within_a_transaction_are_those_of_its_commands() {
        let lines = ["GET a", "MULTI", "SET a 1", "LPUSH a x", "EXEC"];
        let replies = "$-1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n-WRONGTYPE no list\r\n";
        assert_eq!(found(&lines, replies), [(3, "lpush".into(), "WRONGTYPE no list".into())]);
        let replies = "+QUEUED\r\n*2\r\n+OK\r\n-WRONGTYPE no list\r\n";
        let cut = found(&lines[3..], replies);
        assert_eq!(cut, [(1, "exec".into(), "WRONGTYPE no list".into())]);
    }
}
