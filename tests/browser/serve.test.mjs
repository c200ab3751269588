// `oncebox serve` on Postgres with tokens: log in, look as a viewer, act as the operator.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { Browser, Program, github, pictures, stripe, until } from "./kit.mjs";

const OPERATOR = "operator-token-of-the-browser-tests";
const VIEWER = "viewer-token-of-the-browser-tests";
const STRIPE = "whsec_browser";
const GITHUB = "github-browser";
let program, browser, target, refuses = true, taken = [];

before(async () => {
  // A handler's target that can be broken and repaired.
  target = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
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
    return /Handler orders is done, at attempt 3/.test((await page.textContent("#story")).replace(/\s+/g, " "));
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
  await pictures(browser, program.admin, "/audit", "audit-acted", cookies);
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
