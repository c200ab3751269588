// The dashboard's only script. Every page works without it; with it pages stay fresh, the tail is live, and the
// keyboard is enough. What a sender wrote only ever becomes the text of a node, never markup.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);

document.documentElement.classList.add("with-script");

// As the pages have it from the server: what cannot be seen, or turns what stands beside it, is spelt out.
const UNSEEN = /(?![\n\t])[\p{Cc}\p{DI}\u2028\u2029\u2800\ufff9-\ufffb]/gu;
const visible = (text) => text.replace(UNSEEN, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
const kind = (type) => (type ? (type.trim() ? visible(type) : "(blank type)") : "(no type)");

// ---- Fresh numbers: the same page is fetched again and its live parts are exchanged.

const REFRESH_MS = 5000;
const ANSWER_MS = 10_000;
let answered = new Date();

const clock = (time) => `${time.toISOString().slice(11, 19)} UTC`;

// Old numbers look like new ones: a page that is no longer answered says so, once.
function tellOld(why = "", link) {
  const place = one("#old");
  if (!place || place.dataset.why === why) return;
  place.dataset.why = why;
  place.replaceChildren();
  if (!why) return;
  const note = document.createElement("p");
  note.className = "note bad";
  note.append(`${why}; this page is as it was at ${clock(answered)}. `, link ?? "");
  place.append(note);
}

function toLogin() {
  const link = document.createElement("a");
  link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "Log in again";
  return link;
}

// The answer of our own server; none where it gives none, which the page then says.
async function ask(link, accept) {
  let answer;
  try {
    answer = await fetch(link, { headers: { accept }, redirect: "manual", signal: AbortSignal.timeout(ANSWER_MS) });
  } catch {
    return tellOld("No answer from the server");
  }
  if (answer.type === "opaqueredirect" || answer.status === 401) return tellOld("Your session has ended", toLogin());
  if (!answer.ok) return tellOld(`The server answers ${answer.status}`);
  answered = new Date();
  tellOld();
  return answer;
}

async function refresh() {
  const parts = all("[data-live]");
  if (!parts.length || document.hidden) return;
  const answer = await ask(location.href, "text/html");
  if (!answer) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) {
    // Nothing is exchanged under somebody's hands.
    const fresh = page.getElementById(part.id);
    if (fresh && !part.contains(document.activeElement)) part.replaceChildren(...fresh.childNodes);
  }
}

if (one("[data-live]")) {
  // A body that breaks off is made up for by the next one.
  setInterval(() => refresh().catch(() => {}), REFRESH_MS);
  document.addEventListener("visibilitychange", () => refresh().catch(() => {}));
}

// ---- The live tail.

const ROWS_MAX = 500;
// Rows, from the newest, whose arrivals are counted again.
const COUNTED_ROWS = 100;
const COUNT_MS = 2000;
const REOPEN_MS = 5000;

const times = (arrivals) => (arrivals > 1 ? `${arrivals} times` : "once");

