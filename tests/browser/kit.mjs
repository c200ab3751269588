// What the browser tests share: the real program on free ports, a Chromium that counts whatever must not happen, and a
// sender that signs like Stripe and GitHub.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { chromium as playwright } from "playwright-core";

export const PATIENCE_MS = 60_000;
const program = process.env.ONCEBOX;
const screenshots = process.env.ONCEBOX_SCREENSHOTS;

export async function until(what, look) {
  const end = Date.now() + PATIENCE_MS;
  let found;
  do {
    found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  } while (Date.now() < end);
  assert.fail(`not within ${PATIENCE_MS / 1000} s: ${what}`);
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

async function query(connectionString, statement, values) {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return (await client.query(statement, values)).rows;
  } finally {
    await client.end();
  }
}

/** What a part of a page says, with every gap as one space; folded parts too. */
export async function text(page, selector) {
  return (await page.textContent(selector)).replace(/\s+/g, " ").trim();
}

/** A running program with its own folder; `stop` ends it and removes everything. */
export class Program {
  static async dev() {
    const self = new Program();
    await self.#start(["dev", "--database", `sqlite:${self.folder}/oncebox.db`]);
    return self;
  }

  static async serve(config, env = {}) {
    const self = new Program();
    await self.#makeDatabase();
    writeFileSync(join(self.folder, "oncebox.toml"), config);
    await self.#start(["serve", "--config", join(self.folder, "oncebox.toml")], { ...env, ONCEBOX_DATABASE: self.database });
    return self;
  }

  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "oncebox-browser-"));
  }

  async #makeDatabase() {
    this.name = `browser_${process.pid}_${randomUUID().slice(0, 8)}`;
    await this.#onServer(`create database ${this.name} template template0`);
    const url = new URL(process.env.ONCEBOX_TEST_POSTGRES);
    url.pathname = `/${this.name}`;
    this.database = url.href;
  }

  async #onServer(statement) {
    await query(process.env.ONCEBOX_TEST_POSTGRES, statement);
  }

  /** Runs a statement in the program's own database, as an application does. */
  sql(statement, values) {
    return query(this.database, statement, values);
  }

  async #start(args, env = {}) {
    this.port = await freePort();
    this.adminPort = await freePort();
    this.public = `http://127.0.0.1:${this.port}`;
    this.admin = `http://127.0.0.1:${this.adminPort}`;
    this.env = {
      ...process.env,
      ONCEBOX_LOG: "warn",
      ONCEBOX_LISTEN: `127.0.0.1:${this.port}`,
      ONCEBOX_ADMIN_LISTEN: `127.0.0.1:${this.adminPort}`,
      ...env,
    };
    this.process = spawn(program, args, { env: this.env, cwd: this.folder, stdio: ["ignore", "ignore", "inherit"] });
    await until("the program answers", async () => {
      assert.equal(this.process.exitCode, null, "the program ended");
      return fetch(`${this.admin}/readyz`).then((answer) => answer.ok, () => false);
    });
  }

  /** Runs a command of the program in its folder. */
  command(...args) {
    const run = spawnSync(program, args, { cwd: this.folder, env: this.env, encoding: "utf8" });
    assert.equal(run.status, 0, `oncebox ${args.join(" ")}: ${run.stderr}`);
    return run.stdout;
  }

  async api(path, { token, ...init } = {}) {
    const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    const answer = await fetch(`${this.admin}/api/v1${path}`, { headers, ...init });
    assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`);
    return answer.json();
  }

  /** Ends it as a crash does. */
  async crash() {
    this.process.kill("SIGKILL");
    await once(this.process, "exit");
  }

  async stop() {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill("SIGTERM");
      await once(this.process, "exit");
    }
    if (this.name) await this.#onServer(`drop database if exists ${this.name} with (force)`);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A browser whose pages report every dialog, script error and violation of the policy. */
export class Browser {
  static async open() {
    const self = new Browser();
    // For a machine without a display, where tests may run as root.
    const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
    self.browser = await playwright.launch({ executablePath: process.env.ONCEBOX_CHROMIUM, args, headless: true });
    return self;
  }

  constructor() {
    this.wrongs = [];
  }

  async page({ width = 1280, dark = false, script = true, base } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height: 900 },
      colorScheme: dark ? "dark" : "light",
      javaScriptEnabled: script,
      baseURL: base,
    });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await context.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective}`));
    });
    page.on("dialog", (dialog) => {
      this.wrongs.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("pageerror", (error) => this.wrongs.push(`error: ${error.message}`));
    page.on("console", (line) => {
      if (line.type() === "error") this.wrongs.push(`console: ${line.text()}`);
    });
    page.on("response", (answer) => {
      const isPage = answer.headers()["content-type"]?.startsWith("text/html");
      if (isPage) this.check(answer);
    });
    return page;
  }

  check(answer) {
    const headers = answer.headers();
    const policy = headers["content-security-policy"] ?? "";
    const strict = policy.includes("default-src 'none'") && policy.includes("frame-ancestors 'none'") && !policy.includes("unsafe");
    if (!strict) this.wrongs.push(`no strict policy: ${answer.url()}`);
    if (headers["x-content-type-options"] !== "nosniff") this.wrongs.push(`no nosniff: ${answer.url()}`);
  }

  async close() {
    await this.browser.close();
  }
}

/** Keeps a picture of a page as it is, in both schemes and on a phone. */
export async function pictures(browser, base, path, name, cookies = []) {
  for (const [kind, options] of [["light", {}], ["dark", { dark: true }], ["phone", { width: 390 }]]) {
    const page = await browser.page({ ...options, base });
    await page.context().addCookies(cookies);
    await page.goto(path);
    await page.waitForLoadState("load");
    // A picture of a very long page cannot be made.
    const height = await page.evaluate(() => Math.min(document.documentElement.scrollHeight, 4_000));
    const clip = { x: 0, y: 0, width: options.width ?? 1280, height };
    await page.screenshot({ path: `${screenshots}/${name}-${kind}.png`, fullPage: true, clip });
    if (kind === "phone") {
      const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(content <= window, `${path} scrolls sideways at 390 px: ${content} > ${window}`);
    }
    await page.context().close();
  }
}

export function stripe(base, secret, event, source = "stripe") {
  const body = typeof event === "string" ? event : JSON.stringify(event);
  const at = Math.floor(Date.now() / 1000);
  const signature = createHmac("sha256", secret).update(`${at}.${body}`).digest("hex");
  const headers = { "content-type": "application/json", "stripe-signature": `t=${at},v1=${signature}` };
  return fetch(`${base}/in/${source}`, { method: "POST", headers, body });
}

export function github(base, secret, { id, type, body, more = {} }) {
  const text = JSON.stringify(body);
  const signature = createHmac("sha256", secret).update(text).digest("hex");
  const headers = {
    "content-type": "application/json",
    "x-github-event": type,
    "x-github-delivery": id,
    "x-hub-signature-256": `sha256=${signature}`,
    ...more,
  };
  return fetch(`${base}/in/github`, { method: "POST", headers, body: text });
}
