import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { connect } from "node:net";
import { serveMetrics } from "../../cli/serve_metrics.ts";
import { poolpass, startPoolpass } from "../support/poolpass.ts";
import { noPython, startHostile } from "../sharing/hostile/hostile_peers.ts";
import { countResources, leakTest } from "../support/resources.ts";
import { test } from "../support/test.ts";
import { ask } from "./loopback.ts";
import { sharedFramesTest, until } from "./shared_frames.ts";

sharedFramesTest(
  "metrics are printed, and served until the command is interrupted",
  async ({ path, exporter, start }) => {
    await start("hold");
    const printed = await poolpass("metrics", path);
    assertEquals([printed.code, printed.errors], [0, ""]);
    const offers = `poolpass_offers{path="${path}"} 4\n`;
    assertStringIncludes(printed.output, offers);
    for (const sample of ['imports_refused_total{code="too-large"}', 'events_not_opened_total{reason="forged"}']) {
      assertStringIncludes(printed.output, `poolpass_${sample.replace("{", `{path="${path}",`)} 0\n`);
    }
    const serving = startPoolpass("metrics", path, "--port", "0");
    const address = /at (http:\/\/127\.0\.0\.1:\d+\/metrics)\n$/;
    await until(() => address.test(serving.output), () => serving.output + serving.errors);
    const url = address.exec(serving.output)![1]!;
    const answers = await Promise.all([ask(url), ask(url), ask(`${url}?x=1`)]);
    for (const { status, type, body } of answers) {
      assertEquals([status, type], [200, "text/plain; version=0.0.4; charset=utf-8"]);
      assertStringIncludes(body, offers);
    }
    exporter.kill("SIGKILL");
    await exporter.ended;
    const { status, body } = await ask(url);
    assertEquals(status, 503);
    assertMatch(body, /^Cannot .*\n$/);
    await start("export");
    assertEquals((await ask(url)).status, 200);
    serving.interrupt();
    assertEquals((await serving.ended).code, 0);
    await assertRejects(() => ask(url));
  },
);

test("metrics names what is wrong with its port", async () => {
  const lists = "poolpass metrics --help lists the options";
  for (const port of ["65536", "x", "1.5"]) {
    const { code, errors } = await poolpass("metrics", "a", "--port", port);
    assertEquals([code, errors], [2, `The port is "${port}", and must be a number from 0 to 65535; ${lists}\n`]);
  }
});

test("the server of metrics answers GET /metrics alone, on the loopback interface alone", async () => {
  let texts = 0;
  await using server = await serveMetrics(0, () => {
    if (++texts > 1) throw new Error("There are no more numbers");
    return "one 1\n";
  });
  const { origin, port } = new URL(server.url);
  assertEquals((await ask(server.url)).body, "one 1\n");
  const { status, type, body } = await ask(server.url);
  assertEquals([status, type, body], [503, "text/plain; charset=utf-8", "There are no more numbers\n"]);
  const statuses = await Promise.all([
    ask(`${origin}/`),
    ask(`${origin}/metrics/`),
    ask(server.url, { method: "POST" }),
    ask(server.url, { method: "HEAD" }),
    ask(server.url, { headers: { host: `attacker.example:${port}` } }),
    ask(server.url, { headers: { host: `localhost:${port}` } }),
  ]);
  assertEquals(statuses.map(({ status }) => status), [404, 404, 405, 405, 403, 503]);
  await assertRejects(() => serveMetrics(Number(port), () => ""), Error, "another program listens there");
  // Another address of the same interface: the server is bound to one.
  const refused = await new Promise<string>((resolve) => {
    const socket = connect(Number(port), "127.0.0.2");
    socket.on("error", (error) => resolve((error as { code?: string }).code ?? ""));
    socket.on("connect", () => resolve("connected"));
  });
  assertEquals(refused, "ECONNREFUSED");
});

test("a connection that says nothing does not hold up others, nor the end of the server", async () => {
  const since = performance.now();
  {
    await using server = await serveMetrics(0, () => "one 1\n");
    const { port } = new URL(server.url);
    const socket = connect(Number(port), "127.0.0.1");
    socket.on("error", () => {});
    await new Promise((resolve) => socket.on("connect", () => resolve(undefined)));
    socket.write("GET /metr");
    assertEquals((await ask(server.url)).status, 200);
  }
  assert(performance.now() - since < 5000);
});

const request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
// The longest text is more than a socket buffers.
test("a port that Deno does not permit is refused, with the option that permits it", async () => {
  const deno = Object.getOwnPropertyDescriptor(globalThis, "Deno");
  const hosts: string[] = [];
  const requestSync = ({ host }: { host: string }) => (hosts.push(host), { state: "denied" });
  Object.defineProperty(globalThis, "Deno", { value: { permissions: { requestSync } }, configurable: true });
  let serving: Promise<unknown>;
  try {
    serving = serveMetrics(9400, () => "");
  } finally {
    if (deno === undefined) Reflect.deleteProperty(globalThis, "Deno");
    else Object.defineProperty(globalThis, "Deno", deno);
  }
  const message = "Cannot listen at 127.0.0.1:9400: Deno does not permit it; run it with --allow-net=127.0.0.1";
  assertEquals((await assertRejects(() => serving, Error)).message, message);
  assertEquals(hosts, ["127.0.0.1:9400"]);
});

for (const [said, length] of [["", 100], ["GET /metr", 100], [request, 100], [request, 2 ** 23]] as const) {
  const mode = length > 100 ? "once" : "again and again";
  const name = `connections that are opened ${mode}, say ${JSON.stringify(said)} and read nothing hold up no scraper`;
  leakTest(`${name} of ${length} bytes`, async () => {
    const text = "x".repeat(length);
    const countSockets = () => countResources().get("socket") ?? 0;
    await using server = await serveMetrics(0, () => text, { timeout: 3000 });
    const before = countSockets();
    await using hogs = startHostile("metrics_hogs.py", [
      new URL(server.url).port,
      length > 100 ? 100 : 300,
      said,
      mode,
    ]);
    assertEquals(await hogs.nextLine(), "filled");
    for (let count = 0; count < 5; count++) {
      const { body } = await ask(server.url, { signal: AbortSignal.timeout(10_000) });
      assertEquals(body.length, text.length);
    }
    assert(countSockets() < before + 600, `${countSockets()} sockets`);
    hogs.kill("SIGSTOP");
    // Those of the runtime for its child among them.
    await until(() => countSockets() <= before + 4, () => `${countSockets()} sockets, ${before} before`);
    hogs.kill("SIGKILL");
  }, {
    skip: noPython,
    long: said !== request || length === 100,
    warmUp: async () => {
      await using server = await serveMetrics(0, () => "one 1\n");
      await ask(server.url);
    },
  });
}
