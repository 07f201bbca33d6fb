//! redis-rs with default settings against the binary: connect, pipeline, transact with WATCH,
//! block, scan.

use std::time::Duration;

use redis::{Commands as _, Connection, RedisResult};

use crate::common::server;
use tidemill_testkit::server::Server;

fn connect(server: &Server) -> RedisResult<Connection> {
    redis::Client::open(format!("redis://127.0.0.1:{}/", server.port))?.get_connection()
}

#[test]
fn pipelines_transactions_blocking_and_scans_work() -> RedisResult<()> {
    let server = server();
    let mut client = connect(&server)?;

    let mut pipe = redis::pipe();
    for index in 0..100 {
        pipe.set(format!("key:{index}"), index).ignore().get(format!("key:{index}"));
    }
    assert_eq!(pipe.query::<Vec<i32>>(&mut client)?, (0..100).collect::<Vec<_>>());

    // EXEC is refused once because another connection changes the watched key; then it is repeated.
    let mut other = connect(&server)?;
    let mut attempts = 0;
    let (raised,): (i64,) = redis::transaction(&mut client, &["key:1"], |connection, pipe| {
        attempts += 1;
        let old: i64 = connection.get("key:1")?;
        if attempts == 1 {
            other.set::<_, _, ()>("key:1", 41)?;
        }
        pipe.set("key:1", old + 1).ignore().get("key:1").query(connection)
    })?;
    assert_eq!((attempts, raised), (2, 42));

    let pushing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.rpush::<_, _, i64>("queue", "element")
    });
    let (queue, element): (String, String) = client.blpop("queue", 5.0)?;
    assert_eq!((queue.as_str(), element.as_str()), ("queue", "element"));
    assert_eq!(pushing.join().expect("no panic")?, 1);
    assert_eq!(client.blpop::<_, Option<(String, String)>>("queue", 0.05)?, None);

    let mut keys: Vec<String> =
        client.scan_match::<_, String>("key:*")?.collect::<Result<_, _>>()?;
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 100);
    let fields: Vec<(String, i32)> = (0..1000).map(|index| (format!("f{index}"), index)).collect();
    client.hset_multiple::<_, _, _, ()>("hash", &fields)?;
    assert_eq!(client.hgetall::<_, std::collections::HashMap<String, i32>>("hash")?.len(), 1000);
    Ok(())
}
