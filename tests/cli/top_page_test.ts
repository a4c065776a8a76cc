/** The server of the page of `poolpass top --web`. The page itself: top_page_in_browser_test.ts. */
import { assert, assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import type { Sample } from "../../cli/top/sampler.ts";
import { type PageOptions, type PageServer, servePage } from "../../cli/top/web/serve_page.ts";
import { ChangeLog } from "../../cli/top/web/change_log.ts";
import type { PageState } from "../../cli/top/web/page_state.ts";
import { type ExporterStatus, type ListenerStatus, SharingError } from "../../mod.ts";
import { traceByteLength, TraceRecorder } from "../../src/trace/trace_recorder.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass, startPoolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";
import { ask, say } from "./loopback.ts";
import { patience, sharedFramesTest, statusWhen, until } from "./shared_frames.ts";
import { channelOf, exporterStatus, now, sampleWith, storeStatus } from "./statuses.ts";

const rates = { framesPerSecond: 60, bytesPerSecond: 60 * 2 ** 20, droppedPerSecond: 0.5 };

const sampleOf = (status: ListenerStatus) => sampleWith(rates, status);

/** Samples of a listener that does not exist. */
class Samples {
  taken = 0;
  closed = 0;
  next(): Promise<Sample> {
    this.taken++;
    return Promise.resolve(sampleOf(exporterStatus()));
  }
  [Symbol.asyncDispose](): Promise<void> {
    this.closed++;
    return Promise.resolve();
  }
}

function serve(sampler = new Samples(), options: Partial<PageOptions> = {}): Promise<PageServer> {
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
  assertEquals(samples.taken, 1);
  const { summary, columns, lines, omitted, series } = JSON.parse(answers[0]!.body) as PageState;
  assertMatch(summary[0]!, /^Exporter at \/run\/frames\.sock: a process elsewhere/);
  const named = lines.map((line) => columns.map(({ name }, index) => [name, line[index]] as const));
  const table = named.map((line) => Object.fromEntries(line.filter(([, text]) => text !== "")));
  const made = { kind: "buffer", size: "1.0 KiB", made: "60 min ago" };
  assertEquals(table, [
    { ...made, name: "frames", kind: "channel", size: "4.0 MiB", ...ratesOf("60.0"), "bytes/s": "60.0 MiB" },
    { ...ratesOf("60.0"), process: "102", user: "1000", holds: "held, 2 frames", since: "90 s ago" },
    { ...made, name: "weights" },
    { process: "101", user: "1000", holds: "held 2 times", since: "90 s ago" },
    { process: "elsewhere", user: "1000", holds: "quarantined", since: "90 s ago" },
    { name: "\\x1b[31mold\\x0a", kind: "pool", state: "withdrawn", made: "60 min ago" },
  ]);
  assertEquals([omitted, series], [0, {
    rows: [["frames", 4 * 2 ** 20], ["weights", 1024]],
    sources: [["pool 1", 4 * 2 ** 20 + 1024]],
    processes: [["process 102", 4 * 2 ** 20], ["process 101", 1024], ["elsewhere", 1024]],
    frames: [["frames", 60]],
    dropped: [["frames", 0.5]],
    lag: [["frames", 3]],
  }]);
});

/** The cells of a channel's rates. */
function ratesOf(frames: string): Record<string, string> {
  return { "frames/s": frames, "dropped/s": "0.5", lag: "3" };
}

test("a store's generations are shown with their readers and their writer", async () => {
  const samples = new Samples();
  samples.next = () => Promise.resolve(sampleOf(storeStatus));
  await using server = await serve(samples);
  const { columns, lines, omitted, series } = JSON.parse((await ask(`${server.url}state`)).body) as PageState;
  const generation = columns.findIndex(({ name }) => name === "generation");
  const holds = columns.findIndex(({ name }) => name === "holds");
  assertEquals(lines.map((line) => [line[0], line[generation], line[holds]]), [
    ["llama/漢字", "2", "writes"],
    ["llama/漢字", "1", ""],
    ["", "", "reads"],
    ["", "", "reads"],
  ]);
  assertEquals(omitted, 2);
  assertEquals(series.rows, [["llama/漢字, generation 2", 2 ** 31], ["llama/漢字, generation 1", 2 ** 30]]);
  assertEquals(series.sources, [["device GPU-00000000-0000-0000-0000-000000000001", 3 * 2 ** 30]]);
  assertEquals(series.processes.map(([name]) => name), ["process 201", "process 202", "process 203"]);
});

