// Whatever a sender writes is shown as text: in the body, in headers, as id, type and error, on every page.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Browser, Program, github, pictures, stripe, until } from "./kit.mjs";

const SECRET = "hostile-browser";
const RUN = "globalThis.ran=(globalThis.ran||0)+1;alert(1)";
const HOSTILE = [
  `<script>${RUN}</script>`,
  `"><img src=x onerror="${RUN}">`,
  `</pre></textarea></title><script>${RUN}</script>`,
  `javascript:${RUN}`,
  `<svg onload="${RUN}"><animate onbegin="${RUN}"/></svg>`,
  `{{7*7}}{% if true %}\${7*7}<%= 7*7 %>`,
  `'-alert(1)-'\u2028alert(1)\u2029`,
  `pay\u202ediap.eciovni\u200b`,
  `<a href="javascript:${RUN}">x</a><base href="//evil.example"><meta http-equiv=refresh content="0;url=//evil.example">`,
];
let program, browser, target;

before(async () => {
  // A destination that refuses for good, and says so in its own words.
  target = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.writeHead(400, { "content-type": "text/html" }).end(HOSTILE.join("\n")));
  }).listen(0, "127.0.0.1");
  await once(target, "listening");
  const config = `
    [[source]]
    name = "stripe"
    provider = "stripe"
    secrets = [{ value = "${SECRET}" }]
    [[source]]
    name = "github"
    provider = "github"
    secrets = [{ value = "${SECRET}" }]
    [[handler]]
    name = "mirror"
    pull = true
    [[destination]]
    name = "crm"
    url = "http://127.0.0.1:${target.address().port}/"
  `;
  [program, browser] = await Promise.all([Program.serve(config), Browser.open()]);
  for (const [place, text] of HOSTILE.entries()) {
    const event = { id: `${text}${place}`.slice(0, 200), type: text.slice(0, 100), [text]: text, list: [text, { [text]: [text] }] };
    assert.equal((await stripe(program.public, SECRET, event)).status, 200);
    const plain = text.replace(/[^\x20-\x7e]/g, "?");
    const id = `00000000-0000-0000-0000-00000000000${place}`;
    const more = { "user-agent": plain, "x-hostile": plain };
    assert.equal((await github(program.public, SECRET, { id, type: plain.slice(0, 60), body: { action: text, n: place }, more })).status, 200);
  }
  await stripe(program.public, SECRET, `not json <script>${RUN}</script>`);
  // Errors are whatever a handler says.
  const claimed = await until("everything is claimed", async () => {
    const found = await program.api("/handlers/mirror/claim", { method: "POST", body: JSON.stringify({ max: 100 }) });
    return found.items.length >= HOSTILE.length && found.items;
  });
  for (const [place, { delivery, token }] of claimed.entries()) {
    const body = JSON.stringify({ token, reason: HOSTILE[place % HOSTILE.length], retry: false });
    await program.api(`/deliveries/${delivery}/fail`, { method: "POST", body });
  }
  for (const text of HOSTILE) {
    const headers = JSON.stringify({ "x-hostile": text.replace(/[^\x20-\x7e]/g, "?") });
    const said = [text, `a?b=${encodeURIComponent(text)}`, headers, text.replace(/[^\x21-\x7e]|\//g, "?").slice(0, 100)];
    await program.sql("select oncebox.send('crm', body => $1::text, path => $2, headers => $3::jsonb, key => $4)", said);
  }
  await until("every message gave up", async () => {
    return (await program.api("/outbox?state=dead&limit=100")).items.length === HOSTILE.length;
  });
  // Who acts, and upon what, is whatever somebody says.
  const filter = { type: HOSTILE[0].slice(0, 100), since: "1h" };
  for (const who of HOSTILE) {
    await program.api("/discard", { method: "POST", body: JSON.stringify({ filter, who: who.slice(0, 60) }) });
  }
});

after(async () => {
  await browser?.close();
  await program?.stop();
  target?.close();
});

