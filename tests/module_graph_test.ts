import { assert, assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { test } from "node:test";
import { cyclesOf, type Import, importsOf, importsOfLibrary } from "./support/module_graph.ts";

/** What all may import: it touches native code and knows nothing of CUDA. */
const floor = ["ffi/host.ts", "ffi/environment.ts", "ffi/shim/"];
/** CUDA's objects refer to each other: their types may, too. */
const objects = ["src/session.ts", "src/objects/", "src/memory/"];
const seam = ["src/driver.ts", "src/support/"];
/** A row of the instruction table names the emitters that it writes code with, and they resolve and read rows. */
const instructionTable = ["typing/", "instructions/", "codegen/", "simd/"].map((room) =>
  `src/software/compiler/${room}`
);

/** Each room, and the rooms that its modules may import. A module belongs to the first room that it matches. */
const rooms: readonly (readonly [room: string, mayImport: readonly string[]])[] = [
  ...floor.map((room) => [room, floor] as const),
  ["ffi/", [...floor, ...seam, "src/ptx/", "ffi/"]],
  ["src/support/", []],
  ["src/ptx/", []],
  ["src/driver.ts", []],
  ["src/software/compiler/", ["src/support/", "src/ptx/"]],
  ["src/software/", [...floor, ...seam, "src/ptx/", "src/software/"]],
  ["src/session.ts", [...seam, ...objects]],
  ["src/memory/", [...floor, ...seam, ...objects]],
  ["src/objects/", [...floor, ...seam, ...objects, "src/ptx/"]],
  ["src/sharing/transport/", [...floor, ...seam, "src/memory/"]],
  ["src/sharing/protocol/", [...floor, ...seam, "src/memory/", "src/sharing/transport/"]],
  ["src/sharing/events/", [...seam, ...objects, "src/sharing/transport/", "src/sharing/protocol/"]],
  ...["channel/", "exporter/", "importer/"].map((room) =>
    [`src/sharing/${room}`, [
      ...seam,
      ...objects,
      ...["transport/", "protocol/", "events/"].map((room) => `src/sharing/${room}`),
      // Exporters and importers have channels; a channel knows neither.
      ...room === "channel/" ? [] : ["src/sharing/channel/"],
    ]] as const
  ),
  ["src/open.ts", [...floor, ...seam, ...objects, "ffi/cuda_driver.ts", "src/software/software_driver.ts"]],
  ["mod.ts", ["src/"]],
];

const imports = importsOfLibrary();

test("no modules import each other's values, directly or through others", () => {
  assertEquals(cyclesOf(imports.filter(({ isOfTypes }) => !isOfTypes)), []);
});

test("modules refer to each other's types only within a folder, among CUDA's objects and around the instruction table", () => {
  assertEquals(cyclesOf(imports).filter((cycle) => new Set(cycle.map(folderOf)).size > 1), []);
});

test("imports point downward", () => {
  assertEquals(imports.filter(pointsUpward).map(({ from, to }) => `${from} imports ${to}`), []);
});

test("every module lies in a room that says what it may import, and no room is empty", () => {
  const modules = new Set(imports.flatMap(({ from, to }) => [from, to]));
  assert(modules.size > 200, `${modules.size} modules`);
  assertEquals([...modules].filter((module) => roomOf(module) === undefined), []);
  assertEquals(rooms.filter((room) => ![...modules].some((module) => roomOf(module) === room)), []);
});

test("a cycle of values, a cycle of types and an upward import are noticed", () => {
  const file = (from: string, ...lines: string[]) => importsOf(from, lines.join("\n"));
  const pool = file("src/memory/pool.ts", 'import { buffer } from "./buffer.ts";');
  const buffer = file("src/memory/buffer.ts", "import {", "  type Other,", "  pool,", '} from "./pool.ts";');
  assertEquals(cyclesOf([...pool, ...buffer]), [["src/memory/buffer.ts", "src/memory/pool.ts"]]);
  const types = file("src/memory/buffer.ts", 'import type { Pool } from "./pool.ts";', 'import "../session.ts";');
  assertEquals(types.map(({ to, isOfTypes }) => [to, isOfTypes]), [
    ["src/memory/pool.ts", true],
    ["src/session.ts", false],
  ]);
  const upward = file("src/support/errors.ts", 'export { type Cuda, open } from "../objects/cuda.ts";');
  assertEquals(upward.filter(pointsUpward), upward);
  assertEquals(file("src/memory/pool.ts", '/** import { open } from "./mod.ts"; */', '// import "./x.ts";'), []);
});

function roomOf(module: string): (typeof rooms)[number] | undefined {
  return rooms.find(([room]) => module.startsWith(room));
}

function folderOf(module: string): string {
  if (objects.some((room) => module.startsWith(room))) return "CUDA's objects";
  return instructionTable.some((room) => module.startsWith(room)) ? "the instruction table" : dirname(module);
}

function pointsUpward({ from, to }: Import): boolean {
  const [room, mayImport] = roomOf(from)!;
  return roomOf(to)?.[0] !== room && !mayImport.some((allowed) => to.startsWith(allowed));
}
