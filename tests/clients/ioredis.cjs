// ioredis with default settings: connect, pipeline, transact with WATCH, block, scan. Argument: the port.
const assert = require("node:assert");
const Redis = require("ioredis");

const port = Number(process.argv[2]);

async function main() {
  const client = new Redis(port);
  const other = new Redis(port);
  assert.equal(await client.ping(), "PONG");

  const pipeline = client.pipeline();
  for (let number = 0; number < 100; number++) {
    pipeline.set(`key:${number}`, number).get(`key:${number}`);
  }
  const replies = await pipeline.exec();
  assert.deepEqual(replies.filter((_, index) => index % 2), [...Array(100).keys()].map((number) => [null, String(number)]));

  await client.watch("key:1");
  await other.set("key:1", "changed");
  assert.equal(await client.multi().set("key:1", "lost").exec(), null);
  assert.deepEqual(await client.multi().get("key:1").incr("count").exec(), [[null, "changed"], [null, 1]]);

  setTimeout(() => other.rpush("queue", "element"), 100);
  assert.deepEqual(await client.blpop("queue", 5), ["queue", "element"]);
  assert.equal(await client.blpop("queue", 0.05), null);

  const keys = new Set();
  for await (const batch of client.scanStream({ match: "key:*", count: 7 })) batch.forEach((key) => keys.add(key));
  assert.equal(keys.size, 100);
  await client.hset("hash", Object.fromEntries([...Array(1000).keys()].map((number) => [`field${number}`, number])));
  const fields = new Set();
  for await (const batch of client.hscanStream("hash", { count: 10 })) batch.forEach((text, index) => index % 2 || fields.add(text));
  assert.equal(fields.size, 1000);

  client.disconnect();
  other.disconnect();
  console.log("all passed");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
