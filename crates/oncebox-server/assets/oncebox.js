// The dashboard's only script. Every page works without it; with it pages stay fresh, the tail is live, and the
// keyboard is enough. What a sender wrote only ever becomes the text of a node, never markup.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);

document.documentElement.classList.add("with-script");

// ---- Fresh numbers: the same page is fetched again and its live parts are exchanged.

const REFRESH_MS = 5000;

async function refresh() {
  const parts = all("[data-live]");
  if (!parts.length || document.hidden) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) {
    // Nothing is exchanged under somebody's hands.
    const fresh = page.getElementById(part.id);
    if (fresh && !part.contains(document.activeElement)) part.replaceChildren(...fresh.childNodes);
  }
}

if (one("[data-live]")) {
  setInterval(() => refresh().catch(() => {}), REFRESH_MS);
  document.addEventListener("visibilitychange", () => refresh().catch(() => {}));
}

// ---- The live tail.

const ROWS_MAX = 500;

function tail(table) {
  const rows = one("tbody", table);
  const template = one("#tail-row");
  const pill = one("#tail-new");
  const pause = one("#tail-pause");
  const dot = one("#tail-dot");
  const said = one("#tail-said");
  const shown = new Set(all("tr[data-key]", rows).map((row) => row.dataset.key));
  let waiting = [];
  let paused = false;

  const link = new URL("/api/v1/tail", location.href);
  for (const name of ["source", "type", "state"]) {
    const value = new URLSearchParams(location.search).get(name);
    if (value) link.searchParams.set(name, value);
  }
  link.searchParams.set("after", table.dataset.after);

  function draw(event) {
    const row = template.content.cloneNode(true);
    const field = (name) => one(`[data-field="${name}"]`, row);
    one("tr", row).dataset.key = event.key;
    field("time").textContent = `${event.received_at.slice(11, 19)} UTC`;
    field("time").dateTime = event.received_at;
    field("time").title = event.received_at;
    field("source").textContent = event.source;
    field("type").textContent = event.type || "(no type)";
    field("type").href = `/events/${encodeURIComponent(event.key)}`;
    field("id").textContent = event.event_id;
    field("state").textContent = event.state;
    field("state").classList.add(event.state);
    field("arrivals").textContent = event.arrivals > 1 ? `${event.arrivals} times` : "once";
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

  const stream = new EventSource(link);
  stream.addEventListener("open", () => dot.classList.add("on"));
  stream.addEventListener("error", () => dot.classList.remove("on"));
  stream.addEventListener("event", (message) => {
    const event = JSON.parse(message.data);
    if (shown.has(event.key)) return;
    shown.add(event.key);
    waiting = [...waiting, event].slice(-ROWS_MAX);
    if (paused || scrollY > 200) tell();
    else show();
  });
  pill.addEventListener("click", () => {
    scrollTo({ top: 0 });
    show();
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused) show();
  });
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
