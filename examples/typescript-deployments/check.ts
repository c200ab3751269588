/** Three services, a storm of duplicates, one of the services killed in the middle: each push is deployed once. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import pg from "pg";

const PUSHES = 5;
const COPIES = 30;
const { ONCEBOX, ONCEBOX_TO, WEBHOOK_SECRET, DATABASE_URL } = process.env;
assert.ok(ONCEBOX && ONCEBOX_TO && WEBHOOK_SECRET && DATABASE_URL, "run it by run.sh");

const start = (name: string, command: string, ...words: string[]): ChildProcess =>
  spawn(command, words, { stdio: "inherit", env: { ...process.env, PGAPPNAME: name } });
const ended = async (child: ChildProcess): Promise<unknown> => child.exitCode ?? (await once(child, "exit"))[0];

const service = fileURLToPath(new URL("deployments.js", import.meta.url));
const services = [1, 2, 3].map((n) => start(`service ${n}`, process.execPath, service));
process.on("exit", () => services.forEach((one) => one.kill("SIGKILL")));
const storm = start(
  "storm", ONCEBOX, "send", "github", "--to", ONCEBOX_TO, "--secret", WEBHOOK_SECRET, "--type", "push",
  "--count", String(PUSHES), "--copies", String(COPIES), "--concurrency", "10",
);

const pool = new pg.Pool({ connectionString: DATABASE_URL });
const value = async (sql: string): Promise<number> => Number(Object.values((await pool.query(sql)).rows[0])[0]);
async function reached(sql: string, wanted: number): Promise<void> {
  const end = Date.now() + 60_000;
  while ((await value(sql)) < wanted) {
    assert.ok(Date.now() < end, `waited too long: ${sql}`);
    await sleep(100);
  }
}

const done = "select count(*) from oncebox.deliveries_v1 where handler = 'deployments' and state = 'done'";
await reached(done, 1);
services.pop()?.kill("SIGKILL");
assert.equal(await ended(storm), 0);
await reached(done, PUSHES);
// The two that are left are at work, and so hear the signal; the session of the third may outlive it for a moment.
await reached(
  `select count(distinct application_name) from pg_stat_activity where datname = current_database()
   and application_name in ('service 1', 'service 2') and query like '%oncebox.claim%'`,
  2,
);
services.forEach((one) => one.kill("SIGTERM"));
assert.deepEqual(await Promise.all(services.map(ended)), [0, 0]);
// Copies are counted within two seconds.
await reached("select sum(arrivals) from oncebox.events_v1", PUSHES * COPIES);
assert.equal(await value("select count(*) from deployments"), PUSHES);
assert.equal(await value("select count(distinct sha) from deployments"), PUSHES);
assert.equal(await value("select max(number) from deployments"), PUSHES);
assert.equal(await value("select count(*) from oncebox.outbox_v1 where destination = 'chat'"), PUSHES);
await pool.end();
console.log(`typescript-deployments: ${PUSHES * COPIES} arrivals, ${PUSHES} deployments, ${PUSHES} announcements`);
