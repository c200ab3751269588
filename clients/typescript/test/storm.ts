/** A consumer for the storm: clients/testing/storm.py starts many of these and kills them at random. */

import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";

import { Consumer } from "../src/index.js";

const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"], max: 3 });
const consumer = new Consumer<pg.PoolClient>(pool, "storm", async (tx, one) => {
  await tx.query("insert into effects values ($1, $2, 'typescript')", [one.eventId, one.attempt]);
  await sleep(Math.random() * 50);
}, { max: 3, lease: 3_000, poll: 200 });
process.once("SIGTERM", () => consumer.stop());
await pool.query("insert into listening values ($1)", [process.env["STORM_NAME"]]);
await consumer.run();
await pool.end();
