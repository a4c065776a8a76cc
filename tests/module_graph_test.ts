import { assert, assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { test } from "node:test";
import { fileModules, firstModule, parts } from "../packaging/imports.ts";
import { cyclesOf, type Import, importsOf, importsOfLibrary } from "./support/module_graph.ts";

/** The lowest layer, which calls native code and knows nothing of CUDA. */
const nativeLayer = ["ffi/native/"];
/** CUDA's objects refer to each other: their types may, too. */
const objects = ["src/session.ts", "src/objects/", "src/memory/"];
/** The interface between the library and its drivers, and what both sides of it use. */
const seam = [
  "src/driver.ts",
  "src/kernel_checker.ts",
  "src/call_effects.ts",
  "src/driver_layers.ts",
  "src/collective_library.ts",
  "src/support/",
];
/** What whoever does what no driver's call shows notifies the sanitizer by. */
const notifications = ["src/sanitizer/notifications.ts"];
/** A row of the instruction table names the emitters that it writes code with, and they resolve and read rows. */
const instructionTable = ["typing/", "instructions/", "codegen/", "simd/", "checks/"].map((layer) =>
  `src/software/compiler/${layer}`
);

/** Each layer, and the layers that its modules may import. A module belongs to the first layer that it matches. */
const layers: readonly (readonly [layer: string, mayImport: readonly string[]])[] = [
  ...nativeLayer.map((layer) => [layer, nativeLayer] as const),
  ["ffi/", [...nativeLayer, ...seam, "src/ptx/", "src/compile/", "ffi/"]],
  ["src/support/", []],
  ["src/ptx/", []],
  ["src/compile/cache/", [...nativeLayer, "src/support/", "src/compile/"]],
  ["src/compile/", ["src/support/", "src/ptx/"]],
  ["src/driver.ts", ["src/kernel_checker.ts"]],
  ["src/kernel_checker.ts", ["src/driver.ts"]],
  ["src/call_effects.ts", ["src/driver.ts"]],
  ["src/driver_layers.ts", ["src/driver.ts"]],
  ["src/collective_library.ts", []],
  ["src/software/abi/", ["src/support/"]],
  ["src/software/compiler/", ["src/support/", "src/ptx/", "src/software/abi/"]],
  ["src/software/software_driver.ts", [...seam, "src/ptx/", "src/software/"]],
  ["src/software/driver/", [...nativeLayer, ...seam, "src/ptx/", "src/software/"]],
  // The rest of the software device knows nothing of the driver's parts.
  ["src/software/", [...nativeLayer, ...seam, "src/ptx/", "src/software/abi/", "src/software/compiler/"]],
  ["src/session.ts", [...seam, ...objects, "src/trace/", "src/compile/", "src/ptx/", "src/sanitizer/"]],
  ...notifications.map((layer) => [layer, []] as const),
  ["src/sanitizer/reporting/", [...nativeLayer, ...seam, "src/sanitizer/"]],
  ["src/sanitizer/processes/", [...nativeLayer, ...seam, "src/sanitizer/"]],
  ["src/sanitizer/", [...seam, "src/ptx/", "src/sanitizer/"]],
  ["src/trace/", [...nativeLayer, ...seam, "src/sanitizer/reporting/", "src/trace/"]],
  ["src/memory/", [...nativeLayer, ...seam, ...objects]],
  ["src/objects/", [...nativeLayer, ...seam, ...objects, ...notifications, "src/ptx/", "src/compile/"]],
  ["src/collectives/", [...seam, ...objects, "src/sanitizer/"]],
  ["src/sharing/transport/", [...nativeLayer, ...seam, ...notifications, "src/memory/"]],
  ["src/sharing/protocol/", [...nativeLayer, ...seam, "src/trace/", "src/memory/", "src/sharing/transport/"]],
  ["src/sharing/events/", [...seam, ...objects, "src/sharing/transport/", "src/sharing/protocol/"]],
  ...["channel/", "exporter/", "importer/"].map((layer) =>
    [`src/sharing/${layer}`, [
      ...seam,
      ...objects,
      ...notifications,
      ...["transport/", "protocol/", "events/"].map((layer) => `src/sharing/${layer}`),
      // Exporters and importers have channels; a channel knows neither.
      ...layer === "channel/" ? [] : ["src/sharing/channel/"],
      ...layer === "exporter/" ? ["src/sharing/operator/"] : [],
    ]] as const
  ),
  // A store accepts as exporters do, connects as importers do, and keeps descriptors, which are native.
  ["src/sharing/store/", [
    ...nativeLayer,
    ...seam,
    ...objects,
    "src/trace/",
    ...["transport/", "protocol/", "exporter/", "importer/", "operator/"].map((layer) => `src/sharing/${layer}`),
  ]],
  // Operators know exporters only by the types of their numbers, and connect as importers do.
  ["src/sharing/operator/", [
    ...seam,
    ...["transport/", "protocol/", "channel/", "exporter/", "importer/"].map((layer) => `src/sharing/${layer}`),
  ]],
  // Notebooks show the objects, which know nothing of notebooks.
  ["src/notebook/", [...seam, ...objects, "src/sanitizer/reporting/"]],
  ["src/open.ts", [
    ...nativeLayer,
    ...seam,
    ...objects,
    "src/notebook/",
    "src/compile/",
    "src/sanitizer/",
    "src/trace/",
    "ffi/nccl/",
    "ffi/nvrtc.ts",
    "ffi/compilers/",
    "ffi/cuda_driver.ts",
    "src/software/software_driver.ts",
    "src/software/visible_devices.ts",
    "src/software/schedule.ts",
  ]],
  ["mod.ts", ["src/"]],
  // Files know the library as its users do: mod.ts does not load them.
  ["src/files/", ["mod.ts", "src/support/", "src/memory/dtypes.ts", "src/objects/streams/stream_option.ts"]],
  ["kernels/", ["mod.ts"]],
  ["src/weights/", [
    "mod.ts",
    "safetensors.ts",
    "kernels/",
    "src/support/",
    "src/files/",
    "src/memory/dtypes.ts",
    "src/objects/streams/stream_option.ts",
  ]],
  ...fileModules.map((module) => [`${module}.ts`, ["src/files/", "src/weights/", "safetensors.ts"]] as const),
  ...parts.map((part) => [`${part}.ts`, ["mod.ts"]] as const),
  [`${firstModule}.ts`, ["ffi/early_start.ts"]],
];

/**
 * The compiler's folders and files from the lowest to the highest: values are imported from those before only. Types of
 * emitters and rows refer to each other.
 */
const compilerOrder = [
  "webassembly/",
  "helpers/",
  "tensor_cores/",
  "typing/",
  "checks/",
  "instructions/",
  "control_flow/",
  "contraction/",
  "lockstep/",
  "codegen/",
  "simd/",
  "compile.ts",
  "linking/",
].map((part) => `src/software/compiler/${part}`);

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

test("only the entry points for files and weights load what reads and writes files", () => {
  const isOurs = (module: string) => /^src\/(files|weights)\//.test(module);
  const loading = imports.filter(({ from, to }) => isOurs(to) && !isOurs(from));
  assertEquals([...new Set(loading.map(({ from }) => from))].sort(), fileModules.map((module) => `${module}.ts`));
});

test("the compiler's folders import values of those below only", () => {
  const found = imports.filter(runsUpTheCompiler).map(({ from, to }) => `${from} imports ${to}`);
  assertEquals(found, []);
  const modules = new Set(imports.flatMap(({ from, to }) => [from, to])).values()
    .filter((module) => module.startsWith("src/software/compiler/"));
  assertEquals([...modules].filter((module) => compilerLevel(module) < 0), []);
});

test("every module lies in a layer that says what it may import, and no layer is empty", () => {
  const modules = new Set(imports.flatMap(({ from, to }) => [from, to]));
  assert(modules.size > 200, `${modules.size} modules`);
  assertEquals([...modules].filter((module) => layerOf(module) === undefined), []);
  assertEquals(layers.filter((layer) => ![...modules].some((module) => layerOf(module) === layer)), []);
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
  const beside = [
    ...file("src/sanitizer/kernel_accesses/kernel_code.ts", 'import "../../software/compiler/typing/resolver.ts";'),
    ...file("src/ptx/analysis/body_resolver.ts", 'import { didYouMean } from "../../support/validation.ts";'),
  ];
  assertEquals(beside.filter(pointsUpward), beside);
  const rows = "src/software/compiler/instructions/instructions.ts";
  const inCompiler = file(rows, 'import { generateKernel } from "../codegen/code_generator.ts";');
  assertEquals(inCompiler.filter(runsUpTheCompiler), inCompiler);
  const emitter = 'import type { FunctionEmitter } from "../codegen/function_emitter.ts";';
  assertEquals(file(rows, emitter, 'import { pushed } from "../checks/rules.ts";').filter(runsUpTheCompiler), []);
  assertEquals(file("src/memory/pool.ts", '/** import { open } from "./mod.ts"; */', '// import "./x.ts";'), []);
});

function layerOf(module: string): (typeof layers)[number] | undefined {
  return layers.find(([layer]) => module.startsWith(layer));
}

function folderOf(module: string): string {
  if (objects.some((layer) => module.startsWith(layer))) return "CUDA's objects";
  return instructionTable.some((layer) => module.startsWith(layer)) ? "the instruction table" : dirname(module);
}

function pointsUpward({ from, to }: Import): boolean {
  const [layer, mayImport] = layerOf(from)!;
  return layerOf(to)?.[0] !== layer && !mayImport.some((allowed) => to.startsWith(allowed));
}

function compilerLevel(module: string): number {
  return compilerOrder.findIndex((part) => module.startsWith(part));
}

function runsUpTheCompiler({ from, to, isOfTypes }: Import): boolean {
  const [level, other] = [compilerLevel(from), compilerLevel(to)];
  return !isOfTypes && level >= 0 && other > level;
}
