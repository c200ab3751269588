/** What a client must not do for work that is over, or that never began. */

import type { Queryable } from "./functions.js";

/** A client as the work sees it. `end` says how many queries are still under way, and lets no other through. */
export function guarded<C extends Queryable>(client: C, late: () => void): { tx: C; end: () => number } {
  let underway = 0;
  let isOver = false;
  const query = (...values: unknown[]): unknown => {
    if (isOver) {
      late();
      return Promise.reject(new Error("the work has ended: await everything that it does before it returns"));
    }
    const answer: unknown = Reflect.apply(client.query, client, values);
    if (typeof (answer as { then?: unknown } | undefined)?.then === "function") {
      underway += 1;
      const told = (): void => void (underway -= 1);
      (answer as Promise<unknown>).then(told, told);
    }
    return answer;
  };
  const tx = new Proxy(client, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (name === "query") return query;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const end = (): number => {
    isOver = true;
    return underway;
  };
  return { tx, end };
}

/** Calling a generator function runs nothing of it. */
export function isGenerator(work: unknown): boolean {
  return ["[object GeneratorFunction]", "[object AsyncGeneratorFunction]"].includes(Object.prototype.toString.call(work));
}

export function refuseIterator(returned: unknown): void {
  if (typeof (returned as { next?: unknown } | null | undefined)?.next === "function") {
    throw new TypeError("the work returned an iterator that did not run; work must be an async function");
  }
}
