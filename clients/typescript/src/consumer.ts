/** The loop around the functions: claim, your work and `finish` in one transaction, `fail` when it throws. */

import { setTimeout as sleep } from "node:timers/promises";

import {
  BEGIN_MARKED, type Delivery, type Fence, LeaseLost, type Queryable, TransactionEnded,
  claim, extend, fail, finishMarked, giveBack, hasEnded,
} from "./functions.js";
import { guarded, isGenerator, refuseIterator } from "./guarded.js";

/** A client of a pool of node-postgres. */
export interface Client extends Queryable {
  release(error?: Error | boolean): void;
  on?(event: "error", listener: () => void): unknown;
  off?(event: "error", listener: () => void): unknown;
}

/** A pool of node-postgres; it needs two connections for each consumer. */
export interface Pool<C extends Client = Client> extends Queryable {
  connect(): Promise<C>;
  on?(event: "error", listener: () => void): unknown;
  off?(event: "error", listener: () => void): unknown;
}

/** A pool, also one whose `connect` can be told what to call, as node-postgres's: so its client's type is found. */
export type AnyPool<C extends Client = Client> = Pool<C> | (Queryable & {
  connect: { (): Promise<C>; (callback: (error: Error | undefined, client: C | undefined, done: () => void) => void): void };
  on?(event: "error", listener: () => void): unknown;
  off?(event: "error", listener: () => void): unknown;
});

/** Your work: what it writes through `tx` is committed with the delivery's mark, or not at all. */
export type Work<C extends Client = Client> = (tx: C, delivery: Delivery) => Promise<unknown>;

/** Times in milliseconds. Leases are extended in the background: `lease` is how soon others take over from the dead. */
export interface ConsumerOptions {
  max?: number; lease?: number; poll?: number;
  log?: (message: string, error?: unknown) => void;
}

/** The next query says that a connection is gone; nobody listening to the event would end the process. */
const unheard = (): void => undefined;

/** Where it broke is worth a line, unless the work itself said why. */
function warn(message: string, error?: unknown): void {
  const isSaid = error instanceof Retry || error instanceof Reject || error instanceof LeaseLost;
  console.warn(...(isSaid || error === undefined ? [message] : [message, error]));
}

/** Throw it from your work to try again later. */
export class Retry extends Error {}

/** Throw it from your work when no try will ever succeed: the delivery becomes a dead letter. */
export class Reject extends Error {}

/** Runs your work for each delivery of a handler, in one transaction with its mark. */
export class Consumer<C extends Client = Client> {
  readonly #options: Required<ConsumerOptions>;
  readonly #stopping = new AbortController();
  #held = new Map<string, Fence>();

  constructor(
    private readonly pool: AnyPool<C>, private readonly handler: string, private readonly work: Work<C>,
    options: ConsumerOptions = {},
  ) {
    if (isGenerator(work)) throw new TypeError("work must be an async function: a generator function returns before it has run");
    this.#options = { max: 10, lease: 60_000, poll: 1_000, log: warn, ...options };
  }

  /** Asks the loop to end: what runs is finished, what was not begun is given back. Await `run` for the end. */
  stop(): void {
    this.#stopping.abort();
  }

  /** Works until it is asked to stop. A lost connection is opened again. */
  async run(): Promise<void> {
    this.pool.on?.("error", unheard);
    const beat = setInterval(() => void this.#keepLeases(), this.#options.lease / 3);
    try {
      while (!this.#stopping.signal.aborted) {
        try {
          const claimed = await claim(this.pool, this.handler, this.#options);
          if (claimed.length === 0) await this.#pause(this.#options.poll * (0.5 + Math.random() / 2));
          this.#held = new Map(claimed.map(({ delivery, token }) => [delivery, { delivery, token }]));
          // A body is let go once its work is done.
          for (let one = claimed.shift(); one; one = claimed.shift()) {
            // What the heartbeat found lost is not begun.
            if (this.#stopping.signal.aborted || !this.#held.has(one.delivery)) continue;
            await this.#attempt(one);
            this.#held.delete(one.delivery);
          }
        } catch (error) {
          // A handler or a right that is not there will not come by waiting.
          if (String((error as { code?: unknown }).code).startsWith("42")) throw error;
          this.#options.log(`the database is away: ${String(error)}`, error);
          this.#held.clear();
          await this.#pause(1_000);
        }
      }
      // A connection that is gone cannot give back; then the lease ends by itself.
      await Promise.allSettled([...this.#held.values()].map((one) => giveBack(this.pool, one)));
    } finally {
      clearInterval(beat);
      this.pool.off?.("error", unheard);
    }
  }

  async #attempt(one: Delivery): Promise<void> {
    const client = await this.pool.connect();
    client.on?.("error", unheard);
    try {
      await client.query(BEGIN_MARKED);
      await this.#run(client, one);
      await finishMarked(client, one);
      await client.query("commit");
      client.off?.("error", unheard);
      client.release();
    } catch (error) {
      const rolledBack = await client.query("rollback").then(() => true, () => false);
      if (rolledBack) client.off?.("error", unheard);
      client.release(!rolledBack);
      // Without its connection nothing can be said; the lease ends, and the row tells what was committed.
      if (!rolledBack) throw error;
      if (error instanceof LeaseLost) return this.#options.log(`rolled back: ${error.message}`, error);
      // What was committed cannot be taken back, so it must not be done again.
      const isLast = error instanceof Reject || error instanceof TransactionEnded;
      const reason = isLast || error instanceof Retry ? error.message : String(error);
      this.#options.log(`${one.source} ${one.eventId} failed: ${reason}`, error);
      await fail(this.pool, one, reason, !isLast).catch((lost) => {
        if (!(lost instanceof LeaseLost)) throw lost;
      });
    }
  }

  async #run(client: C, one: Delivery): Promise<void> {
    const guard = guarded(client, () => this.#options.log(`${one.source} ${one.eventId}: a query after the work had ended`));
    try {
      refuseIterator(await this.work(guard.tx, one));
    } catch (error) {
      guard.end();
      if (!(await hasEnded(client))) throw error;
      throw new TransactionEnded(`; it failed, too: ${String(error)}`, { cause: error });
    }
    if (guard.end() > 0) throw new Error("the work returned before its queries had ended: await each of them");
  }

  async #keepLeases(): Promise<void> {
    for (const one of [...this.#held.values()]) {
      try {
        await extend(this.pool, one, this.#options.lease);
      } catch (error) {
        if (error instanceof LeaseLost) this.#held.delete(one.delivery);
        else this.#options.log(`a lease could not be extended: ${String(error)}`, error);
      }
    }
  }

  async #pause(milliseconds: number): Promise<void> {
    await sleep(milliseconds, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
  }
}
