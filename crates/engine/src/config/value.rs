//! Checking values, and the one form in which they are kept.
//!
//! A value is kept as the text CONFIG GET prints: units resolved, choices in lower case, words
//! joined by one space. So one comparison of texts tells whether a directive changed, and a kind of
//! value is one function here. The error texts are Valkey 9.1's.

use std::borrow::Cow;

use tidemill_resp::number::parse_integer;

use super::directive::Kind;

/// Classes of clients that have limits of output.
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// Letters of keyspace events in the order they are printed, and the classes that `A` means.
const EVENT_LETTERS: &str = "g$lshzxetdnKEm";
const ALL_EVENT_LETTERS: &str = "g$lshzxetd";

/// Reason why a value is refused, for behind a dash.
pub(super) type Reason = Cow<'static, str>;

/// Checks the words of a value and brings them into the form in which they are kept. `current` is
/// the value before.
pub(super) fn canonical(kind: Kind, words: &[&str], current: &str) -> Result<String, Reason> {
    match kind {
        Kind::Words { min, max } => {
            // A list that may be empty is one of addresses.
            let reason = if min == 0 {
                "Too many bind addresses specified."
            } else {
                "wrong number of arguments"
            };
            let is_count_right = (min..=max).contains(&words.len());
            is_count_right.then(|| words.join(" ")).ok_or(Cow::Borrowed(reason))
        }
        Kind::Primary => primary(words),
        Kind::OutputBufferLimits => output_buffer_limits(words, current),
        Kind::SavePoints => save_points(words),
        Kind::Percentiles => percentiles(words),
        Kind::OomScores => oom_scores(words),
        Kind::Choices(choices) => several(words, choices),
        _ => match words {
            [word] => single(kind, word),
            _ => Err(Cow::Borrowed("wrong number of arguments")),
        },
    }
}

/// The words of a value that came as one text, by CONFIG SET.
pub(super) fn words_of(kind: Kind, text: &str) -> Vec<&str> {
    match kind {
        Kind::Words { .. }
        | Kind::Primary
        | Kind::OutputBufferLimits
        | Kind::SavePoints
        | Kind::Percentiles
        | Kind::OomScores
        | Kind::Choices(_) => match text {
            "" => Vec::new(),
            text => text.split(' ').collect(),
        },
        _ => vec![text],
    }
}

fn single(kind: Kind, word: &str) -> Result<String, Reason> {
    match kind {
        Kind::Flag => {
            choice(word, &["yes", "no"]).ok_or(Cow::Borrowed("argument must be 'yes' or 'no'"))
        }
        Kind::Integer { min, max } => {
            let value = parse_integer(word.as_bytes())
                .ok_or(Cow::Borrowed("argument couldn't be parsed into an integer"))?;
            within(value.into(), min.into(), max.into())
        }
        Kind::Memory { min, max } => {
            // Negative values, where they have a meaning, have no unit.
            let negative = parse_integer(word.as_bytes()).filter(|&value| min < 0 && value < 0);
            let bytes: i128 = negative
                .map(i128::from)
                .or_else(|| parse_memory(word).map(i128::from))
                .ok_or(Cow::Borrowed("argument must be a memory value"))?;
            within(bytes, min.into(), max.into())
        }
        Kind::MemoryOrPercent => memory_or_percent(word),
        Kind::Permissions => permissions(word),
        Kind::Choice(choices) => choice(word, choices).ok_or_else(|| not_a_choice(choices)),
        Kind::CpuList if !is_cpu_list(word) => {
            Err(Cow::Borrowed("argument must be a list of CPUs like 0-3,8 or 0-7:2"))
        }
        Kind::Form(form) => form.check(word).map(|()| word.to_owned()),
        Kind::KeyspaceEvents => keyspace_events(word),
        _ => Ok(word.to_owned()),
    }
}

fn choice(word: &str, choices: &[&str]) -> Option<String> {
    let chosen = choices.iter().find(|choice| choice.eq_ignore_ascii_case(word))?;
    Some((*chosen).to_owned())
}

fn not_a_choice(choices: &[&str]) -> Reason {
    format!("argument(s) must be one of the following: {}", choices.join(", ")).into()
}

