//! When a set is called an intset, a listpack or a hash table.
//!
//! The names follow the conversions of Valkey, which depend on how a set came to be; the layout
//! here does not, so that a conversion costs nothing.

use tidemill_rdb::value::ValueEncoding;
use tidemill_store::Encoding;
use tidemill_store::value::set::{Member, SetEdit};

use super::member::{integer_text_bytes, text_bytes};
use crate::settings::Settings;

/// Sizes up to which small encodings are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    intset_entries_max: u64,
    listpack_entries_max: u64,
    listpack_value_bytes_max: usize,
}

impl Thresholds {
    pub(crate) fn of(settings: &Settings) -> Thresholds {
        Thresholds {
            intset_entries_max: settings.set_intset_entries_max,
            listpack_entries_max: settings.set_listpack_entries_max,
            listpack_value_bytes_max: settings.set_listpack_value_bytes_max,
        }
    }

    /// Encoding of a set that is made for a number of arguments, equal ones included.
    pub(super) fn for_new(&self, first: Member<'_>, argument_count: u64) -> Encoding {
        match first {
            Member::Integer(_) if argument_count <= self.intset_entries_max => Encoding::Intset,
            _ if argument_count <= self.listpack_entries_max => Encoding::Listpack,
            _ => Encoding::Hashtable,
        }
    }

    /// Encoding of a set to which a number of arguments is to be added, whether they are new or
    /// not.
    pub(super) fn for_more(&self, encoding: Encoding, argument_count: u64) -> Encoding {
        match encoding {
            Encoding::Intset if argument_count <= self.intset_entries_max => encoding,
            Encoding::Listpack if argument_count <= self.listpack_entries_max => encoding,
            _ => Encoding::Hashtable,
        }
    }

    /// Encoding after a new member joined `length` others. `integer_bytes` is the longest text of
    /// them, asked for when they are integers.
    fn after_addition(
        &self,
        encoding: Encoding,
        length: u64,
        member: Member<'_>,
        integer_bytes: impl FnOnce() -> usize,
    ) -> Encoding {
        let is_short = |bytes| bytes <= self.listpack_value_bytes_max;
        let fits_listpack = length < self.listpack_entries_max && is_short(text_bytes(member));
        match (encoding, member) {
            (Encoding::Intset, Member::Integer(_)) if length < self.intset_entries_max => encoding,
            (Encoding::Intset, Member::String(_)) if fits_listpack && is_short(integer_bytes()) => {
                Encoding::Listpack
            }
            (Encoding::Listpack, _) if fits_listpack => encoding,
            _ => Encoding::Hashtable,
        }
    }

    /// Adds a member to a set, whose encoding follows; true if the member is new.
    pub(crate) fn add(
        &self,
        set: &mut SetEdit<'_>,
        encoding: &mut Encoding,
        member: Member<'_>,
    ) -> bool {
        let length = set.len();
        let is_new = set.insert(member);
        if is_new {
            let integer_bytes = || longest_integer_bytes(set, length);
            *encoding = self.after_addition(*encoding, length, member, integer_bytes);
        }
        is_new
    }

    /// Encoding of a set to which members, all different, are added one by one, beginning with an
    /// empty set of encoding `from`.
    pub(crate) fn of_members<'m>(
        &self,
        from: Encoding,
        members: impl IntoIterator<Item = Member<'m>>,
    ) -> Encoding {
        let (mut encoding, mut longest_bytes) = (from, 0);
        for (length, member) in members.into_iter().enumerate() {
            encoding = self.after_addition(encoding, length as u64, member, || longest_bytes);
            if encoding == Encoding::Hashtable {
                break;
            }
            longest_bytes = longest_bytes.max(text_bytes(member));
        }
        encoding
    }

    /// Encoding of a set of `count` members that `RESTORE` begins with: the one that it keeps,
    /// unless the members were not packed.
    pub(crate) fn for_restored(&self, stored: ValueEncoding, count: u64) -> Encoding {
        match stored {
            ValueEncoding::SetListpack if count <= self.listpack_entries_max => Encoding::Listpack,
            ValueEncoding::Set | ValueEncoding::SetIntset if count <= self.intset_entries_max => {
                Encoding::Intset
            }
            _ => Encoding::Hashtable,
        }
    }

    /// True if a set of integers alone may be an intset.
    pub(super) fn fits_intset(&self, length: u64) -> bool {
        length <= self.intset_entries_max
    }
}

/// Bytes of the longest text of a set's integers, which come first and are in order: one of the
/// ends.
fn longest_integer_bytes(set: &SetEdit<'_>, integer_count: u64) -> usize {
    let Some((set, last)) = set.view().zip(integer_count.checked_sub(1)) else { return 0 };
    let ends = [set.nth(0), set.nth(last)].into_iter().flatten();
    let bytes = ends.map(|member| match member {
        Member::Integer(value) => integer_text_bytes(value),
        Member::String(_) => 0,
    });
    bytes.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Thresholds =
        Thresholds { intset_entries_max: 4, listpack_entries_max: 3, listpack_value_bytes_max: 2 };

    fn of(members: &[Member<'_>]) -> Encoding {
        SMALL.of_members(Encoding::Intset, members.iter().copied())
    }

    #[test]
    fn integers_are_an_intset_up_to_their_limit() {
        let integers: Vec<_> = (0..5).map(Member::Integer).collect();
        assert_eq!(of(&integers[..4]), Encoding::Intset);
        assert_eq!(of(&integers), Encoding::Hashtable);
    }

    #[test]
    fn a_string_makes_a_listpack_of_few_short_members() {
        let text = Member::String(b"x");
        let integers: Vec<_> = (0..3).map(Member::Integer).collect();
        assert_eq!(of(&[integers[0], integers[1], text]), Encoding::Listpack);
        assert_eq!(of(&[integers[0], integers[1], integers[2], text]), Encoding::Hashtable);
        assert_eq!(of(&[Member::Integer(100), text]), Encoding::Hashtable);
        assert_eq!(of(&[Member::Integer(-10), text]), Encoding::Hashtable);
        assert_eq!(of(&[text, Member::Integer(100)]), Encoding::Hashtable);
        assert_eq!(of(&[Member::String(b"xyz")]), Encoding::Hashtable);
    }
}
