/** Each function, on a real Postgres, in the transactions of the libraries that the README names. */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import pg from "pg";

import { AlreadyDone, type Delivery, LeaseLost, type Queryable, claim, extend, fail, finish, giveBack, newer, once, send } from "../src/index.js";
import { effects, pool, receive, rows, states, url } from "./inbox.js";

after(() => pool.end());

async function transaction<T>(work: (tx: pg.PoolClient) => Promise<T>, end = "commit"): Promise<T> {
  const tx = await pool.connect();
  try {
    await tx.query("begin");
    const answer = await work(tx);
    await tx.query(end);
    return answer;
  } catch (error) {
    await tx.query("rollback");
    throw error;
  } finally {
    tx.release();
  }
}

const insert = (tx: Queryable, handler: string, one: Delivery, who: string) =>
  tx.query("insert into effects values ($1, $2, $3)", [handler, one.eventId, who]);

test("once is true once and rolls back with the transaction", async () => {
  assert.equal(await transaction((tx) => once(tx, "stripe", "evt_1"), "rollback"), true);
  assert.equal(await transaction((tx) => once(tx, "stripe", "evt_1")), true);
  assert.equal(await transaction((tx) => once(tx, "stripe", "evt_1")), false);
  assert.equal(await transaction((tx) => once(tx, "github", "evt_1")), true);
});

test("a claim brings the event", async () => {
  await receive("h01");
  const [one] = await claim(pool, "h01", { max: 5, lease: 60_000 });
  assert.ok(one);
  assert.deepEqual([one.source, one.type, one.attempt], ["stripe", "h01.made", 1]);
  assert.equal(JSON.parse(one.body.toString()).id, one.eventId);
  const left = one.leaseUntil.getTime() - Date.now();
  assert.ok(left > 40_000 && left < 70_000, `${left} ms`);
  assert.ok((await extend(pool, one, 540_000)) > one.leaseUntil);
  assert.deepEqual(await claim(pool, "h01"), []);
  await giveBack(pool, one);
  assert.deepEqual(await states("h01"), [["ready", 0]]);
  const [again] = await claim(pool, "h01");
  assert.ok(again);
  assert.equal(await fail(pool, again, "a\0b", false), "dead");
  assert.deepEqual(await rows("select last_error from oncebox.deliveries_v1 where handler = 'h01'"), [["a\ufffdb"]]);
});

test("paused past its lease it rolls back and the other's writes stand", async () => {
  await receive("h02");
  const [stale] = await claim(pool, "h02", { lease: 1_000 });
  assert.ok(stale);
  const paused = transaction(async (tx) => {
    await insert(tx, "h02", stale, "paused");
    let current: Delivery | undefined;
    while (!current) {
      await sleep(100);
      [current] = await claim(pool, "h02");
    }
    const other = current;
    await transaction(async (tx) => (await insert(tx, "h02", other, "other"), await finish(tx, other)));
    await finish(tx, stale);
  });
  await assert.rejects(paused, LeaseLost);
  assert.deepEqual(await effects("h02"), [[stale.eventId, "other"]]);
  assert.deepEqual(await states("h02"), [["done", 2]]);
});

test("versions only rise", async () => {
  const asked: [number | bigint, boolean][] = [[5, false], [5n, false], [5, true], [4, true], [9007199254740993n, false]];
  const answers: boolean[] = [];
  for (const [version, orEqual] of asked) {
    answers.push(await transaction((tx) => newer(tx, "h03", "sub_1", version, orEqual)));
  }
  assert.deepEqual(answers, [true, false, true, false, true]);
});

test("a message is written with the mark", async () => {
  await receive("h04");
  const [one] = await claim(pool, "h04");
  assert.ok(one);
  const message = { delivery: one, step: "notify", headers: { "x-a": "b" }, path: "v1" };
  await transaction((tx) => send(tx, "crm", { name: "ü" }, message), "rollback");
  const id = await transaction(async (tx) => {
    const written = await send(tx, "crm", { name: "ü" }, message);
    await finish(tx, one);
    return written;
  });
  await assert.rejects(send(pool, "crm", "again", message), { code: "23505" });
  assert.equal(await send(pool, "crm", new Uint8Array([0, 255]), { key: "k" }), await send(pool, "crm", "other", { key: "k" }));
  const row = await rows("select idempotency_key, state from oncebox.outbox_v1 where id = $1", id);
  assert.deepEqual(row, [[`${one.delivery}/crm/notify`, "ready"]]);
});

type InTransaction = <T>(work: (tx: Queryable) => Promise<T>) => Promise<T>;

/** What an application does in a transaction of its own library. */
async function check(handler: string, inTransaction: InTransaction): Promise<void> {
  await receive(handler);
  const failed = inTransaction(async (tx) => {
    assert.equal(await once(tx, handler, "evt_1"), true);
    throw new Error("rolled back");
  });
  await assert.rejects(failed, /rolled back/);
  const [one] = await inTransaction((tx) => claim(tx, handler, { lease: 30_000 }));
  assert.ok(one);
  assert.ok(one.receivedAt.getTime() > 0 && one.body.length > 0);
  await inTransaction(async (tx) => {
    assert.equal(await once(tx, handler, "evt_1"), true);
    assert.equal(await newer(tx, handler, "sub_1", 1), true);
    await extend(tx, one, 30_000);
    await send(tx, "crm", { a: 1 }, { delivery: one, step: "notify" });
    await finish(tx, one);
  });
  await assert.rejects(inTransaction((tx) => finish(tx, one)), AlreadyDone);
  assert.equal(await inTransaction((tx) => once(tx, handler, "evt_1")), false);
  assert.deepEqual(await states(handler), [["done", 1]]);
}

test("inside a Kysely transaction", async () => {
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) });
  await check("h05", (work) => db.transaction().execute((trx) =>
    work({ query: (text, values = []) => trx.executeQuery(CompiledQuery.raw(text, values)) })));
  await db.destroy();
});

test("inside a Drizzle transaction", async () => {
  const db = drizzle(pool);
  await check("h06", (work) => db.transaction((tx) =>
    work({
      query: (text, values = []) =>
        tx.execute(sql.join(text.split(/\$\d+/).flatMap((part, n) => (n ? [sql.param(values[n - 1]), sql.raw(part)] : [sql.raw(part)])))),
    })));
});

test("inside whatever has the form of a Prisma transaction", async () => {
  // Prisma fetches an engine when it is set up, which tests cannot rely on: this is how it is called and how it fails.
  const $queryRawUnsafe = async (client: pg.PoolClient, text: string, ...values: unknown[]) => {
    try {
      return (await client.query(text, values)).rows as unknown[];
    } catch (error) {
      const meta = { driverAdapterError: { name: "DriverAdapterError", cause: { code: (error as pg.DatabaseError).code } } };
      throw Object.assign(new Error("Raw query failed"), { code: "P2010", meta });
    }
  };
  await check("h07", (work) => transaction((client) =>
    work({ query: async (text, values = []) => ({ rows: await $queryRawUnsafe(client, text, ...values) }) })));
});
