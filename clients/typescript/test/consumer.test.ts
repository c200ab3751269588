/** The loop: one transaction for work and mark, failures, heartbeats, lost connections, a graceful stop. */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import type pg from "pg";

import { Consumer, type ConsumerOptions, type Delivery, Reject, Retry, type Work } from "../src/index.js";
import { effects, pool, receive, rows, states, waitFor } from "./inbox.js";

after(() => pool.end());

type PgWork = Work<pg.PoolClient>;

async function consuming(
  handler: string, consumers: [PgWork, ConsumerOptions?][], until: () => Promise<unknown>,
): Promise<void> {
  const quick = { lease: 30_000, poll: 100, log: () => undefined };
  const running = consumers.map(([work, options]) => new Consumer(pool, handler, work, { ...quick, ...options }));
  const ends = running.map((one) => one.run());
  try {
    await until();
  } finally {
    running.forEach((one) => one.stop());
    await Promise.all(ends);
  }
}

const writing = (handler: string, who?: string): PgWork => (tx, one) =>
  tx.query("insert into effects values ($1, $2, $3)", [handler, one.eventId, who ?? String(one.attempt)]);

test("every effect is there once", async () => {
  await receive("h11", 40);
  const work = writing("h11");
  await consuming("h11", [[work], [work, { max: 3 }]], () => waitFor("h11", Array(40).fill("done")));
  const written = (await effects("h11")).map((row) => row[0]);
  assert.deepEqual([written.length, new Set(written).size], [40, 40]);
});

test("what fails rolls back and is tried again", async () => {
  await receive("h12");
  const work: PgWork = async (tx, one) => {
    await writing("h12")(tx, one);
    if (one.attempt === 1) throw new Retry("not yet");
    if (one.attempt === 2) await tx.query("select 1 / 0");
  };
  await consuming("h12", [[work]], () => waitFor("h12", ["done"]));
  assert.deepEqual((await effects("h12")).map((row) => row[1]), ["3"]);
  const sql = "select a.error from oncebox.attempts a join oncebox.deliveries d using (delivery) where handler = 'h12' order by a.attempt";
  assert.deepEqual(await rows(sql), [["not yet"], ["error: division by zero"]]);
});

test("a rejected one is dead at once", async () => {
  await receive("h13");
  const work: PgWork = async (tx, one) => {
    await writing("h13")(tx, one);
    throw new Reject("never");
  };
  await consuming("h13", [[work]], () => waitFor("h13", ["dead"]));
  assert.deepEqual([await states("h13"), await effects("h13")], [[["dead", 1]], []]);
});

test("work longer than its lease keeps it", async () => {
  await receive("h14", 2);
  const work: PgWork = async (tx, one) => {
    await sleep(9_000);
    await writing("h14")(tx, one);
  };
  await consuming("h14", [[work, { lease: 4_000 }], [work, { lease: 4_000 }]], () => waitFor("h14", ["done", "done"]));
  assert.deepEqual(await states("h14"), [["done", 1], ["done", 1]]);
  assert.equal((await effects("h14")).length, 2);
});

test("a stop finishes what runs and gives back the rest", async () => {
  await receive("h15", 3);
  let begin: (value: unknown) => void;
  const begun = new Promise((resolve) => (begin = resolve));
  const work: PgWork = async (tx, one) => {
    begin(one);
    await sleep(500);
    await writing("h15")(tx, one);
  };
  await consuming("h15", [[work]], () => begun);
  assert.deepEqual(await states("h15"), [["done", 1], ["ready", 0], ["ready", 0]]);
  assert.equal((await effects("h15")).length, 1);
});

test("a lost connection is opened again", async () => {
  await receive("h16", 2);
  const work: PgWork = async (tx, one) => {
    await writing("h16")(tx, one);
    if (one.attempt === 1) await tx.query("select pg_terminate_backend(pg_backend_pid())");
  };
  await consuming("h16", [[work, { max: 1, lease: 3_000 }]], () => waitFor("h16", ["done", "done"]));
  assert.deepEqual(await states("h16"), [["done", 2], ["done", 2]]);
  assert.equal((await effects("h16")).length, 2);
});

test("large bodies are let go one by one", async () => {
  // clients/test.sh has sent 24 bodies of 4 MB.
  const inHand: number[] = [];
  const living = new Set<WeakRef<Delivery>>();
  const work: PgWork = async (_tx, one) => {
    living.add(new WeakRef(one));
    await sleep(10);
    globalThis.gc?.();
    inHand.push([...living].reduce((sum, each) => sum + (each.deref()?.body.length ?? 0), 0));
  };
  await consuming("h50", [[work]], () => waitFor("h50", Array(24).fill("done")));
  assert.equal(inHand.length, 24);
  assert.ok(Math.max(...inHand) <= 2 * 4_000_000, `${Math.max(...inHand)} bytes in hand`);
});

test("a handler that is not there ends the loop", async () => {
  await assert.rejects(new Consumer(pool, "nobody", async (tx) => void (await tx.query<{ one: number }>("select 1 as one"))).run(), { code: "42704" });
});