fn several(words: &[&str], choices: &[&str]) -> Result<String, Reason> {
    let chosen: Option<Vec<String>> = words.iter().map(|word| choice(word, choices)).collect();
    let chosen = chosen.filter(|chosen| !chosen.is_empty()).ok_or_else(|| not_a_choice(choices))?;
    let has = |wanted: &str| chosen.iter().any(|word| word == wanted);
    // In the order in which they are declared, each once.
    let others = choices[1..].iter().copied().filter(|choice| has(choice));
    let in_order: Vec<&str> = others.collect();
    if has("save") && has("nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    // The first says nothing beside others.
    Ok(if in_order.is_empty() { choices[0].to_owned() } else { in_order.join(" ") })
}

/// Text of a number within bounds, which may be those of unsigned numbers or of signed ones.
fn within(value: i128, min: i128, max: i128) -> Result<String, Reason> {
    if (min..=max).contains(&value) {
        return Ok(value.to_string());
    }
    Err(format!("argument must be between {min} and {max} inclusive").into())
}

/// Bytes from a number with a unit or without. No digits are 0, as in Valkey.
pub(crate) fn parse_memory(word: &str) -> Option<u64> {
    let digits_end = word.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(digits_end);
    let unit_bytes: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    let number = if digits.is_empty() { 0 } else { digits.parse::<u64>().ok()? };
    number.checked_mul(unit_bytes)
}

/// Bytes with the largest unit that divides them: how CONFIG REWRITE writes them.
pub(super) fn format_memory(bytes: i128) -> String {
    for (unit_bytes, unit) in [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")] {
        if bytes > 0 && bytes % unit_bytes == 0 {
            return format!("{}{unit}", bytes / unit_bytes);
        }
    }
    bytes.to_string()
}

fn memory_or_percent(word: &str) -> Result<String, Reason> {
    const REASON: Reason = Cow::Borrowed("argument must be a memory or percent value");
    let Some(percent) = word.strip_suffix('%') else {
        return parse_memory(word)
            .filter(|&bytes| i64::try_from(bytes).is_ok())
            .map(|bytes| bytes.to_string())
            .ok_or(REASON);
    };
    match parse_integer(percent.as_bytes()) {
        Some(percent @ 0..=100) => Ok(format!("{percent}%")),
        Some(101..) => Err(Cow::Borrowed("percentage argument must be less or equal to 100")),
        _ => Err(REASON),
    }
}

fn permissions(word: &str) -> Result<String, Reason> {
    const MAX: i64 = 0o777;
    let value = i64::from_str_radix(word, 8)
        .map_err(|_| Cow::Borrowed("argument couldn't be parsed as an octal number"))?;
    if (0..=MAX).contains(&value) {
        return Ok(format!("{value:o}"));
    }
    Err(format!("argument must be between 0 and {MAX:o} inclusive").into())
}

fn is_cpu_list(word: &str) -> bool {
    let number = |text: &str| text.parse::<u16>().ok().filter(|_| !text.starts_with('+'));
    let is_range = |range: &str| match range.split_once('-') {
        Some((first, rest)) => {
            let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
            number(first).is_some_and(|first| number(last).is_some_and(|last| first <= last))
                && number(step).is_some_and(|step| step > 0)
        }
        None => number(range).is_some(),
    };
    word.is_empty() || word.split(',').all(is_range)
}

fn primary(words: &[&str]) -> Result<String, Reason> {
    const PORT_MAX: i64 = 65_535;
    let [host, port] = words else { return Err(Cow::Borrowed("wrong number of arguments")) };
    if host.eq_ignore_ascii_case("no") && port.eq_ignore_ascii_case("one") {
        return Ok(String::from("no one"));
    }
    let is_port = parse_integer(port.as_bytes()).is_some_and(|port| (0..=PORT_MAX).contains(&port));
    is_port.then(|| words.join(" ")).ok_or(Cow::Borrowed("Invalid primary port"))
}

fn output_buffer_limits(words: &[&str], current: &str) -> Result<String, Reason> {
    if !words.len().is_multiple_of(4) {
        return Err(Cow::Borrowed("Wrong number of arguments in buffer limit configuration."));
    }
    let mut limits: Vec<&str> = current.split(' ').collect();
    let mut parsed: Vec<(usize, [String; 3])> = Vec::new();
    for limit in words.chunks(4) {
        let name = if limit[0].eq_ignore_ascii_case("replica") { "slave" } else { limit[0] };
        let class = CLASSES
            .iter()
            .position(|class| class.eq_ignore_ascii_case(name))
            .ok_or("Invalid client class specified in buffer limit configuration.")?;
        let seconds = parse_integer(limit[3].as_bytes()).filter(|&seconds| seconds >= 0);
        match (parse_memory(limit[1]), parse_memory(limit[2]), seconds) {
            (Some(hard), Some(soft), Some(seconds)) => {
                parsed.push((class, [hard.to_string(), soft.to_string(), seconds.to_string()]));
            }
            _ => {
                return Err(Cow::Borrowed(
                    "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
                ));
            }
        }
    }
    for (class, values) in &parsed {
        for (index, value) in values.iter().enumerate() {
            limits[class * 4 + 1 + index] = value;
        }
    }
    Ok(limits.join(" "))
}

fn save_points(words: &[&str]) -> Result<String, Reason> {
    const REASON: Reason = Cow::Borrowed("Invalid save parameters");
    if words == [""] || words.is_empty() {
        return Ok(String::new());
    }
    if !words.len().is_multiple_of(2) {
        return Err(REASON);
    }
    for point in words.chunks(2) {
        let seconds = parse_integer(point[0].as_bytes()).filter(|&seconds| seconds >= 1);
        let changes = parse_integer(point[1].as_bytes()).filter(|&changes| changes >= 0);
        seconds.zip(changes).ok_or(REASON)?;
    }
    Ok(words.join(" "))
}

fn percentiles(words: &[&str]) -> Result<String, Reason> {
    if words == [""] || words.is_empty() {
        return Ok(String::new());
    }
    let mut texts = Vec::new();
    for word in words {
        let value: f64 = word
            .parse()
            .ok()
            .filter(|value: &f64| !value.is_nan())
            .ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&value) {
            return Err(Cow::Borrowed(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            ));
        }
        texts.push(value.to_string());
    }
    Ok(texts.join(" "))
}

