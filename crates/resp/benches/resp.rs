//! Nanoseconds of what every request costs: parsing it, encoding its reply, counting that reply.
//!
//! Prints the median, best and worst of interleaved rounds, so that a busy machine hits all lines
//! alike.

use std::hint::black_box;
use std::time::Instant;

use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::reply::{ReplyScanner, ScanCounts};
use tidemill_resp::request::{Arguments, Limits, Progress, RequestParser, encode, encode_into};

const ROUND_COUNT: usize = 41;
const PASS_COUNT: usize = 400;
const PIPELINE_COUNT: usize = 100;

struct Case {
    name: &'static str,
    run: Box<dyn FnMut()>,
    nanoseconds: Vec<f64>,
}

fn main() {
    let mut cases = [
        case("parse GET, 2 arguments, pipeline of 100", parse(&[b"GET", b"memtier-1234567"])),
        case(
            "parse SET, 3 arguments, pipeline of 100",
            parse(&[b"SET", b"memtier-1234567", &[b'x'; 32]]),
        ),
        case(
            "parse SET, 3 arguments, value of 1,000 bytes",
            parse(&[b"SET", b"memtier-1234567", &[b'x'; 1000]]),
        ),
        case("encode a reply of 32 bytes", encode_bulk()),
        case("encode an integer", encode_integer()),
        case("scan a reply of 32 bytes", scan(&[b"$32\r\n", &[b'x'; 32][..], b"\r\n"].concat())),
        case("scan +OK", scan(b"+OK\r\n")),
        case("encode a request GET", encode_request()),
    ];
    for round in 0..=ROUND_COUNT {
        for case in &mut cases {
            let start = Instant::now();
            for _ in 0..PASS_COUNT {
                (case.run)();
            }
            let each = start.elapsed().as_nanos() as f64 / (PASS_COUNT * PIPELINE_COUNT) as f64;
            // The first round warms up.
            if round > 0 {
                case.nanoseconds.push(each);
            }
        }
    }
    println!("{:50} {:>8} {:>8} {:>8}", "nanoseconds each", "median", "best", "worst");
    for case in &mut cases {
        case.nanoseconds.sort_by(f64::total_cmp);
        let [best, .., worst] = case.nanoseconds[..] else { unreachable!("there are many rounds") };
        let median = case.nanoseconds[ROUND_COUNT / 2];
        println!("{:50} {median:8.2} {best:8.2} {worst:8.2}", case.name);
    }
}

fn case(name: &'static str, run: impl FnMut() + 'static) -> Case {
    Case { name, run: Box::new(run), nanoseconds: Vec::new() }
}

fn parse(arguments: &[&[u8]]) -> impl FnMut() + 'static {
    let input = encode(arguments).repeat(PIPELINE_COUNT);
    let count = arguments.len();
    let (mut parser, mut args) = (RequestParser::new(), Arguments::new());
    let limits = Limits::default();
    move || {
        let mut rest = &black_box(&input)[..];
        while let Ok(Progress::Complete { consumed }) = parser.parse(rest, &limits, &mut args) {
            assert_eq!(args.len(), count);
            black_box(args.get(1, rest));
            rest = &rest[consumed..];
        }
        assert!(rest.is_empty());
    }
}

fn encode_bulk() -> impl FnMut() + 'static {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    let payload = [b'x'; 32];
    move || {
        for _ in 0..PIPELINE_COUNT {
            reply.bulk(black_box(&payload[..]));
        }
        black_box(reply.len());
        reply.clear();
    }
}

fn encode_integer() -> impl FnMut() + 'static {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    move || {
        for value in 0..PIPELINE_COUNT as i64 {
            reply.integer(black_box(value));
        }
        black_box(reply.len());
        reply.clear();
    }
}

fn scan(reply: &[u8]) -> impl FnMut() + 'static {
    let input = reply.repeat(PIPELINE_COUNT);
    let mut scanner = ReplyScanner::new();
    move || {
        let mut counts = ScanCounts::default();
        scanner.scan(black_box(&input), &mut counts).expect("valid replies");
        assert_eq!(counts.replies, PIPELINE_COUNT as u64);
    }
}

fn encode_request() -> impl FnMut() + 'static {
    let mut out = Vec::new();
    move || {
        out.clear();
        for _ in 0..PIPELINE_COUNT {
            encode_into(black_box(&[b"GET", b"memtier-1234567"]), &mut out);
        }
        black_box(&out);
    }
}