function tail(table) {
  const rows = one("tbody", table);
  const template = one("#tail-row");
  const pill = one("#tail-new");
  const pause = one("#tail-pause");
  const dot = one("#tail-dot");
  const state = one("#tail-state");
  const said = one("#tail-said");
  const shown = new Set(all("tr[data-key]", rows).map((row) => row.dataset.key));
  let waiting = [];
  let paused = false;
  let open = false;
  let after = table.dataset.after;

  function filtered(path) {
    const link = new URL(path, location.href);
    for (const name of ["source", "type", "state"]) {
      const value = new URLSearchParams(location.search).get(name)?.trim();
      if (value) link.searchParams.set(name, value);
    }
    return link;
  }

  function draw(event) {
    const row = template.content.cloneNode(true);
    const field = (name) => one(`[data-field="${name}"]`, row);
    one("tr", row).dataset.key = event.key;
    field("time").textContent = clock(new Date(event.received_at));
    field("time").dateTime = event.received_at;
    field("time").title = event.received_at;
    field("source").textContent = event.source;
    field("type").textContent = kind(event.type);
    field("type").href = `/events/${encodeURIComponent(event.key)}`;
    field("id").textContent = visible(event.event_id);
    field("state").textContent = event.state;
    field("state").classList.add(event.state);
    field("arrivals").textContent = times(event.arrivals);
    return row;
  }

  function show() {
    if (!waiting.length) return;
    const fresh = document.createDocumentFragment();
    for (const event of waiting.reverse()) fresh.append(draw(event));
    said.textContent = waiting.length === 1 ? "1 new event" : `${waiting.length} new events`;
    waiting = [];
    rows.prepend(fresh);
    all("tr", rows).slice(ROWS_MAX).forEach((row) => {
      shown.delete(row.dataset.key);
      row.remove();
    });
    one("#tail-empty")?.remove();
    tell();
  }

  // Rows never jump under somebody who reads: then a pill says how many wait.
  function tell() {
    pill.hidden = !waiting.length;
    pill.textContent = waiting.length >= ROWS_MAX ? `${ROWS_MAX}+ new` : `${waiting.length} new`;
  }

  function tellState() {
    dot.classList.toggle("on", open && !paused);
    state.textContent = !open ? "disconnected, trying again" : paused ? "paused" : "live";
  }

  function follow() {
    const link = filtered("/api/v1/tail");
    link.searchParams.set("after", after);
    const stream = new EventSource(link);
    stream.addEventListener("open", () => {
      open = true;
      tellState();
    });
    stream.addEventListener("error", () => {
      open = false;
      tellState();
      // The browser tries again by itself, unless it was refused.
      if (stream.readyState === EventSource.CLOSED) setTimeout(follow, REOPEN_MS);
    });
    stream.addEventListener("event", (message) => {
      const event = JSON.parse(message.data);
      after = event.key;
      if (shown.has(event.key)) return;
      shown.add(event.key);
      waiting = [...waiting, event].slice(-ROWS_MAX);
      if (paused || scrollY > 200) tell();
      else show();
    });
  }

  // The stream tells of an event once. How often it came since is asked for, of the newest rows alone.
  async function count() {
    const counted = new Map(all("tr[data-key]", rows).slice(0, COUNTED_ROWS).map((row) => [row.dataset.key, row]));
    const oldest = [...counted.values()].at(-1);
    if (!oldest || paused || document.hidden) return;
    const link = filtered("/api/v1/events");
    link.searchParams.set("since", one("time", oldest).dateTime);
    link.searchParams.set("limit", COUNTED_ROWS);
    const answer = await ask(link, "application/json");
    if (!answer) return;
    for (const event of (await answer.json()).items) {
      const place = counted.get(event.key) && one(`[data-field="arrivals"]`, counted.get(event.key));
      if (place && place.textContent !== times(event.arrivals)) place.textContent = times(event.arrivals);
    }
  }

  // A slow answer is asked for less often.
  async function keepCounting() {
    const begun = performance.now();
    await count().catch(() => {});
    setTimeout(keepCounting, Math.max(COUNT_MS, 10 * (performance.now() - begun)));
  }

  pill.addEventListener("click", () => {
    scrollTo({ top: 0 });
    show();
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    tellState();
    if (!paused) show();
  });
  follow();
  setTimeout(keepCounting, COUNT_MS);
}

if (one("#tail")) tail(one("#tail"));

// ---- Copying.

document.addEventListener("click", async (click) => {
  const button = click.target.closest?.("[data-copy]");
  if (!button) return;
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  } catch {
    // Over plain HTTP there is no clipboard: mark the text, so that a key press copies it.
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
    button.textContent = "Marked: press Ctrl+C";
  }
  setTimeout(() => (button.textContent = before), 2000);
});

// ---- The keyboard.

const GO = {
  o: "/", t: "/tail", e: "/events", d: "/dead-letters", h: "/held", r: "/rejections", s: "/sources",
  w: "/handlers", m: "/outbox", c: "/destinations", p: "/retention", a: "/audit",
};
let going = false;

function move(by) {
  const links = all("[data-open]").filter((link) => link.checkVisibility?.() ?? true);
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by;
  links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
}

document.addEventListener("keydown", (press) => {
  if (press.ctrlKey || press.metaKey || press.altKey) return;
  if (press.target.closest?.("input, select, textarea")) {
    if (press.key === "Escape") press.target.blur();
    return;
  }
  const help = one("#keys");
  if (going && GO[press.key]) location.assign(GO[press.key]);
  going = press.key === "g";
  if (press.key === "/") {
    const field = all("[data-search]").find((input) => input.checkVisibility?.() ?? true);
    if (!field) return;
    press.preventDefault();
    field.focus();
    field.select();
  } else if (press.key === "j") move(1);
  else if (press.key === "k") move(-1);
  else if (press.key === "?" && help && !help.open) help.showModal();
});

document.addEventListener("click", (click) => {
  if (click.target.closest?.("[data-keys]")) one("#keys").showModal();
});
