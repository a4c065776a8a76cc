/** The server of the page of `poolpass top --web`. The page itself: top_page_in_browser_test.ts. */
import { assert, assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { readFileSync } from "node:fs";
import type { Sample } from "../../cli/top/sampler.ts";
import { type PageServer, servePage } from "../../cli/top/web/serve_page.ts";
import type { PageState } from "../../cli/top/web/page_state.ts";
import { SharingError } from "../../mod.ts";
import { poolpass, startPoolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";
import { ask, say } from "./loopback.ts";
import { sharedFramesTest, statusWhen, until } from "./shared_frames.ts";
import { exporterStatus, now } from "./statuses.ts";

const rates = { framesPerSecond: 60, bytesPerSecond: 60 * 2 ** 20, droppedPerSecond: 0.5 };

/** Samples of a listener that does not exist. */
class Samples {
  taken = 0;
  closed = 0;
  next(): Promise<Sample> {
    this.taken++;
    const status = exporterStatus();
    const [consumer] = status.statistics.channels[0]!.consumers;
    return Promise.resolve({
      status,
      time: now,
      channels: new Map([["frames", rates]]),
      consumers: new Map([[consumer!, rates]]),
      listenerPid: 0,
    });
  }
  [Symbol.asyncDispose](): Promise<void> {
    this.closed++;
    return Promise.resolve();
  }
}

function serve(sampler = new Samples(), options: { interval?: number; timeout?: number } = {}): Promise<PageServer> {
  return servePage(0, { sampler, path: "/run/frames.sock", interval: 60_000, ...options });
}

test("the page, its script and its style are served under a token alone", async () => {
  await using server = await serve();
  await using other = await serve();
  const { origin, pathname } = new URL(server.url);
  assertMatch(pathname, /^\/[\w-]{32}\/$/);
  assertNotEquals(pathname, new URL(other.url).pathname);
  const wrong = `${pathname.slice(0, -2)}${pathname.at(-2) === "A" ? "B" : "A"}/`;
  const paths = ["/", "/page.js", "//", wrong, `${wrong}state`, pathname.slice(0, -1), `${pathname}none`, "/x/state"];
  for (const path of [...paths, `${pathname}constructor`, `${pathname}../state`, new URL(other.url).pathname]) {
    const { status, body } = await ask(`${origin}${path}`);
    assertEquals([path, status, body], [path, 404, "There is nothing at this path\n"]);
  }
  for (const [name, type] of [["", "text/html"], ["page.js", "text/javascript"], ["page.css", "text/css"]] as const) {
    const { status, type: given, headers } = await ask(server.url + name);
    assertEquals([status, given], [200, `${type}; charset=utf-8`]);
    assertMatch(String(headers["content-security-policy"]), /^default-src 'none'; script-src 'self'; /);
    assert(!/unsafe|https?:|\*/.test(String(headers["content-security-policy"])));
    assertEquals([headers["referrer-policy"], headers["cache-control"]], ["no-referrer", "no-store"]);
  }
  const { body } = await ask(server.url);
  assert(!/<script>|<style|style=|\son\w+=|https?:/.test(body), "nothing inline, and nothing from elsewhere");
});

test("the script of the page is one file of at most 400 lines, which the server sends", async () => {
  const source = readFileSync(new URL("../../cli/top/web/page.js", import.meta.url), "utf8");
  assert(source.split("\n").length <= 400, `${source.split("\n").length} lines`);
  await using server = await serve();
  const { body } = await ask(`${server.url}page.js`);
  assertMatch(body, /^new \(class Page \{/);
  // It would throw a SyntaxError if it were no script.
  new Function(body);
});

test("the page is for the browsers of this machine, and reads only", async () => {
  await using server = await serve();
  const { host, port } = new URL(server.url);
  const statuses = await Promise.all([
    ask(server.url, { method: "POST" }),
    ask(server.url, { method: "HEAD" }),
    ask(`${server.url}state`, { method: "OPTIONS" }),
    ask(server.url, { headers: { host: `attacker.example:${port}` } }),
    ask(server.url, { headers: { host: "127.0.0.1.attacker.example" } }),
    ask(`${server.url}state`, { headers: { origin: "https://attacker.example" } }),
    ask(`${server.url}state`, { headers: { origin: "http://127.0.0.1:1" } }),
    ask(`${server.url}state`, { headers: { origin: "null" } }),
    ask(`${server.url}state`, { headers: { origin: `http://${host}` } }),
    ask(`${server.url}state`, { headers: { host: `localhost:${port}`, origin: `http://localhost:${port}` } }),
  ]);
  assertEquals(statuses.map(({ status }) => status), [405, 405, 405, 403, 403, 403, 403, 403, 200, 200]);
  assertEquals(statuses[0]!.headers.allow, "GET");
  const twice = `GET ${new URL(server.url).pathname} HTTP/1.1\r\nhost: ${host}\r\nhost: attacker.example\r\n\r\n`;
  assertMatch(await say(server.url, twice), /^HTTP\/1\.1 403 /);
});

test("requests that are too long or no HTTP are refused", async () => {
  await using server = await serve();
  for (const text of [`GET /${"x".repeat(20_000)}`, `GET / HTTP/1.1\r\nx: ${"x".repeat(20_000)}`, "nonsense\r\n\r\n"]) {
    assertMatch(await say(server.url, text), /^HTTP\/1\.1 400 /);
  }
});

test("browsers share samples: one in an interval, and none when nobody watches", async () => {
  const samples = new Samples();
  await using server = await serve(samples);
  assertEquals(samples.taken, 0);
  const answers = await Promise.all(Array.from({ length: 100 }, () => ask(`${server.url}state`)));
  assertEquals([...new Set(answers.map(({ status, body }) => `${status} ${body}`))].length, 1);
  const state = JSON.parse(answers[0]!.body) as PageState;
  assertEquals([samples.taken, state.rows.map(({ name }) => name)], [1, ["frames", "weights", "\\x1b[31mold\\x0a"]]);
  assertEquals(state.processes, [
    { pid: 102, byteLength: 4 * 2 ** 20, command: "" },
    { pid: 101, byteLength: 1024, command: "" },
    { pid: 0, byteLength: 1024, command: "" },
  ]);
});

test("why there is no sample is told the page, and the next request tries again", async () => {
  const samples = new Samples();
  const next = samples.next.bind(samples);
  samples.next = () => Promise.reject(new SharingError("peer-gone", "Cannot ask: it\x1b is gone"));
  await using server = await serve(samples, { interval: 0 });
  const { status, body } = await ask(`${server.url}state`);
  assertEquals([status, (JSON.parse(body) as { problem: string }).problem], [200, "Cannot ask: it\\x1b is gone"]);
  samples.next = next;
  assertStringIncludes((await ask(`${server.url}state`)).body, '"frames"');
});

sharedFramesTest("top --web prints the URL of a page, and holds nothing while nobody watches", async (frames) => {
  const { path, start } = frames;
  await start("hold");
  const top = startPoolpass("top", path, "--web", "0", "--interval", "0.1");
  const address = /^Showing .* at (http:\/\/127\.0\.0\.1:\d+\/\S+\/)\n$/;
  await until(() => address.test(top.output), () => top.output + top.errors);
  const url = address.exec(top.output)![1]!;
  const state = JSON.parse((await ask(`${url}state`)).body) as PageState;
  assertMatch(state.summary[0]!, /^Exporter at /);
  const weights = state.rows.find(({ name }) => name === "weights");
  assertEquals([weights?.byteLength, weights?.holders.length], [4 * 2 ** 20, 1]);
  // The one that prints this status.
  await statusWhen(path, ({ statistics: { operators } }) => operators === 1);
  assertStringIncludes((await ask(`${url}state`)).body, '"weights"');
  top.interrupt();
  assertEquals(await top.ended, { code: 0, errors: "", output: top.output });
});

test("top names what is wrong with the options of its page", async () => {
  const lists = "poolpass top --help lists the options";
  const wrong = [
    [["--web", "x"], 'The port is "x", and must be a number from 0 to 65535'],
    [["--web", "0", "--json"], "The option --web serves a page: --json and --count are for lines"],
  ] as const;
  for (const [options, message] of wrong) {
    const { code, errors } = await poolpass("top", "a", ...options);
    assertEquals([code, errors], [2, `${message}; ${lists}\n`]);
  }
});