test("offers of the same name that were withdrawn are one series, and the current one is another", async () => {
  const status = exporterStatus();
  const [weights] = status.offers;
  const old = { ...weights!, isWithdrawn: true };
  const samples = new Samples();
  samples.next = () => Promise.resolve(sampleOf({ ...status, offers: [old, { ...old, since: now }, weights!] }));
  await using server = await serve(samples);
  const { series } = JSON.parse((await ask(`${server.url}state`)).body) as PageState;
  assertEquals(series.rows, [["weights, withdrawn", 2048], ["weights", 1024]]);
  assertEquals(series.processes, [["process 101", 3072], ["elsewhere", 3072]]);
});

test("a state is small, however much a listener shares", async () => {
  const status = exporterStatus();
  const [offer] = status.offers;
  const holders = Array.from({ length: 1000 }, (_, index) => ({ ...offer!.holders[0]!, pid: 1000 + index }));
  const offers = Array.from({ length: 5000 }, (_, index) => ({
    ...offer!,
    name: `${index} ${"é".repeat(120)}`,
    byteLength: 1 + index,
    holders: index === 4999 ? holders : [],
  }));
  const samples = new Samples();
  samples.next = () => Promise.resolve(sampleOf({ ...status, offers }));
  await using server = await serve(samples);
  const { body } = await ask(`${server.url}state`);
  const { lines, omitted, series } = JSON.parse(body) as PageState;
  assertEquals([lines.length, omitted, series.rows.length, series.processes.length], [251, 4800, 50, 50]);
  assert(lines[51]!.includes("950 more"), lines[51]!.join());
  assert(body.length < 2 ** 17, `${body.length} characters`);
});

test("the log has what was shared, withdrawn, held and released", () => {
  const log = new ChangeLog();
  const status = exporterStatus();
  const withOffers = (...offers: ExporterStatus["offers"]) => log.addSample(sampleOf({ ...status, offers }));
  const [weights, frames] = status.offers;
  withOffers(weights!);
  assertEquals(log.changes, [], "the first sample is no change");
  withOffers(weights!, frames!);
  log.addSample({ ...sampleOf({ ...status, offers: [weights!, frames!] }), channels: new Map() });
  withOffers(weights!, frames!);
  withOffers({ ...weights!, isWithdrawn: true, holders: weights!.holders.slice(1) }, frames!);
  withOffers({ ...weights!, since: now }, frames!);
  log.addProblem("It is gone");
  log.addProblem("It is gone");
  log.addSample(sampleOf({ ...status, offers: [], pid: 5 }));
  assertEquals(log.changes.map(({ text }) => text).reverse(), [
    "channel frames is new, 4.0 MiB",
    "channel frames: held by process 102",
    "channel frames no longer drops frames",
    "channel frames drops frames",
    "buffer weights is withdrawn",
    "buffer weights: no longer held by process 101",
    "buffer weights is gone",
    "buffer weights is new, 1.0 KiB",
    "buffer weights: held 2 times by process 101",
    "buffer weights: quarantined by elsewhere",
    "It is gone",
    "It answers again",
    "Another process listens",
  ]);
  for (let index = 0; index < 300; index++) log.addProblem(`Problem ${index}`);
  assertEquals([log.changes.length, log.changes[0]!.text], [100, "Problem 299"]);
});

