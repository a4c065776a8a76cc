import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { after, before } from "node:test";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { type Outcome, type RunOptions, scriptNamed, serveProject, type UrlServer } from "./url_server.ts";
import { test } from "../support/test.ts";

const skip = "Deno" in globalThis ? false : "only Deno imports from a URL";
const skipFfi = skip || (shimRefusal() ?? false);

/** Denies all permissions except importing and FFI. A request for a denied one fails without asking. */
const denied = ["--deny-read", "--deny-write", "--deny-net", "--deny-env", "--deny-sys", "--deny-run"];
const withFfi: RunOptions = { permissions: ["--allow-ffi", ...denied] };
const withoutFfi: RunOptions = { permissions: denied };

/**
 * The output of each script that is one process. Without FFI, a script has the same output, or fails with `refusal`.
 */
const scripts: Readonly<Record<string, { output: RegExp; refusal?: RegExp }>> = {
  kernels: { output: /^12 24 36 true$/ },
  copies: { output: /^16843009 84148994 16843009 16843009 1 2 3$/ },
  caching_allocator: { output: /^2 2 1024$/ },
  streams: { output: /^3 3 3 3 true true$/ },
  module: { output: /^add 50$/ },
  printing: {
    output: /^Cuda \{ software, 2 devices, CUDA [\d.]+ \} \[\s+CudaStream \{[^]+ pool: MemoryPool \{[^]+\}$/,
  },
  host_pool: {
    output: /^7 8 7$/,
    refusal: /Cannot view the buffer of 8 bytes on the host: .*; use read to copy the memory/,
  },
};

const noPool = /Cannot create a pool that other processes can share: /;
const noSocket = /Cannot connect to .*missing: /;

/**
 * The scripts of two processes: the last line of the exporter's output, the importer's output, and the errors without
 * FFI.
 */
const pairs: Readonly<
  Record<string, { exporter: string; importer: string; refusals: { exporter: RegExp; importer: RegExp } }>
> = {
  pool_by_socket: {
    exporter: "6 6",
    importer: "5 5 true",
    refusals: { exporter: noPool, importer: noSocket },
  },
  offer: {
    exporter: "released",
    importer: '9 9 {"dtype":"uint8"}',
    refusals: { exporter: noPool, importer: noSocket },
  },
  channel: {
    exporter: "sent 4",
    importer: "1 2 3 4",
    refusals: { exporter: noPool, importer: noSocket },
  },
  legacy_handles: {
    exporter: "5 5",
    importer: "4 4",
    refusals: {
      exporter: /Cannot create an event on device 0: .*cudaErrorNotSupported/,
      importer: /Cannot open an event of another process on device 0: .*cudaErrorNotSupported/,
    },
  },
};

let server: UrlServer;
if (!skip) {
  before(async () => {
    server = await serveProject();
  });
  after(() => server[Symbol.asyncDispose]());
}

function run(name: string, options: RunOptions): Promise<Outcome> {
  return server.start(scriptNamed(name), options).outcome;
}

function assertDone({ code, errors, permissions }: Outcome): void {
  assertEquals(errors, "");
  assertEquals([code, permissions], [0, ["ffi", "import"]]);
}

/** Each script costs a process; .ci/run includes all of them. */
function isVariant(name: string): boolean {
  return name !== "offer";
}

for (const [name, { output }] of Object.entries(scripts)) {
  test(`imported from a URL, ${name} needs only --allow-ffi`, { skip: skipFfi, long: isVariant(name) }, async () => {
    const outcome = await run(name, withFfi);
    assertDone(outcome);
    assertMatch(outcome.output.trim(), output);
  });
}

for (const [name, expected] of Object.entries(pairs)) {
  test(
    `imported from a URL, ${name} shares between two processes with only --allow-ffi`,
    { skip: skipFfi, long: isVariant(name) },
    async () => {
      const text = scriptNamed(name);
      const path = join(server.folder, `${name}.sock`);
      const exporter = server.start(text, { ...withFfi, args: ["exporter", path] });
      const first = await exporter.firstLine;
      const importer = server.start(text, { ...withFfi, args: ["importer", first === "listening" ? path : first] });
      const imported = await importer.outcome;
      exporter.endInput();
      const exported = await exporter.outcome;
      assertDone(imported);
      assertDone(exported);
      assertEquals(imported.output.trim(), expected.importer);
      assertEquals(exported.output.trim().split("\n").slice(1), [expected.exporter]);
    },
  );
}

for (const [name, { output, refusal }] of Object.entries(scripts)) {
  test(
    `imported from a URL without --allow-ffi, ${name} ${refusal ? "fails with the reason" : "works"}`,
    { skip, long: isVariant(name) },
    async () => {
      const outcome = await run(name, withoutFfi);
      assertEquals(outcome.permissions, ["import"]);
      if (refusal === undefined) {
        assertEquals([outcome.code, outcome.errors], [0, ""]);
        assertMatch(outcome.output.trim(), output);
      } else {
        assertRefused(outcome, refusal);
      }
    },
  );
}

for (const [name, { refusals }] of Object.entries(pairs)) {
  test(
    `imported from a URL without --allow-ffi, ${name} fails with the reason in both processes`,
    { skip, long: true },
    async () => {
      const text = scriptNamed(name);
      for (const [role, refusal] of Object.entries(refusals)) {
        const missing = name === "legacy_handles"
          ? `${"00".repeat(64)},${"00".repeat(64)}`
          : `${server.folder}/missing`;
        assertRefused(await server.start(text, { ...withoutFfi, args: [role, missing] }).outcome, refusal);
      }
    },
  );
}

function assertRefused({ code, errors, permissions }: Outcome, refusal: RegExp): void {
  assertEquals([code, permissions], [1, ["import"]]);
  assertMatch(errors, refusal);
  assertMatch(errors, /FFI is not permitted; run with --allow-ffi/);
}

test("other permissions that a script requests are recorded and denied", { skip, long: true }, async () => {
  const script = `import { open } from "../../mod.ts";
open({ driver: "software" });
for (const ask of [() => Deno.readTextFileSync("/etc/hostname"), () => Deno.hostname(), () => Deno.env.get("HOME")]) {
  try {
    ask();
  } catch (error) {
    console.log(error.name);
  }
}
`;
  const { output, permissions } = await server.start(script, withFfi).outcome;
  assertEquals(output.trim().split("\n"), ["NotCapable", "NotCapable", "NotCapable"]);
  assertEquals(permissions, ["env", "ffi", "import", "read", "sys"]);
});

test("open without options needs only --allow-ffi", { skip: skipFfi }, async () => {
  const script =
    `import { open } from "../../mod.ts";\nusing cuda = open();\nconsole.log(cuda.driver, cuda.devices.length);\n`;
  const outcome = await server.start(script, {
    ...withFfi,
    env: { POOLPASS_DRIVER: "auto", POOLPASS_SOFTWARE_DEVICES: "3" },
  }).outcome;
  assertDone(outcome);
  assertMatch(outcome.output, /^(software 3|cuda \d+)\n$/);
});
