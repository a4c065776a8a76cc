import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import process from "node:process";
import { inspect } from "node:util";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import * as poolpass from "../../mod.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { replaceProperty } from "../support/adapted_driver.ts";
import { startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { publicClasses, visitObjects } from "./printed_objects.ts";
import { test } from "../support/test.ts";

const skip = shimRefusal() ?? false;

type Inspect = (value: unknown, options?: { depth?: number; colors?: boolean }) => string;
type Runtime = { readonly inspect: Inspect } | undefined;

const { Bun: bun, Deno: deno } = globalThis as unknown as { Bun: Runtime; Deno: Runtime };

/** The runtime's own inspect function for its console, and Node's, which all runtimes have. */
const inspectors: readonly Inspect[] = [
  inspect,
  ...(deno === undefined ? [] : [deno.inspect]),
  ...(bun ? [bun.inspect] : []),
];

function patternOf(text: string): RegExp {
  const escaped = text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("#", "(0x[0-9a-f]+|[0-9]+)")}$`);
}

test("these tests print an object of every public class, before and after disposal", { skip }, async () => {
  const printed = new Map<string, Set<string>>();
  await visitObjects((object, text) => {
    const { name } = object.constructor;
    assert(text.startsWith(`${name} { `), text);
    printed.set(name, (printed.get(name) ?? new Set()).add(text));
  });
  assertEquals([...printed.keys()].sort(), publicClasses().sort());
  const alone = [...printed].filter(([, texts]) => texts.size === 1).map(([name]) => name);
  assertEquals(alone, [], "each is visited in more than one state");
});

test("console.log prints the state of every object", { skip }, async () => {
  const permissions = ["--allow-ffi", "--allow-read", "--allow-write", "--allow-env", "--allow-sys"];
  await using child = startScript("children/print_objects.ts", [], { permissions, env: { NO_COLOR: "1" } });
  let count = 0;
  for (;;) {
    const text = await child.nextLine();
    if (text === undefined) break;
    // Only there: any number can occur in a UUID, too.
    const ofChild = text.replaceAll(`process ${process.pid}`, `process ${child.pid}`);
    assertMatch((await child.nextLine())!, patternOf(ofChild));
    count++;
  }
  assertEquals([await child.ended, await child.errors()], [0, ""]);
  assert(count > 2 * publicClasses().length, `${count} objects`);
});

test("objects print the same inside others, at any depth and in color", { skip }, async () => {
  await visitObjects((object, text) => {
    const pattern = patternOf(text);
    const within = new RegExp(pattern.source.slice(1, -1));
    for (const show of inspectors) {
      assertMatch(show(object), pattern);
      assertMatch(show(object, { depth: 0 }), pattern);
      assertMatch(show(object, { colors: true }), pattern);
      for (
        const nested of [{ object }, [object], new Map([["key", object]]), new Set([object]), { a: { b: object } }]
      ) {
        assertMatch(show(nested), within);
        assertMatch(show(nested, { colors: true }), within);
      }
      assertMatch(show([object], { depth: 0 }), within);
    }
  });
});

test("template strings have what is printed, and JSON has plain data, in every state", { skip }, async () => {
  const fields = new Map<string, Set<string>>();
  await visitObjects((object, text) => {
    for (const string of [`${object}`, String(object), "" + object]) assertMatch(string, patternOf(text));
    const { name } = object.constructor;
    const { it } = JSON.parse(JSON.stringify({ it: object }));
    assertEquals(it, JSON.parse(JSON.stringify(object)));
    // As a whole, it is plain data before it is written, too.
    assertEquals(structuredClone((object as { toJSON(): object }).toJSON()), (object as { toJSON(): object }).toJSON());
    assert(Object.keys(it).length >= 2, `${name}: ${JSON.stringify(it)}`);
    if (/disposed|freed/.test(text)) {
      const isGone = it.disposed || it.freed || it.state === "disposed" || name === "CudaDevice";
      assert(isGone, `${text}: ${JSON.stringify(it)}`);
    }
    fields.set(name, new Set([...fields.get(name) ?? [], ...Object.keys(it)]));
  });
  assertEquals([...fields.keys()].sort(), publicClasses().sort());
});

test("JSON has the properties of objects, addresses as hexadecimal strings, devices as ordinals", { skip }, () => {
  using cuda = poolpass.open({ driver: "software", softwareDevices: 1 });
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const array = pool.allocateArray(Float32Array, 4);
  const stream = gpu.createStream();
  const json = (object: unknown) => JSON.parse(JSON.stringify(object));
  const { uuid, name } = gpu;
  assertEquals(json(gpu), { ordinal: 0, uuid, name });
  assertEquals(json(cuda).devices, [{ ordinal: 0, uuid, name }]);
  assertEquals(json({ stream }), { stream: { device: 0, isDefault: false, state: "idle" } });
  const address = `0x${array.address.toString(16)}`;
  const described = { device: 0, type: "Float32Array", length: 4, byteLength: 16 };
  assertEquals(json([array]), [{ ...described, address, freed: false }]);
  const { usage, ...rest } = json(pool);
  assertEquals(usage, { ...pool.usage() });
  assertEquals(rest, { device: 0, handleType: "none", isDefault: false, buffers: 1, disposed: false });
  array.free();
  assertEquals(json(array), { ...described, freed: true });
  pool[Symbol.dispose]();
  assertEquals(json(pool), { ...rest, buffers: 0, disposed: true });
  cuda[Symbol.dispose]();
  assertEquals(json(gpu).ordinal, 0);
});

test("JSON has an application's own names, whatever they are", { skip }, () =>
  inFolder(async (folder) => {
    using cuda = poolpass.open({ driver: "software", softwareDevices: 1 });
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    using buffer = pool.allocate(4);
    await using exporter = poolpass.Exporter.listen(`${folder}/socket`);
    const values: poolpass.JsonValue[] = [{ ordinal: 3, device: 1 }, { toJSON: "model" }, [{ toJSON: 1 }]];
    for (const metadata of values) {
      const offer = exporter.offer("offer", buffer, { metadata });
      assertEquals(JSON.parse(JSON.stringify(offer)).metadata, metadata);
      offer.withdraw();
    }
    const fields = { ordinal: "u32", toJSON: "f32" } as const;
    assertEquals(JSON.parse(JSON.stringify(poolpass.struct(fields))), { byteLength: 8, alignment: 4, fields });
  }));

test("JSON has the name, message and code of errors", () => {
  const json = (error: Error) => JSON.parse(JSON.stringify({ error })).error;
  assertEquals(json(new CudaError(700, "cudaStreamQuery", "Cannot do it")), {
    name: "CudaError",
    message: "Cannot do it",
    code: "cudaErrorIllegalAddress",
    number: 700,
    call: "cudaStreamQuery",
  });
  assertEquals(json(new poolpass.SharingError("peer-gone", "Cannot do it", { cause: 1n })), {
    name: "SharingError",
    message: "Cannot do it",
    code: "peer-gone",
  });
  const isError = (value: unknown): value is new () => Error =>
    typeof value === "function" && value.prototype instanceof Error;
  for (const [name, value] of Object.entries(poolpass)) {
    const args = name === "SanitizerError" ? [[]] : ["", "", ""];
    if (isError(value)) assertEquals(json(Reflect.construct(value, args)).name, name);
  }
});

test("printing never throws, even for a class's prototype or a proxy", () => {
  for (const name of publicClasses()) {
    const { prototype } = poolpass[name as "MemoryPool"];
    for (const show of inspectors) {
      for (const value of [prototype, Object.create(prototype), new Proxy(Object.create(prototype), {})]) {
        assertNotMatch(show(value), /Error/);
        assertNotMatch(String(value) + JSON.stringify(value), /Error/);
      }
    }
  }
});

test("a pool prints its reuse policies, even after its disposal", { skip }, () => {
  using cuda = poolpass.open({ driver: "software" });
  const pool = cuda.device(0).createPool();
  const { reuse } = pool;
  reuse.allowOpportunistic = false;
  const printed = (follow: string, opportunistic: string, internal: string) =>
    `ReusePolicies { followEventDependencies: ${follow}, allowOpportunistic: ${opportunistic}, ` +
    `allowInternalDependencies: ${internal} }`;
  for (const show of inspectors) assertEquals(show(reuse), printed("true", "false", "true"));
  assertEquals(`${reuse}`, printed("true", "false", "true"));
  assertEquals(
    JSON.stringify(reuse),
    '{"followEventDependencies":true,"allowOpportunistic":false,"allowInternalDependencies":true}',
  );
  pool[Symbol.dispose]();
  assertEquals(inspect(reuse), printed("unknown", "unknown", "unknown"));
});

test("an object whose driver fails prints the error", { skip }, () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using event = gpu.createEvent();
  using pool = gpu.createPool();
  using failing = failWith(driver, new CudaError(700, "cudaStreamQuery"));
  assertEquals(inspect(stream), "CudaStream { device 0, cudaErrorIllegalAddress }");
  assertEquals(inspect(event), "CudaEvent { device 0, cudaErrorIllegalAddress }");
  assertEquals(inspect(pool), "MemoryPool { device 0, 0 buffers, cudaErrorIllegalAddress }");
  assertEquals(inspect(gpu), "CudaDevice { device 0, cudaErrorIllegalAddress }");
  void failing;
});

test("printing a stream or an event runs none of the queued work", { skip }, async () => {
  using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true })));
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using event = gpu.createEvent();
  using from = cuda.allocateHost(1);
  using to = cuda.allocateHost(1);
  using buffer = gpu.allocate(1);
  new Uint8Array(from.buffer).fill(1);
  buffer.copyFrom(from, stream);
  buffer.copyTo(to, stream);
  stream.record(event);
  for (let count = 0; count < 10; count++) {
    assertEquals(inspect(stream), "CudaStream { device 0, busy }");
    assertEquals(inspect(event), "CudaEvent { device 0, pending }");
  }
  assertEquals(new Uint8Array(to.buffer)[0], 0);
  await stream.finished();
  assertEquals(new Uint8Array(to.buffer)[0], 1);
});

/** Makes the driver calls that printing uses fail, until disposed. */
function failWith(driver: SoftwareDriver, error: Error): Disposable {
  const fail = () => {
    throw error;
  };
  const replaced = new DisposableStack();
  for (const name of ["streamQuery", "eventQuery", "memPoolGetAttribute", "deviceGetName"]) {
    replaced.use(replaceProperty(driver, name, fail));
  }
  return replaced;
}