async function check(page, path) {
  await page.goto(path);
  await page.waitForLoadState("load");
  const found = await page.evaluate(() => ({
    ran: globalThis.ran ?? 0,
    handlers: [...document.querySelectorAll("*")].filter((one) => [...one.attributes].some((a) => a.name.startsWith("on"))).length,
    scripts: document.querySelectorAll("script").length,
    foreign: [...document.querySelectorAll("[href],[src],[action]")]
      .map((one) => one.href ?? one.src ?? one.action)
      .filter((url) => typeof url === "string" && !url.startsWith(location.origin)).length,
    odd: document.querySelectorAll("base, meta[http-equiv], iframe, object, embed, animate").length,
    sums: document.body.textContent.includes("49{%"),
  }));
  assert.deepEqual(found, { ran: 0, handlers: 0, scripts: 1, foreign: 0, odd: 0, sums: false }, path);
}

test("nothing that a sender wrote runs, on any page", async () => {
  const page = await browser.page({ base: program.admin });
  const { items } = await program.api("/events?limit=100");
  const paths = ["/", "/tail", "/events", "/dead-letters", "/held", "/rejections", "/sources", "/handlers", "/destinations", "/outbox", "/retention", "/audit"];
  for (const text of HOSTILE) paths.push(`/events?text=${encodeURIComponent(text)}`, `/events?type=${encodeURIComponent(text)}`);
  for (const { key } of items) paths.push(`/events/${key}`);
  for (const kind of ["replay", "release", "discard", "forget"]) paths.push(`/act/${kind}?key=${items[0].key}`);
  paths.push("/sources/stripe", "/sources/github", "/act/pause?handler=mirror", "/act/resume?handler=mirror");
  const messages = (await program.api("/outbox?limit=100")).items;
  for (const { id } of messages) paths.push(`/outbox/${id}`);
  paths.push(`/act/replay?message=${messages[0].id}`, `/act/discard?message=${messages[0].id}`);
  const actions = (await program.api("/actions?limit=100")).items;
  for (const { action_id } of actions) paths.push(`/audit/${encodeURIComponent(action_id)}`);
  assert.equal(messages.length, HOSTILE.length);
  assert.ok(actions.length >= HOSTILE.length, `${actions.length} actions`);
  assert.ok(items.length >= 2 * HOSTILE.length, `${items.length} events`);
  for (const path of paths) await check(page, path);
  console.log(`hostile: ${paths.length} pages, 0 scripts ran`);
  await page.context().close();
  const shown = items.find((one) => one.source === "stripe" && one.type.includes("<script>"));
  await pictures(browser, program.admin, `/events/${shown.key}`, "hostile");
});

test("the live tail shows it as text, too", async () => {
  const page = await browser.page({ base: program.admin });
  await page.goto("/tail");
  await page.waitForSelector("#tail-dot.on");
  const text = HOSTILE[1];
  await stripe(program.public, SECRET, { id: `live ${text}`, type: text });
  await until("the row is there", () => page.evaluate(() => document.querySelector("#tail .fresh")?.textContent.includes("onerror")));
  assert.equal(await page.evaluate(() => globalThis.ran ?? 0), 0);
  assert.equal(await page.locator("#tail img").count(), 0);
  await stripe(program.public, SECRET, { id: "turned", type: "pay\u202ediap" });
  await page.getByText("pay\\u{202e}diap", { exact: true }).waitFor();
  await page.context().close();
});

test("names in the address are not echoed as markup", async () => {
  const page = await browser.page({ base: program.admin });
  for (const path of ["/events/", "/sources/", "/outbox/", "/audit/", "/act/", "/events?source=", "/events?cursor=", "/act/replay?handler=", "/nowhere/"]) {
    await page.goto(path + encodeURIComponent(HOSTILE[0]));
    assert.equal(await page.evaluate(() => globalThis.ran ?? 0), 0, path);
  }
  browser.wrongs = browser.wrongs.filter((wrong) => !/40[04]/.test(wrong));
  await page.context().close();
});

test("raw bytes are a download that no browser runs", async () => {
  const { items } = await program.api("/events?limit=1");
  const answer = await fetch(`${program.admin}/api/v1/events/${items[0].key}/payload`);
  assert.match(answer.headers.get("content-disposition"), /^attachment/);
  assert.equal(answer.headers.get("content-type"), "application/octet-stream");
  assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
  assert.match(answer.headers.get("content-security-policy"), /default-src 'none'/);
});

test("nothing wrong happened in any page", () => {
  assert.deepEqual(browser.wrongs, []);
});