fn oom_scores(words: &[&str]) -> Result<String, Reason> {
    if words.len() != 3 {
        return Err(Cow::Borrowed("wrong number of arguments"));
    }
    let score =
        |word: &&str| parse_integer(word.as_bytes()).filter(|score| (-2000..=2000).contains(score));
    let scores: Option<Vec<String>> =
        words.iter().map(|word| score(word).map(|score| score.to_string())).collect();
    scores.map(|scores| scores.join(" ")).ok_or(Cow::Borrowed(
        "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
    ))
}

fn keyspace_events(word: &str) -> Result<String, Reason> {
    let expanded = word.replace('A', ALL_EVENT_LETTERS);
    if !expanded.chars().all(|letter| EVENT_LETTERS.contains(letter)) {
        return Err(Cow::Borrowed("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."));
    }
    let has = |letter: char| expanded.contains(letter);
    let has_all = ALL_EVENT_LETTERS.chars().all(has);
    if !has_all {
        return Ok(EVENT_LETTERS.chars().filter(|&letter| has(letter)).collect());
    }
    let is_other = |&letter: &char| !ALL_EVENT_LETTERS.contains(letter) && letter != 'n';
    let others = EVENT_LETTERS.chars().filter(|&letter| has(letter)).filter(is_other);
    // At the end, where `shown` leaves it out.
    let new_keys = has('n').then_some('n');
    Ok(std::iter::once('A').chain(others).chain(new_keys).collect())
}

/// A value as CONFIG GET prints it: `A` hides `n`, as in Valkey.
pub(super) fn shown(kind: Kind, value: &str) -> &str {
    match kind {
        Kind::KeyspaceEvents if value.starts_with('A') => value.strip_suffix('n').unwrap_or(value),
        _ => value,
    }
}
