use super::patterns::{Access, KeyPattern};
use super::*;
use crate::command::KeyFlags;
use crate::glob;

fn users() -> Users {
    Users::new(crate::execute::commands())
}

fn set(users: &Users, name: &str, rules: &str) -> Result<(), RuleError> {
    let words: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    let rules = Rules::of(&words).expect("no selector is left open");
    users.set(name.as_bytes(), ChannelsOfNewUsers::None, &rules).map_err(|(_, error)| error)
}

#[test]
fn a_pattern_split_into_prefix_and_rest_matches_as_the_whole() {
    let texts = ["", "a", "ab", "abc", "b", "*", "a*", "ab*c", "a[b]", "\\a", "ba"];
    let patterns =
        ["", "*", "**", "a", "a*", "a**", "ab*", "*b", "a*c", "a?c", "?", "[a-b]*", "a\\*", "\\"];
    for pattern in patterns.map(str::as_bytes) {
        let split = KeyPattern::new(pattern, Access::all());
        for text in texts.map(str::as_bytes) {
            let expected = glob::matches(pattern, text, false);
            assert_eq!(split.allows(Access::empty(), text), expected, "{pattern:?} {text:?}");
        }
    }
}

#[test]
fn keys_that_are_only_asked_about_need_any_permission() {
    let read = KeyPattern::new(b"k", Access::READ);
    for (flags, allowed) in [
        (KeyFlags::RO, true),
        (KeyFlags::RO | KeyFlags::ACCESS, true),
        (KeyFlags::RW | KeyFlags::ACCESS | KeyFlags::UPDATE, false),
        (KeyFlags::OW | KeyFlags::INSERT, false),
        (KeyFlags::RM | KeyFlags::DELETE, false),
    ] {
        assert_eq!(read.allows(Access::needed_for(flags), b"k"), allowed, "{flags:?}");
    }
}

#[test]
fn rules_are_applied_together_or_not_at_all() {
    let users = users();
    set(&users, "u", "on +get ~a").expect("rules");
    let before = users.version();
    assert_eq!(set(&users, "u", "off -get nonsense"), Err(RuleError::Syntax));
    assert_eq!(set(&users, "new", "on nonsense"), Err(RuleError::Syntax));
    let user = users.find(b"u").expect("it is there").user();
    assert_eq!(user.describe(), b"u on ~a resetchannels -@all +get");
    assert!(users.find(b"new").is_none());
    assert_eq!(users.version(), before, "nothing changed");
}

#[test]
fn a_deleted_account_stays_with_those_who_hold_it_and_lets_nobody_in() {
    let users = users();
    set(&users, "u", "on >p").expect("rules");
    let held = users.authenticate(b"u", b"p").expect("the password");
    assert!(users.authenticate(b"u", b"q").is_none() && users.authenticate(b"v", b"p").is_none());
    let deleted = users.delete(b"u").expect("it is there");
    assert!(held.is_deleted() && std::sync::Arc::ptr_eq(&held, &deleted));
    set(&users, "u", "on nopass").expect("rules");
    assert!(!std::sync::Arc::ptr_eq(&held, &users.authenticate(b"u", b"p").expect("anew")));
}

#[test]
fn equal_denials_of_a_minute_are_one_entry() {
    let log = Log::default();
    let add = |object: &str, denied, now_ms| {
        let what = (denied, Context::TopLevel);
        log.add(3, LogEntry::new(what, object.as_bytes(), b"u", String::new(), now_ms));
    };
    let key = Denied::Call(Reason::Key);
    add("a", key, 1_000);
    add("b", key, 2_000);
    add("a", key, 61_000);
    let entries = log.latest(10);
    let shown: Vec<_> = entries.iter().map(|entry| (&*entry.object, entry.count)).collect();
    assert_eq!(shown, [(&b"a"[..], 2), (&b"b"[..], 1)], "the latest first");
    assert_eq!((entries[0].id, entries[0].created_ms, entries[0].updated_ms), (0, 1_000, 61_000));
    // A minute counts from the last time; another reason is another entry.
    add("a", key, 121_000);
    add("a", Denied::Authentication, 121_000);
    add("a", key, 181_001);
    let counts: Vec<u64> = log.latest(10).iter().map(|entry| entry.count).collect();
    assert_eq!(counts, [1, 1, 3], "the oldest of four went");
    log.reset();
    assert!(log.latest(10).is_empty());
}

#[test]
fn a_hash_is_compared_whole() {
    let users = users();
    set(&users, "u", "on >p").expect("rules");
    let user = users.find(b"u").expect("it is there").user();
    let digits = user.password_digits().next().expect("one password");
    assert_eq!(digits, "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940");
    for (index, digit) in digits.char_indices() {
        let mut other = digits.clone();
        other.replace_range(index..=index, if digit == '0' { "1" } else { "0" });
        set(&users, "u", &format!("resetpass #{other}")).expect("a hash");
        assert!(users.authenticate(b"u", b"p").is_none(), "digit {index}");
    }
}

#[test]
fn passwords_are_made_anew_each_time_and_as_long_as_asked() {
    for bits in [1, 4, 5, 8, 9, 256, 4096] {
        let (one, other) = (generate(bits).expect("random"), generate(bits).expect("random"));
        assert_eq!(one.len(), bits.div_ceil(4));
        assert!(one.bytes().all(|byte| b"0123456789abcdef".contains(&byte)));
        assert!(bits < 256 || one != other);
    }
}
