// `oncebox serve` on Postgres with tokens: log in, look as a viewer, act as the operator.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { Browser, Program, github, pictures, stripe, text, until } from "./kit.mjs";

const OPERATOR = "operator-token-of-the-browser-tests";
const VIEWER = "viewer-token-of-the-browser-tests";
const STRIPE = "whsec_browser";
const GITHUB = "github-browser";
let program, browser, target, refuses = true, crmRefuses = true, taken = [], sent = [];

before(async () => {
  // A handler's target that can be broken and repaired.
  target = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      if (request.url === "/later") return response.writeHead(503).end("closed for the night");
      if (request.url.startsWith("/crm/")) {
        if (!crmRefuses) sent.push(request.headers["idempotency-key"]);
        return response.writeHead(crmRefuses ? 422 : 200).end(crmRefuses ? "no such customer" : "");
      }
      if (!refuses) taken.push(request.headers["webhook-id"]);
      response.writeHead(refuses ? 500 : 200).end(refuses ? "order 4711 is not there yet" : "");
    });
  }).listen(0, "127.0.0.1");
  await once(target, "listening");
  const config = `
    [server]
    admin_token = { value = "${OPERATOR}" }
    viewer_token = { value = "${VIEWER}" }
    public_url = "https://hooks.example.com"
    [[source]]
    name = "stripe"
    provider = "stripe"
    secrets = [{ value = "whsec_old" }, { value = "${STRIPE}" }]
    [[source]]
    name = "github"
    provider = "github"
    secrets = [{ value = "${GITHUB}" }]
    [[handler]]
    name = "orders"
    sources = ["stripe"]
    http = { url = "http://127.0.0.1:${target.address().port}/" }
    retry = { attempts = 2, base = "1s", cap = "1s" }
    [[handler]]
    name = "mirror"
    pull = true
    [[source]]
    name = "billing"
    provider = "stripe"
    secrets = [{ value = "${STRIPE}" }]
    [[handler]]
    name = "later"
    sources = ["billing"]
    http = { url = "http://127.0.0.1:${target.address().port}/later" }
    retry = { attempts = 5, base = "24h", cap = "24h" }
    [[destination]]
    name = "crm"
    url = "http://127.0.0.1:${target.address().port}/crm/"
  `;
  [program, browser] = await Promise.all([Program.serve(config), Browser.open()]);
});

after(async () => {
  await browser?.close();
  await program?.stop();
  target?.close();
});

async function logIn(token, options = {}) {
  const page = await browser.page({ base: program.admin, ...options });
  await page.goto("/events");
  await page.waitForURL(/\/login\?next=/);
  await page.fill("[name=token]", token);
  await page.click("button");
  await page.waitForURL("**/events");
  return page;
}

test("nobody looks without a token", async () => {
  const page = await browser.page({ base: program.admin });
  await page.goto("/login");
  await page.fill("[name=token]", "wrong");
  const [answer] = await Promise.all([page.waitForResponse("**/login"), page.click("button")]);
  assert.equal(answer.status(), 401);
  assert.match(await page.textContent("[role=alert]"), /opens nothing/);
  // The browser notes the 401 itself.
  browser.wrongs = browser.wrongs.filter((wrong) => !wrong.includes("401"));
  await page.context().close();
  await pictures(browser, program.admin, "/login", "login");
});

test("a dead letter is replayed and turns done", async () => {
  for (const id of ["evt_dead_1", "evt_dead_2", "evt_dead_3"]) {
    assert.equal((await stripe(program.public, STRIPE, { id, type: "order.paid", data: { object: { id } } })).status, 200);
  }
  await until("three dead letters", async () => (await program.api("/dead-letters", { token: OPERATOR })).items.length === 3);
  const page = await logIn(OPERATOR);
  const cookies = await page.context().cookies();
  await page.goto("/");
  assert.match(await page.textContent("#live-concerns"), /3 dead letters gave up/);
  assert.equal((await page.textContent("#first-try-error-rate")).trim(), "100 %");
  await page.goto("/events");
  assert.equal(await page.locator("tbody .mark.dead").count(), 3);
  await page.goto("/dead-letters");
  assert.match(await page.textContent("main"), /3 dead/);
  await pictures(browser, program.admin, "/dead-letters", "dead-letters", cookies);

  await page.click("main [data-open]");
  assert.match(await page.textContent("#story"), /gave up after attempt 2/);
  await pictures(browser, program.admin, new URL(page.url()).pathname, "event-dead", cookies);
  assert.equal(await page.locator("text=Replay this one…").count(), 1);
  refuses = false;
  await page.click("text=Replay…");
  assert.equal((await page.textContent("h1")).trim(), "Replay 1 dead letter?");
  await pictures(browser, program.admin, new URL(page.url()).href, "act", cookies);
  await page.click("#confirm");
  await page.waitForURL("**/audit/*");
  assert.match(await page.textContent("#result"), /It concerned 1/);
  await page.click("text=To the event");
  await until("the delivery is done", async () => {
    await page.reload();
    return /Handler orders is done, at attempt 3/.test(await text(page, "#story"));
  });
  assert.equal(taken.length, 1);

  await page.goto("/dead-letters");
  await page.click("text=Replay all of this handler…");
  assert.equal((await page.textContent("h1")).trim(), "Replay 2 dead letters?");
  await page.click("#confirm");
  await until("all are done", () => new Set(taken).size === 3);
  await page.goto("/dead-letters");
  assert.ok(await page.isVisible(".empty"));
  await page.context().close();
});

