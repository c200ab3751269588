/** A handler of its own for each test, events that are sent to it, and a look at what became of them. */

import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

import pg from "pg";

const run = promisify(execFile);

function needed(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is missing: run clients/test.sh`);
  return value;
}

export const url = needed("DATABASE_URL");
export const pool = new pg.Pool({ connectionString: url, max: 20 });
// A backend that a test ends on purpose must not end the process.
pool.on("error", () => undefined);

await pool.query("create table if not exists effects (handler text, event_id text, who text)");

export async function receive(handler: string, count = 1): Promise<void> {
  const where = ["--to", needed("ONCEBOX_TO"), "--secret", needed("WEBHOOK_SECRET")];
  const what = ["--type", `${handler}.made`, "--count", String(count), "--concurrency", "8"];
  await run(needed("ONCEBOX"), ["send", "stripe", ...where, ...what]);
}

export async function rows(text: string, ...values: unknown[]): Promise<unknown[][]> {
  return (await pool.query({ text, values, rowMode: "array" })).rows as unknown[][];
}

export async function states(handler: string): Promise<unknown[][]> {
  return rows("select state, attempt::int from oncebox.deliveries_v1 where handler = $1 order by state, key", handler);
}

export async function waitFor(handler: string, expected: string[]): Promise<void> {
  const end = Date.now() + 60_000;
  for (;;) {
    const now = (await states(handler)).map((row) => row[0]);
    if (JSON.stringify(now) === JSON.stringify([...expected].sort())) return;
    if (Date.now() > end) throw new Error(`waited too long for ${expected.join()}, there is ${now.join()}`);
    await sleep(50);
  }
}

export async function effects(handler: string): Promise<unknown[][]> {
  return rows("select event_id, who from effects where handler = $1 order by event_id", handler);
}
