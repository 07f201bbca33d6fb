//! redis-rs with default settings against the binary: connect, pipeline, transact with WATCH, block, scan.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Commands as _, Connection, RedisResult};

/// A server on a free port of the loopback interface, killed at the end.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Server {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let process = Command::new(env!("CARGO_BIN_EXE_tidemill"))
            .args(["server", "--bind", "127.0.0.1", "--worker-threads", "2", "--port"])
            .arg(port.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary starts");
        Server { process, url: format!("redis://127.0.0.1:{port}/") }
    }

    fn connect(&self) -> Connection {
        let client = redis::Client::open(self.url.as_str()).expect("a right address");
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match client.get_connection() {
                Ok(connection) => return connection,
                Err(error) if Instant::now() > end => panic!("no connection: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().expect("own child");
        self.process.wait().expect("own child");
    }
}

#[test]
fn pipelines_transactions_blocking_and_scans_work() -> RedisResult<()> {
    let server = Server::start();
    let mut client = server.connect();

    let mut pipe = redis::pipe();
    for index in 0..100 {
        pipe.set(format!("key:{index}"), index).ignore().get(format!("key:{index}"));
    }
    assert_eq!(pipe.query::<Vec<i32>>(&mut client)?, (0..100).collect::<Vec<_>>());

    // EXEC is refused once because another connection changes the watched key; then it is repeated.
    let mut other = server.connect();
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