test("what is held is released after a question that says what it does", async () => {
  const body = { zen: "Keep it logically awesome.", hook_id: 1 };
  for (const id of ["a1111111-2222-3333-4444-555555555555", "b1111111-2222-3333-4444-555555555555"]) {
    assert.equal((await github(program.public, GITHUB, { id, type: "ping", body })).status, 200);
  }
  const page = await logIn(OPERATOR);
  const cookies = await page.context().cookies();
  await page.goto("/held");
  assert.match(await page.textContent("main"), /same bytes came before/);
  await pictures(browser, program.admin, "/held", "held", cookies);
  await page.click("text=Release…");
  await page.click("#confirm");
  await page.waitForURL("**/audit/*");
  await page.click("text=To the event");
  assert.match(await page.textContent("h1 + .mark"), /accepted/);
  assert.match(await text(page, "#story"), /answered held\..*It was held: the same bytes came before.*A person has decided since/);
  await pictures(browser, program.admin, "/audit", "audit-acted", cookies);
  await page.context().close();
});

test("a failed attempt says why, and when the next one comes", async () => {
  const event = { id: "evt_later", type: "invoice.paid", data: { object: { id: "in_7", paid: true } } };
  for (let copy = 0; copy < 3; copy++) assert.equal((await stripe(program.public, STRIPE, event, "billing")).status, 200);
  const told = await until("it failed and came three times", async () => {
    const { items } = await program.api("/events?id=evt_later", { token: OPERATOR });
    const one = await program.api(`/events/${items[0].key}`, { token: OPERATOR });
    return one.attempts.length === 1 && one.arrivals === 3 && one;
  });
  const page = await logIn(OPERATOR);
  await page.goto(`/find?q=${told.event_id}`);
  assert.equal(new URL(page.url()).pathname, `/events/${told.key}`);
  assert.match(await text(page, "#story"), /Handler later failed once so far and will be tried again/);
  const panel = page.locator("section.panel", { hasText: "Deliveries and attempts" });
  const failed = panel.locator(".timeline li.failed");
  assert.match((await failed.textContent()).replace(/\s+/g, " "), /Attempt 1 failed · HTTP 503 · took \d+ (ms|s).*503/);
  const next = panel.locator(".timeline li.ready", { hasText: "Attempt 2 is next" });
  assert.match(await next.textContent(), /in \d+ (h|min|s|ms)/);
  const rows = page.locator('[aria-label="Arrivals"] tbody tr');
  assert.equal(await rows.count(), 3);
  for (const row of await rows.all()) {
    assert.ok(!Number.isNaN(Date.parse(await row.locator("time").getAttribute("datetime"))));
    assert.match(await row.textContent(), /127\.0\.0\.1/);
  }
  assert.deepEqual((await rows.locator(".mark").allTextContents()), ["duplicate", "duplicate", "accepted"]);
  const leaves = (await page.locator(".tree .leaf").allTextContents()).map((leaf) => leaf.replace(/\s+/g, " "));
  assert.ok(leaves.some((leaf) => /^id .?evt_later.?$/.test(leaf)), leaves.join("\n"));
  assert.ok(leaves.some((leaf) => /^paid true$/.test(leaf)), leaves.join("\n"));
  await page.click("summary >> text=Headers");
  assert.ok(await page.isVisible("dt >> text=stripe-signature"));
  assert.ok(await page.isVisible("dd >> text=application/json"));
  await panel.locator("text=Try now…").click();
  assert.equal(await text(page, "h1"), "Try 1 waiting delivery now?");
  await page.click("#confirm");
  await page.waitForURL("**/audit/*");
  assert.match(await text(page, "main"), /replay.*waiting.*true/);
  await until("it is tried a second time, a day before its time", async () => {
    return (await program.api(`/events/${told.key}`, { token: OPERATOR })).attempts.length === 2;
  });
  await page.context().close();
});

test("a handler tries what waits, and gets what is stored", async () => {
  const page = await logIn(OPERATOR);
  const row = page.locator("#handler-later");
  await page.goto("/handlers");
  await row.locator("text=Try now…").click();
  assert.match(await text(page, "h1"), /^Try \d+ waiting deliver(y|ies) now\?$/);
  await page.click("text=No, go back");
  await page.waitForURL("**/handlers");
  await row.locator("[name=since]").fill("7d");
  await row.locator("text=Backfill…").click();
  assert.equal(await text(page, "h1"), "Give 0 stored events to later?");
  assert.ok(await page.isDisabled("#confirm"), "it had all of them");
  await page.context().close();
});

