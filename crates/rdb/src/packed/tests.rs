use itoa::Buffer;

use super::listpack::{Builder, element_bytes};
use super::{Packed, Packing, encode_intset};

fn texts(packing: Packing, bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut packed = Packed::new(packing, bytes, 0).map_err(|error| error.to_string())?;
    let (mut texts, mut digits) = (Vec::new(), Buffer::new());
    while let Some(text) = packed.next().map_err(|error| error.to_string())? {
        texts.push(text.bytes(&mut digits).escape_ascii().to_string());
    }
    Ok(texts)
}

#[test]
fn a_listpack_that_is_built_is_read_again() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut listpack = Builder::default();
    for _ in 0..300 {
        let mut wanted = Vec::new();
        let mut bytes = listpack.total_bytes();
        for _ in 0..random.usize(0..40) {
            let text = match random.u32(0..3) {
                0 => (random.i64(..) >> random.u32(0..64)).to_string(),
                1 => "x".repeat(random.usize(0..300)),
                _ => "y".repeat(random.usize(0..5000)),
            };
            listpack.push(text.as_bytes()).expect("memory");
            bytes += element_bytes(text.as_bytes());
            wanted.push(text);
        }
        assert_eq!(listpack.total_bytes(), bytes);
        let packed = listpack.finish().expect("memory").to_vec();
        assert_eq!(texts(Packing::Listpack, &packed), Ok(wanted));
        listpack.clear();
    }
}

#[test]
fn a_back_length_has_up_to_five_bytes() {
    // The lengths at which another byte is needed.
    for length in [120, 127, 128, 16_370, 16_383, 16_384, 2_097_140, 2_097_151, 2_097_160] {
        let mut listpack = Builder::default();
        let text = vec![b'z'; length];
        listpack.push(&text).expect("memory");
        listpack.push(b"end").expect("memory");
        let packed = listpack.finish().expect("memory");
        let read = texts(Packing::Listpack, packed).expect("a listpack");
        assert_eq!((read[0].len(), read[1].as_str()), (length, "end"));
    }
}

#[test]
fn ziplists_have_elements_of_all_widths() {
    // As Redis 6.2 built it of: hello, 2, 1024, -5, 100000, 2147483648, 12.
    let elements: [&[u8]; 7] = [
        b"\x05hello",
        b"\xf3",
        b"\xc0\x00\x04",
        b"\xfe\xfb",
        b"\xf0\xa0\x86\x01",
        b"\xe0\x00\x00\x00\x80\x00\x00\x00\x00",
        b"\xfd",
    ];
    let mut bytes = vec![0; 10];
    let (mut previous, mut last) = (0, 0);
    for element in elements {
        last = bytes.len() as u32;
        bytes.push(previous);
        bytes.extend_from_slice(element);
        previous = element.len() as u8 + 1;
    }
    bytes.push(255);
    let total = bytes.len() as u32;
    bytes[..4].copy_from_slice(&total.to_le_bytes());
    bytes[4..8].copy_from_slice(&last.to_le_bytes());
    bytes[8] = 7;
    let wanted = ["hello", "2", "1024", "-5", "100000", "2147483648", "12"];
    assert_eq!(texts(Packing::Ziplist, &bytes), Ok(wanted.map(String::from).to_vec()));
    for (at, wrong) in [(0, 1), (4, 1), (8, 1), (10, 1), (11, 0x81), (17, 99)] {
        let mut planted = bytes.clone();
        planted[at] = planted[at].wrapping_add(wrong);
        assert!(texts(Packing::Ziplist, &planted).is_err(), "{at}");
    }
}

#[test]
fn intsets_have_the_narrowest_width_and_ascend() {
    for (integers, width) in [
        (vec![-5, 0, 32_767], 2),
        (vec![-32_769, 1], 4),
        (vec![0, 1 << 40], 8),
        (vec![i64::MIN, i64::MAX], 8),
    ] {
        let mut bytes = encode_intset(&integers).expect("memory");
        assert_eq!(bytes.len(), 8 + width * integers.len());
        let wanted: Vec<String> = integers.iter().map(i64::to_string).collect();
        assert_eq!(texts(Packing::Intset, &bytes), Ok(wanted));
        let last = bytes.len() - width..;
        let first = bytes[8..8 + width].to_vec();
        bytes[last].copy_from_slice(&first);
        assert!(texts(Packing::Intset, &bytes).is_err(), "the same twice");
    }
}

#[test]
fn zipmaps_skip_what_values_do_not_use() {
    let bytes = b"\x02\x01a\x03\x02one..\x00\x03\x00two\xff";
    let wanted = ["a", "one", "", "two"];
    assert_eq!(texts(Packing::Zipmap, bytes), Ok(wanted.map(String::from).to_vec()));
    assert!(texts(Packing::Zipmap, b"\x01\x01a\xff").is_err(), "a name without a value");
    assert!(texts(Packing::Zipmap, b"\x02\x01a\x01\x00b\xff").is_err(), "one of two names");
    assert!(texts(Packing::Zipmap, b"\x01\xfe\xff\xff\xff\xffa").is_err(), "a long claim");
}
