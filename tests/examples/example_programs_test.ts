import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { formatSupport, formatVersion, supportOf } from "../../examples/device_support.ts";
import { formatTable } from "../../examples/table.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { remainingLines, startScript } from "../support/child_process.ts";
import { driversUnderTest, type DriverUnderTest } from "../support/drivers.ts";
import { test, type TestOptions } from "../support/test.ts";

interface Run {
  readonly code: number | string;
  readonly lines: readonly string[];
  readonly errors: string;
}

interface Setting {
  readonly driver: DriverUnderTest;
  run(program: string, args?: readonly string[], env?: Readonly<Record<string, string>>): Promise<Run>;
}

/**
 * Declares a test of programs on each driver that a program's environment can select. The software driver has 2
 * devices.
 */
function testPrograms(
  name: string,
  body: (setting: Setting) => Promise<void>,
  { only, long }: TestOptions & { only?: "software" } = {},
): void {
  for (const driver of driversUnderTest) {
    if (driver.name !== "software" && (driver.name !== "cuda" || only !== undefined)) continue;
    const own = { POOLPASS_DRIVER: driver.name, POOLPASS_SOFTWARE_DEVICES: "2" };
    test(
      `${name} [${driver.name}]`,
      { skip: driver.skip, long },
      () => body({ driver, run: (program, args = [], env = {}) => runProgram(program, args, { ...own, ...env }) }),
    );
  }
}