test("a message that gave up is replayed from its page", async () => {
  const [{ id }] = await program.sql("select oncebox.send('crm', body => $1::text, path => 'customers/7') as id", ['{"name":"Ada"}']);
  await until("it gave up", async () => (await program.api(`/outbox/${id}`, { token: OPERATOR })).state === "dead");
  const page = await logIn(OPERATOR);
  const cookies = await page.context().cookies();
  await page.goto("/destinations");
  assert.equal(await page.textContent('tbody tr:has-text("crm") [data-name=dead]'), "1");
  await pictures(browser, program.admin, "/destinations", "destinations", cookies);
  await page.click("tbody [data-open]");
  await page.waitForURL("**/outbox?destination=crm");
  assert.match(await text(page, "main tbody"), /crm dead 1 ?answered 422/);
  await pictures(browser, program.admin, "/outbox", "outbox", cookies);
  await page.goto("/dead-letters");
  assert.match(await text(page, "main"), /destination crm ?1 dead/);
  assert.match(await text(page, "main"), /the latest was written/);
  await page.click("main tbody [data-open]");
  await page.waitForURL(`**/outbox/${id}`);
  assert.match(await text(page, ".timeline"), /Attempt 1 dead · HTTP 422/);
  assert.match(await text(page, "main"), /POST customers\/7.*\{"name":"Ada"\}.*no such customer/);
  await pictures(browser, program.admin, `/outbox/${id}`, "message-dead", cookies);
  crmRefuses = false;
  await page.click("text=Replay…");
  assert.equal(await text(page, "h1"), "Replay 1 dead message?");
  await page.click("#confirm");
  await page.waitForURL("**/audit/*");
  assert.match(await page.textContent("#result"), /It concerned 1/);
  await until("it is taken", async () => {
    await page.goto(`/outbox/${id}`);
    return (await page.textContent("h1 + .mark")) === "sent";
  });
  assert.match(await text(page, ".timeline"), /Taken by the destination · HTTP 200/);
  assert.equal(sent.length, 1);
  await page.goto("/dead-letters");
  assert.ok(await page.isVisible(".empty"));
  await page.context().close();
});

test("a viewer sees actions and cannot use them", async () => {
  await stripe(program.public, STRIPE, { id: "evt_viewer", type: "order.paid" });
  const page = await logIn(VIEWER);
  await page.click("main [data-open]");
  assert.equal(await page.locator("main a.button").count(), 0);
  assert.ok((await page.locator("main .button[aria-disabled=true]").count()) > 0);
  const key = new URL(page.url()).pathname.split("/").pop();
  await page.goto(`/act/forget?key=${key}`);
  assert.ok(await page.isDisabled("#confirm"));
  // A viewer who sends the form nevertheless is refused.
  const token = await page.getAttribute("form.actions [name=form_token]", "value");
  const status = await page.evaluate(
    async ([key, form_token]) =>
      (await fetch("/act/forget", { method: "POST", body: new URLSearchParams({ key, form_token }) })).status,
    [key, token],
  );
  assert.equal(status, 403);
  browser.wrongs = browser.wrongs.filter((wrong) => !wrong.includes("403"));
  await page.context().close();
});

test("a page whose session has ended leads to the login", async () => {
  const page = await logIn(VIEWER);
  await page.goto("/");
  await page.context().clearCookies();
  await page.waitForSelector("#old .note");
  assert.match(await text(page, "#old"), /^Your session has ended; this page is as it was at .* Log in again$/);
  await page.click("#old a");
  await page.waitForURL(/\/login\?next=/);
  await page.context().close();
});

test("a source shows its URL, its guide and which secrets are in use", async () => {
  const page = await logIn(OPERATOR);
  const cookies = await page.context().cookies();
  await page.goto("/sources/stripe");
  const text = (await page.textContent("main")).replace(/\s+/g, " ");
  assert.match(text, /https:\/\/hooks\.example\.com\/in\/stripe/);
  assert.match(text, /not yet/);
  for (const secret of [STRIPE, GITHUB, "whsec_old", OPERATOR, VIEWER]) assert.ok(!(await page.content()).includes(secret));
  await pictures(browser, program.admin, "/sources/stripe", "source", cookies);
  await pictures(browser, program.admin, "/handlers", "handlers-serve", cookies);
  await pictures(browser, program.admin, "/", "overview-serve", cookies);
  await page.click(".side >> text=Log out");
  await page.waitForURL("**/login");
  await page.goto("/");
  await page.waitForURL(/\/login\?next=/);
  await page.context().close();
});

test("nothing wrong happened in any page", () => {
  assert.deepEqual(browser.wrongs, []);
});
