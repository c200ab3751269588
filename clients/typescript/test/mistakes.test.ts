/** What a caller may get wrong. Nothing of it may end `done` without its effect, or mark without working. */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import type pg from "pg";

import { Consumer, NoTransaction, type Queryable, Retry, newer, once } from "../src/index.js";
import { effects, pool, receive, rows, states, waitFor } from "./inbox.js";

after(() => pool.end());

const logged: unknown[][] = [];
const log = (...words: unknown[]): void => void logged.push(words);

async function consume(handler: string, work: (tx: pg.PoolClient) => unknown, end: string[]): Promise<string> {
  await receive(handler);
  const consumer = new Consumer(pool, handler, work as (tx: pg.PoolClient) => Promise<unknown>, { poll: 100, log });
  const ended = consumer.run();
  try {
    await waitFor(handler, end);
  } finally {
    consumer.stop();
    await ended;
  }
  return String((await rows("select last_error from oncebox.deliveries_v1 where handler = $1", handler))[0]?.[0]);
}

const write = (tx: Queryable, handler: string) => tx.query("insert into effects values ($1, 'evt', 'mistake')", [handler]);

const ends = ["rollback", "commit", "end", "abort", "commit and chain", "rollback; begin", "commit; begin"];
for (const [place, end] of ends.entries()) {
  test(`work that runs "${end}" is a dead letter at once`, async () => {
    const handler = `h${31 + place}`;
    const why = await consume(handler, async (tx) => (await write(tx, handler), await tx.query(end)), ["dead"]);
    assert.match(why, /the work ended its transaction/);
    // Once: a commit cannot be taken back, so it must not be made again.
    assert.deepEqual(await states(handler), [["dead", 1]]);
  });
}

test("a commit before a failure is not repeated", async () => {
  const work = async (tx: pg.PoolClient) => {
    await write(tx, "h38");
    await tx.query("commit");
    throw new Retry("not yet");
  };
  assert.match(await consume("h38", work, ["dead"]), /the work ended its transaction/);
  assert.deepEqual([await states("h38"), (await effects("h38")).length], [[["dead", 1]], 1]);
});

test("savepoints and a second begin are the work's own", async () => {
  const work = async (tx: pg.PoolClient) => {
    for (const text of ["begin", "savepoint mine"]) await tx.query(text);
    await write(tx, "h39");
    await tx.query("rollback to savepoint mine");
    await write(tx, "h39");
  };
  await consume("h39", work, ["done"]);
  assert.equal((await effects("h39")).length, 1);
});

test("Drizzle on the work's client writes in its transaction, and its own transaction is one too many", async () => {
  await consume("h45", async (tx) => await drizzle(tx).execute(sql`insert into effects values ('h45', 'evt', 'drizzle')`), ["done"]);
  assert.equal((await effects("h45")).length, 1);
  const why = await consume("h46", async (tx) => await drizzle(tx).transaction((inner) => inner.execute(sql`select 1`)), ["dead"]);
  assert.match(why, /the work ended its transaction/);
});

test("work that returns before its queries ended fails with the reason", async () => {
  const why = await consume("h40", async (tx) => void write(tx, "h40"), ["dead"]);
  assert.match(why, /before its queries had ended/);
  assert.deepEqual(await effects("h40"), []);
});

test("a query after the end of the work reaches nobody's transaction, and is told", async () => {
  let late: Promise<unknown> | undefined;
  const work = async (tx: pg.PoolClient) => {
    late = sleep(500).then(() => write(tx, "h41"));
    late.catch(() => undefined);
  };
  await consume("h41", work, ["done"]);
  await assert.rejects(async () => await late, /the work has ended/);
  assert.deepEqual(await effects("h41"), []);
  assert.ok(logged.some((words) => String(words[0]).includes("after the work had ended")));
});

test("a generator fails with the reason", async () => {
  const plain = function* (tx: pg.PoolClient) {
    yield write(tx, "h42");
  };
  assert.match(await consume("h42", (tx) => plain(tx), ["dead"]), /did not run/);
  const later = async function* (tx: pg.PoolClient) {
    yield await write(tx, "h43");
  };
  assert.match(await consume("h43", async (tx) => later(tx), ["dead"]), /did not run/);
  assert.deepEqual([await effects("h42"), await effects("h43")], [[], []]);
});

test("a generator function is refused at once", () => {
  const work = function* () { yield 1; };
  assert.throws(() => new Consumer(pool, "h42", work as never), /generator/);
});

test("outside of a transaction nothing is marked", async () => {
  const client = await pool.connect();
  const silent: Queryable = { query: (text, values) => client.query(text, values) };
  try {
    // @ts-expect-error a pool is no transaction
    await assert.rejects(once(pool, "alone", "evt_1"), NoTransaction);
    // @ts-expect-error a pool is no transaction
    await assert.rejects(newer(pool, "h44", "sub_1", 1), NoTransaction);
    for (const tx of [client, silent]) {
      await assert.rejects(once(tx, "alone", "evt_1"), NoTransaction);
      await assert.rejects(newer(tx, "h44", "sub_1", 1), NoTransaction);
    }
    for (const tx of [client, silent]) {
      await client.query("begin");
      assert.equal(await once(tx, "alone", "evt_1"), true);
      assert.equal(await newer(tx, "h44", "sub_1", 1), true);
      await client.query("rollback");
    }
    // Not awaited, the driver does not know of it yet.
    void client.query("begin");
    assert.equal(await once(client, "alone", "evt_1"), true);
    await client.query("rollback");
  } finally {
    client.release();
  }
});