test("the trace is drawn once for all browsers; why it cannot be is drawn, too", () =>
  inFolder(async (folder) => {
    const bytes = new Uint8Array(traceByteLength(16));
    const process = { pid: 7, thread: 0, runtime: "deno", program: "p", driver: "software", began: 1 };
    let time = 0;
    const recorder = new TraceRecorder(bytes, 16, { ...process, beganMonotonic: 0 }, () => time += 1e9);
    const kind = recorder.kind({ name: "<b>call", values: [] });
    const file = `${folder}/7.trace`;
    const strips = async (...files: string[]): Promise<string[]> => {
      await using server = await serve(new Samples(), { traces: files });
      const { status, type, headers, body } = await ask(`${server.url}trace.svg`);
      assertEquals([status, type], [200, "image/svg+xml"]);
      assertMatch(
        String(headers["content-security-policy"]),
        /^default-src 'none'; style-src 'sha256-[\w+\/]{43}='; sandbox$/,
      );
      // Read at most once in a while.
      rmSync(file, { force: true });
      return [body, (await ask(`${server.url}trace.svg`)).body];
    };
    assertStringIncludes((await strips(file))[0]!, "no such file");
    writeFileSync(file, bytes);
    assertStringIncludes((await strips(file))[0]!, "Nothing is recorded yet");
    for (let index = 0; index < 12; index++) recorder.instant(kind);
    writeFileSync(file, bytes);
    const [first, second] = await strips(file);
    assertEquals(first, second);
    assertEquals(first!.match(/&#60;b&#62;call/g)?.length, 6, "those of the last five seconds");
    writeFileSync(file, "");
    truncateSync(file, 2 ** 30);
    assertStringIncludes((await strips(file))[0]!, "it has 1.0 GiB, and the page reads at most 64.0 MiB");
  }));

for (const [title, held, said] of [["silent", 300, "GET /"], ["slow", 200, undefined]] as const) {
  test(`${title} connections hold up no browser`, async () => {
    const samples = new Samples();
    // What a connection is sent is more than a socket buffers.
    const name = "x".repeat(2 ** 20);
    samples.next = () => Promise.resolve(sampleOf(exporterStatus(channelOf(name))));
    await using server = await serve(samples);
    const { pathname, port } = new URL(server.url);
    const text = said ?? `GET ${pathname}state HTTP/1.1\r\nhost: localhost\r\n\r\n`;
    const sockets = Array.from({ length: held }, () => connect(Number(port), "127.0.0.1"));
    try {
      await Promise.all(sockets.map((socket) =>
        new Promise<void>((resolve) => {
          socket.on("error", () => resolve()).on("connect", () => socket.pause().write(text, () => resolve()));
        })
      ));
      // The answers to those before may be larger together than what is sent at the same time: a browser asks again.
      const since = performance.now();
      let answer = await ask(`${server.url}state`).catch(() => undefined);
      while (answer === undefined && performance.now() - since < patience) {
        answer = await ask(`${server.url}state`).catch(() => undefined);
      }
      assertStringIncludes(answer?.body ?? "", name);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });
}

test("connections end by themselves", async () => {
  await using server = await serve(new Samples(), { timeout: 300 });
  assertEquals(await Promise.all(["", "GET / HT"].map((text) => say(server.url, text))), ["", ""]);
});

test("browsers that vanish within a request or an answer leave nothing", async () => {
  const samples = new Samples();
  const waiting = Promise.withResolvers<void>();
  const next = samples.next.bind(samples);
  samples.next = () => waiting.promise.then(next);
  await using server = await serve(samples);
  const { pathname, port } = new URL(server.url);
  const request = `GET ${pathname}state HTTP/1.1\r\nhost: localhost\r\n\r\n`;
  for (const text of ["", "GET", request]) {
    const socket = connect(Number(port), "127.0.0.1");
    await new Promise((resolve) => socket.once("connect", resolve));
    await new Promise<void>((resolve) => socket.write(text, () => resolve()));
    socket.resetAndDestroy();
  }
  const answer = ask(`${server.url}state`);
  waiting.resolve();
  assertEquals((await answer).status, 200);
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
  assertEquals(state.series.processes.map(([, byteLength]) => byteLength), [4 * 2 ** 20]);
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
    [["--trace", "b"], "The option --trace is for the page of --web"],
    [["--web", "0", "--json"], "The option --web serves a page: --json and --count are for lines"],
  ] as const;
  for (const [options, message] of wrong) {
    const { code, errors } = await poolpass("top", "a", ...options);
    assertEquals([code, errors], [2, `${message}; ${lists}\n`]);
  }
});