async function runProgram(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Run> {
  await using child = startScript(`../examples/${program}.ts`, args, { env });
  const lines = await remainingLines(child);
  return { code: await child.ended, lines, errors: await child.errors() };
}

/** Splits a table's row into cells. */
function cellsOf(line: string): string[] {
  return line.split(/ {2,}/);
}

function rowsOf(lines: readonly string[]): Map<string, string[]> {
  return new Map(lines.map(cellsOf).map(([property, ...cells]) => [property!, cells]));
}

test("the example programs import only the library and node:, on any runtime", () => {
  const folder = new URL("../../examples/", import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith(".ts"));
  const imported = files.flatMap((name) =>
    [...readFileSync(new URL(name, folder), "utf8").matchAll(/\bfrom "([^"]+)"/g)].map(([, path]) => path!)
  );
  assert(imported.length > files.length, "Imports were found");
  assertEquals(imported.filter((path) => !/^(\.\.?\/|node:)/.test(path)), []);
});

testPrograms("saxpy prints the kernel's results", async ({ run }) => {
  const { code, lines, errors } = await run("saxpy");
  assertEquals(code, 0, errors);
  const text = lines.join("\n");
  assertMatch(text, /^Float32Array\(4\) \[/);
  assertEquals(text.match(/\d+\.\d+/g), ["4.5", "4.5", "4.5", "4.5"]);
});

testPrograms("device_query prints a column for each device and a row for each property", async ({ driver, run }) => {
  const { code, lines, errors } = await run("device_query");
  assertEquals(code, 0, errors);
  using cuda = new Cuda(new Session(driver.open()));
  assertStringIncludes(lines[0]!, `driver: CUDA ${formatVersion(cuda.driverVersion)}`);
  assertMatch(lines[1]!, /^libcudart: /);
  const rows = rowsOf(lines.slice(2));
  const { devices } = cuda;
  assertEquals(rows.get("device"), devices.map(({ ordinal }) => String(ordinal)));
  assertEquals(rows.get("name"), devices.map((device) => device.name));
  assertEquals(rows.get("UUID"), devices.map(({ uuid }) => uuid));
  assertEquals(rows.get("compute capability"), devices.map((device) => device.computeCapability.join(".")));
  assertEquals(rows.get("memory pools"), devices.map(() => "yes"));
  assertEquals(rows.get("pools shared as posix-fd"), devices.map(() => "yes"));
  for (const [ordinal, device] of devices.entries()) {
    const support = supportOf({
      driverVersion: cuda.driverVersion,
      attribute: (name) => device.attribute(name),
      createSharedPool: () => device.createPool({ handleType: "posix-fd" })[Symbol.dispose](),
    });
    for (const item of support) assertEquals(rows.get(item.property)![ordinal], formatSupport(item), item.property);
    const peers = devices.filter((other) => other !== device && device.canAccessPeer(other));
    assertMatch(
      rows.get("peers")![ordinal]!,
      peers.length === 0 ? /^no: / : new RegExp(`^yes: ${peers.map(({ ordinal }) => ordinal).join(", ")}$`),
    );
  }
});

testPrograms("device_query prints why there are no peers", async ({ run }) => {
  const strangers = rowsOf((await run("device_query", [], { POOLPASS_SOFTWARE_PEERS: "none" })).lines);
  assertEquals(strangers.get("peers"), Array(2).fill("no: it cannot access another device's memory"));
  const alone = rowsOf((await run("device_query", [], { POOLPASS_SOFTWARE_DEVICES: "1" })).lines);
  assertEquals(alone.get("peers"), ["no: there is no other device"]);
}, { only: "software", long: true });

testPrograms(
  "reuse_policies prints results for each policy alone, for no policies, and for reuse that needs none",
  async ({ run }) => {
    const { code, lines, errors } = await run("reuse_policies");
    const rows = lines.map(cellsOf);
    assertEquals(rows.map(([policy, , outcome]) => [policy, outcome]), [
      ["policy", "the second has"],
      ["followEventDependencies on", "same address"],
      ["all off", "another address"],
      ["allowOpportunistic on", "same address"],
      ["all off", "another address"],
      ["allowInternalDependencies on", "same address"],
      ["all off", "no memory"],
      ["all off", "same address"],
      ["all off", "same address"],
    ]);
    for (const [, , outcome, expected] of rows.slice(1)) assertEquals(outcome, expected);
    assertEquals(code, 0, errors);
  },
);

testPrograms("release_threshold prints how much a pool keeps, plain and shareable", async ({ run }) => {
  const { code, lines, errors } = await run("release_threshold", ["--bytes", "8MiB"]);
  assertEquals(code, 0, errors);
  const titles = ["none", "posix-fd"].map((handleType) => `A pool with handleType "${handleType}"`);
  const tables = titles.map((title) => {
    const begin = lines.indexOf(title);
    assert(begin >= 0, lines.join("\n"));
    return lines.slice(begin + 2, lines.indexOf("", begin)).map(cellsOf);
  });
  for (const table of tables) {
    const most = Math.max(...table.map(([, , reserved]) => parseFloat(reserved!)));
    assert(most >= 8);
    assertEquals(table.length, 13);
    for (const [threshold, step, reservedText, usedText, bar = ""] of table) {
      const [reserved, used] = [parseFloat(reservedText!), parseFloat(usedText!)];
      const isAllocated = step!.startsWith("allocate");
      assertEquals(used, isAllocated ? 8 : 0, step);
      if (isAllocated) assert(reserved >= used, step);
      if (step === "synchronize") assertEquals(reserved > 0, threshold === "Infinity", `threshold ${threshold}`);
      if (step === "trimTo(0)") assertEquals(reserved, 0);
      const [inUse, kept] = [used, reserved].map((mebibytes) => Math.round(mebibytes / most * 32)) as [number, number];
      assertEquals(bar, "#".repeat(inUse) + "-".repeat(kept - inUse), step);
    }
  }
}, { long: true });

testPrograms("release_threshold refuses invalid sizes", async ({ run }) => {
  const { code, errors } = await run("release_threshold", ["--bytes", "plenty"]);
  assertEquals(code, 1);
  assertStringIncludes(errors, 'Cannot use "plenty" as a number of bytes');
  assertStringIncludes(errors, "Usage: release_threshold [--bytes 64MiB]");
}, { only: "software", long: true });

testPrograms("caching_allocator prints how much it holds, and releases it", async ({ run }) => {
  const { code, lines, errors } = await run("caching_allocator", ["--steps", "20", "--streams", "2"]);
  assertEquals(code, 0, errors);
  assertEquals(lines.map((line) => line.split(" ")[0]), ["", "pool", "allocator", "The", "After"]);
  for (const line of lines.slice(1, 3)) assertMatch(line, /\d\.\d\d us$/);
  assertMatch(lines[3]!, /^The allocator holds [1-9]\d* slabs, [1-9]\d+ bytes, 0 in use, /);
  assertEquals(lines[4], "After trimTo(0) it holds 0 slabs, 0 bytes, 0 in use, 0 % fragmented");
}, { long: true });

testPrograms("graphs adds numbers in a graph of three streams", async ({ run }) => {
  const { code, lines, errors } = await run("graphs", ["--elements", "5000", "--launches", "2"]);
  assertEquals(code, 0, errors);
  const sum = (line: string) => Number(/^launch \d: sum (\d+(?:\.\d+)?)$/.exec(line)![1]);
  assertEquals([lines[0], lines.length, lines.at(-1)], ["6 nodes, 5 edges", 10, "All sums are right"]);
  assertEquals(lines.slice(1, 4).map((line) => line.slice(3)).sort(), ["copy", "fill", "fill"]);
  for (const line of lines.slice(7, 9)) assert(sum(line) > 2000 && sum(line) < 3000, line);
});

testPrograms("graph_by_hand adds numbers in a graph without a capture", async ({ run }) => {
  const { code, lines, errors } = await run("graph_by_hand", ["--elements", "5000", "--launches", "2", "--dot"]);
  assertEquals(code, 0, errors);
  assertEquals([lines[0], lines.slice(-3)], [
    "6 nodes, 5 edges",
    ["launch 1: sum 7500", "launch 2: sum 10000", "All sums are right"],
  ]);
  assertEquals(lines.filter((line) => /xlabel="(numbers|partial sums|sum)"/.test(line)).length, 3);
});

testPrograms("conditional_graph repeats steps until nothing changes", async ({ run }) => {
  const { code, lines, errors } = await run("conditional_graph", ["--elements", "8"]);
  assertEquals(code, 0, errors);
  assertEquals(lines[0], "3 nodes, one of which repeats 4");
  assertMatch(lines[1]!, /^launch 1: [1-9]\d+ steps, then an error of 0\.000\d+$/);
  assertEquals(lines.slice(2), [lines[1]!.replace("1:", "2:"), "The temperatures rise evenly"]);
});

testPrograms("graph_arguments changes the arguments of a graph between its launches", async ({ run }) => {
  const { code, lines, errors } = await run("graph_arguments", ["--elements", "1000", "--steps", "3"]);
  assertEquals([code, errors], [0, ""]);
  assertEquals(lines, ["3 kernels, launched 3 times", "All 1000 numbers are 24"]);
});

testPrograms("textures moves a matrix, and enlarges an image", async ({ run }) => {
  const { code, lines, errors } = await run("textures", ["--size", "32"]);
  assertEquals([code, errors], [0, ""]);
  assertEquals(lines[1], "All elements of an array were moved by (1, 2)");
  assertEquals(lines.at(-1), "Both ways to a bicubic filter have the same result");
});

testPrograms("copies copies a window, a column and a batch", async ({ run }) => {
  const { code, lines, errors } = await run("copies", ["--parts", "20"]);
  assertEquals([code, errors], [0, ""]);
  assertEquals(lines, [
    "rows of 1920 bytes with a pitch of 2048: 4096 white pixels",
    "a column of 512 elements, whose sum is 512",
    "20 parts of 4096 bytes copied by one call",
  ]);
});

testPrograms("graph_memory uses scratch memory, and results that outlive launches", async ({ run }) => {
  const { code, lines, errors } = await run("graph_memory", ["--elements", "1000"]);
  assertEquals(code, 0, errors);
  assertEquals(lines[0]!.match(/\b(allocate|free)\b/g), ["allocate", "allocate", "allocate", "free", "free"]);
  assertEquals(lines[1], "The result has 4000 bytes");
  assertMatch(lines[2]!, /^Cannot launch a graph .*; memory that its last launch has allocated was not freed: free it/);
  const [reserved, used] = lines[3]!.match(/\d+/g)!.map(Number);
  assert(reserved! >= 8000 && used! >= 8000, lines[3]);
  assertEquals(lines.slice(4), ["All results of 3 launches are right"]);
});

testPrograms("managed_memory computes tasks on the host and on the device, in the same memory", async ({ run }) => {
  const { code, lines, errors } = await run("managed_memory", ["--tasks", "4"]);
  assertEquals(code, 0, errors);
  const [host, device] = ["host", "device"].map((place) => lines.filter((line) => line.endsWith(`on the ${place}`)));
  assertEquals([host!.length, device!.length, lines.at(-1)], [2, 2, "All results of 4 tasks are right"]);
});

testPrograms("zero_copy adds numbers in the host's memory", async ({ run }) => {
  for (const option of [[], ["--registered"]]) {
    const { code, lines, errors } = await run("zero_copy", ["--elements", "5000", ...option]);
    assertEquals(code, 0, errors);
    assertMatch(lines[0]!, /^All 5000 sums are right, in (page-locked|registered) memory$/);
  }
});

testPrograms("system_wide_atomics loses no change of the host or of the kernel", async ({ run }) => {
  const { code, lines, errors } = await run("system_wide_atomics", ["--threads", "100", "--loops", "7"]);
  assertEquals(code, 0, errors);
  assertMatch(
    lines[0]!,
    /^128 threads and the host have done 7 rounds of ten operations: 9030 \d+ 128 0 3 63 \d+ 1 -1 128$/,
  );
  assertEquals(lines.slice(1), ["All results are right"]);
});

testPrograms("pool_properties prints each attempt and its result", async ({ driver, run }) => {
  const { code, lines, errors } = await run("pool_properties");
  assertEquals(code, 0, errors);
  const parts = lines.join("\n").trim().split("\n\n").map((part) => part.split("\n"));
  const [host, limited, fabric, plain] = parts.map(([, ...outcome]) => outcome.join(" ").trim());
  assertEquals(parts.length, 4, lines.join("\n"));
  const support = rowsOf((await run("device_query")).lines);
  if (driver.name === "software" || support.get("host NUMA pools")![0] === "yes") {
    assertEquals(host, "All 1024 numbers are 7");
  } else {
    assertMatch(host!, /^All 1024 numbers are 7$|^CudaError: Cannot create a pool/);
  }
  assertMatch(limited!, /^CudaError: Cannot allocate 50331648 bytes .*cudaErrorMemoryAllocation/);
  const hasFabric = support.get("pools shared as fabric")![0] === "yes";
  assertMatch(fabric!, hasFabric ? /IMEX channel/ : /^CudaError: Cannot create a pool with handleType "fabric"/);
  if (driver.name === "software") {
    assertMatch(fabric!, /^CudaError: .*cudaErrorNotPermitted.*software devices have no/);
  }
  assertMatch(plain!, /^TypeError: .*created with handleType "none"; create it with "posix-fd"$/);
}, { long: true });

testPrograms("programs without parameters refuse arguments", async ({ run }) => {
  const programs = ["device_query", "reuse_policies", "release_threshold", "pool_properties", "graphs"];
  for (const program of programs) {
    const { code, lines, errors } = await run(program, ["surplus"]);
    assertEquals([code, lines], [1, []]);
    assertStringIncludes(errors, `[${program}] Error: Unexpected argument "surplus"`);
    assertMatch(errors, new RegExp(`Usage: ${program}`));
  }
}, { only: "software", long: true });

/** The attributes that a support query may ask for, with the driver version that introduced each. */
const knownSince: Readonly<Record<string, number>> = {
  memoryPoolsSupported: 11020,
  memoryPoolSupportedHandleTypes: 11030,
  ipcEventSupport: 12000,
  hostNumaMemoryPoolsSupported: 12090,
  hostMemoryPoolsSupported: 13000,
};

/** The cells for a driver of a version that supports everything it knows. Unknown attributes fail as in CUDA. */
function cellsOfDriver(
  driverVersion: number,
  values: Readonly<Record<string, number>> = {},
  createSharedPool = () => {},
): Map<string, string> {
  const support = supportOf({
    driverVersion,
    attribute(name) {
      if (!(driverVersion >= knownSince[name]!)) throw new Error(`A driver ${driverVersion} was asked for ${name}`);
      return values[name] ?? 0xff;
    },
    createSharedPool,
  });
  return new Map(support.map((item) => [item.property, formatSupport(item)]));
}

test("a driver is never asked for an attribute newer than itself", () => {
  assertEquals([...cellsOfDriver(11010)], [
    ["memory pools", "not asked: needs CUDA 11.2"],
    ["pools shared as posix-fd", "not asked: needs CUDA 11.3"],
    ["pools shared as fabric", "not asked: needs CUDA 11.3"],
    ["IPC events", "not asked: needs CUDA 12.0"],
    ["host NUMA pools", "not asked: needs CUDA 12.9"],
    ["host pools", "not asked: needs CUDA 13.0"],
  ]);
  for (const version of Object.values(knownSince)) {
    for (const driverVersion of [version - 10, version]) {
      const asked = [...cellsOfDriver(driverVersion).values()].filter((cell) => cell === "yes");
      const known = Object.values(knownSince).filter((since) => since <= driverVersion).length;
      // One attribute answers two questions.
      assertEquals(asked.length, driverVersion < 11030 ? known : known + 1, String(driverVersion));
    }
  }
});

test("unsupported features have a reason, and handle types are distinguished", () => {
  const none = cellsOfDriver(13000, Object.fromEntries(Object.keys(knownSince).map((name) => [name, 0])));
  for (const [property, cell] of none) assertMatch(cell, /^no: \S/, property);
  const shared = ["pools shared as posix-fd", "pools shared as fabric"];
  for (const [handleTypes, expected] of [[1, [true, false]], [8, [false, true]], [9, [true, true]]] as const) {
    const cells = cellsOfDriver(13000, { memoryPoolSupportedHandleTypes: handleTypes });
    assertEquals(shared.map((property) => cells.get(property) === "yes"), [...expected], String(handleTypes));
  }
});

test("a table's columns are as wide as their widest cell, and its lines have no trailing spaces", () => {
  assertEquals(formatTable([["a", "b", "c"], ["long", "", "x"], ["1", "22"]]), "a     b   c\nlong      x\n1     22");
});

test("a device that reports shareable pools but cannot create one does not support them", () => {
  const cells = cellsOfDriver(13000, {}, () => {
    throw new Error("cudaMemPoolCreate failed: cudaErrorInvalidValue (1)");
  });
  assertMatch(cells.get("pools shared as posix-fd")!, /^no: .*WSL 2/);
  assertEquals(cells.get("pools shared as fabric"), "yes");
});
