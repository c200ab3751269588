// A receiver that has each effect once: the key and the effect are one transaction.
//
// Usage: node receiver.js PORT DATABASE

import { createServer, type IncomingMessage } from "node:http";
import pg from "pg";

const [port, database] = [Number(process.argv[2]), process.argv[3]];
const pool = new pg.Pool({ connectionString: database });
await pool.query("CREATE TABLE IF NOT EXISTS effects (key text PRIMARY KEY, body text NOT NULL)");
let calls = 0;

async function receive(key: string, body: string): Promise<boolean> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    // Insert first: the unique key decides, and no row means that we did this before.
    const inserted = await client.query("INSERT INTO effects VALUES ($1, $2) ON CONFLICT DO NOTHING", [key, body]);
    const first = inserted.rowCount === 1;
    // … your own writes, only if first, in this same transaction …
    await client.query("COMMIT");
    return first;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

async function text(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

const server = createServer(async (request, response) => {
  const answer = (status: number, value: unknown) => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  };
  try {
    if (request.method !== "POST") {
      const effects = await pool.query("SELECT count(*)::int AS count FROM effects");
      return answer(200, { calls, effects: effects.rows[0].count });
    }
    const key = request.headers["idempotency-key"];
    if (typeof key !== "string") return answer(400, { error: "no idempotency-key" });
    calls += 1;
    answer(200, { first: await receive(key, await text(request)) });
  } catch {
    // Not done, so not 2xx: the message comes again under the same key.
    answer(503, { error: "try again" });
  }
});
server.listen(port, "127.0.0.1");
