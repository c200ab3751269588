// One row for each event, over a pool of connections.

import pg from "pg";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 16 });
const INSERT = {
  // A name makes it a prepared statement.
  name: "insert",
  text: "insert into inbox (id, type, body) values ($1, $2, $3) on conflict (id) do nothing",
};

/** True when the event was new. */
export async function store(event, body) {
  const { rowCount } = await pool.query({ ...INSERT, values: [event.id, event.type, body] });
  return rowCount === 1;
}
