/** Graphs of the software device: random ones against sequential execution, under several schedules and on a GPU. */
import { assertEquals, assertThrows } from "@std/assert";
import {
  conditionalNodeType,
  defaultStream,
  type Driver,
  type GraphFill,
  graphInstantiateFlags,
  type KernelLaunch,
  streamCaptureMode,
  streamFlags,
} from "../../src/driver.ts";
import { CudaError } from "../../src/support/errors.ts";
import { GraphError, graphExecUpdateResult, graphInstantiateResult } from "../../src/support/graph_errors.ts";
import type { Schedule } from "../../src/software/schedule.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { driverNamed } from "../support/drivers.ts";
import { isLong, test } from "../support/test.ts";

/** A cell becomes three times itself, plus another cell, plus a constant. */
const mixPtx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry mix(.param .u64 to, .param .u64 from, .param .u32 constant) {
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  ld.param.u32 %r1, [constant];
  ld.global.u32 %r2, [%rd1];
  ld.global.u32 %r3, [%rd2];
  mad.lo.u32 %r4, %r2, 3, %r3;
  add.u32 %r4, %r4, %r1;
  st.global.u32 [%rd1], %r4;
  ret;
}`;

const cells = 12;
const cellBytes = 4;
const scratch = cells;

/** An operation on cells. The cell after the last one is memory that the graph allocates. */
interface Operation {
  readonly kind: "mix" | "copy" | "fill";
  readonly to: number;
  readonly from: number;
  constant: number;
  isEnabled: boolean;
}

/** A graph, its executable graph, and what sequential execution of its launches gives. */
interface Modelled {
  readonly graph: bigint;
  readonly exec: bigint;
  readonly operations: readonly Operation[];
  readonly nodes: readonly bigint[];
  readonly hasMemory: boolean;
  /** The number of operations that a child graph has. They come last, and cannot be changed one by one. */
  readonly inChild: number;
  readonly base: bigint;
  readonly expected: Uint32Array;
}

/** Returns a generator of integers below a limit. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
}

/** Builds graphs on a driver, and changes and launches them. */
class Player {
  readonly driver: Driver;
  readonly #random: (below: number) => number;
  readonly #mix: bigint;
  readonly #streams: readonly bigint[];

  constructor(seed: number, driver: Driver) {
    this.driver = driver;
    this.#random = randomNumbers(seed);
    this.#mix = driver.moduleGetFunction(driver.moduleLoadData(0, mixPtx), "mix");
    const created = [0, 1].map(() => driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0));
    this.#streams = [defaultStream, ...created];
  }

  #operation(count: number): Operation {
    const kind = (["mix", "copy", "fill"] as const)[this.#random(3)]!;
    const to = this.#random(count);
    return { kind, to, from: (to + 1 + this.#random(count - 1)) % count, constant: this.#random(256), isEnabled: true };
  }

  /** Adds an operation to a graph, after the given nodes. */
  #add(graph: bigint, after: readonly bigint[], operation: Operation, addressOf: (cell: number) => bigint): bigint {
    const { driver } = this;
    const { kind, to, from } = operation;
    if (kind === "mix") return driver.graphAddKernelNode(graph, after, this.#launch(operation, addressOf));
    if (kind === "fill") return driver.graphAddMemsetNode(0, graph, after, fillOf(operation, addressOf));
    const copy = { source: addressOf(from), destination: addressOf(to), byteLength: cellBytes };
    return driver.graphAddMemcpyNode(0, graph, after, copy);
  }

  #launch({ to, from, constant }: Operation, addressOf: (cell: number) => bigint): KernelLaunch {
    const launch = this.driver.createKernelLaunch(0, this.#mix, 20);
    launch.parameters.setBigUint64(0, addressOf(to), true);
    launch.parameters.setBigUint64(8, addressOf(from), true);
    launch.parameters.setUint32(16, constant, true);
    return launch;
  }

  /** Adds operations with the edges that sequential execution asks for, some of them through others. */
  #addAll(graph: bigint, operations: readonly Operation[], options: {
    addressOf: (cell: number) => bigint;
    roots: readonly bigint[];
  }): bigint[] {
    const { driver } = this;
    const nodes: bigint[] = [];
    for (const [index, operation] of operations.entries()) {
      const before = operations.slice(0, index).map((other, at) => conflict(operation, other) ? at : -1);
      const needed = before.filter((at) => at >= 0);
      if (index > 0 && this.#random(4) === 0) needed.push(this.#random(index));
      const after = [...new Set(needed)].map((at) => nodes[at]!);
      // Some edges are added with the node, and some afterwards.
      const isLate = this.#random(2) === 0;
      const node = this.#add(graph, [...options.roots, ...isLate ? [] : after], operation, options.addressOf);
      if (isLate) driver.graphAddDependencies(graph, after.map((other) => [other, node]));
      nodes.push(node);
    }
    return nodes;
  }

  build(): Modelled {
    const { driver } = this;
    const graph = driver.graphCreate();
    const base = driver.malloc(0, cells * cellBytes);
    driver.memsetAsync(0, base, 0, cells * cellBytes, defaultStream);
    driver.streamSynchronize(0, defaultStream);
    const hasMemory = this.#random(3) === 0;
    const count = hasMemory ? cells + 1 : cells;
    const roots: bigint[] = [];
    let memory = 0n;
    const operations = Array.from({ length: 4 + this.#random(12) }, () => this.#operation(count));
    if (hasMemory) {
      const props = { handleTypes: 0, location: { type: 1, id: 0 }, maxSize: 0n };
      const allocated = driver.graphAddMemAllocNode(graph, [], props, [], cellBytes);
      memory = allocated.address;
      roots.push(allocated.node);
      // Graph memory has no contents before something writes it.
      operations.unshift({ kind: "fill", to: scratch, from: 0, constant: 1, isEnabled: true });
    }
    const addressOf = (cell: number) => cell === scratch ? memory : base + BigInt(cell * cellBytes);
    const inChild = hasMemory ? 0 : this.#random(3) === 0 ? 2 + this.#random(2) : 0;
    const own = operations.slice(0, operations.length - inChild);
    const nodes = this.#addAll(graph, own, { addressOf, roots });
    if (inChild > 0) {
      const child = driver.graphCreate();
      this.#addAll(child, operations.slice(own.length), { addressOf, roots: [] });
      driver.graphAddChildGraphNode(graph, nodes, child);
      driver.graphDestroy(child);
    }
    if (hasMemory) driver.graphAddMemFreeNode(graph, nodes, memory);
    const exec = driver.graphInstantiate(graph, 0);
    const expected = new Uint32Array(cells + 1);
    return { graph, exec, operations, nodes, hasMemory, inChild, base, expected };
  }

  /** Does something at random to an executable graph, and launches it. */
  change({ graph, exec, operations, nodes, hasMemory, base, expected }: Modelled): void {
    const { driver } = this;
    const index = this.#random(nodes.length);
    const [operation, node] = [operations[index]!, nodes[index]!];
    const usesMemory = operation.to === scratch || operation.from === scratch;
    const addressOf = (cell: number) => base + BigInt(cell * cellBytes);
    const chosen = this.#random(5);
    if (chosen === 0 && operation.kind !== "copy" && !usesMemory) {
      operation.constant = this.#random(256);
      if (operation.kind === "mix") driver.graphExecKernelNodeSetParams(exec, node, this.#launch(operation, addressOf));
      else driver.graphExecMemsetNodeSetParams(0, exec, node, fillOf(operation, addressOf));
    } else if (chosen === 1 && !(hasMemory && index === 0)) {
      operation.isEnabled = !operation.isEnabled;
      driver.graphNodeSetEnabled(exec, node, operation.isEnabled);
      assertEquals(driver.graphNodeGetEnabled(exec, node), operation.isEnabled);
    } else if (chosen === 2 && !hasMemory) {
      // A clone has the parameters of the graph, not those that the executable graph got afterwards.
      const clone = driver.graphClone(graph);
      driver.graphExecUpdate(exec, clone);
      driver.graphDestroy(clone);
      for (const one of operations) one.constant = original.get(one) ?? one.constant;
    }
    driver.graphLaunch(0, exec, this.#streams[this.#random(this.#streams.length)]!);
    run(operations, expected);
  }

  /** Remembers the constants that the graph has. */
  remember({ operations }: Modelled): void {
    for (const one of operations) original.set(one, one.constant);
  }

  /** Compares the memory of a graph with what sequential execution gives. */
  check({ base, expected }: Modelled, what: string): void {
    this.driver.deviceSynchronize(0);
    const bytes = new Uint8Array(cells * cellBytes);
    this.driver.memcpyDtoHAsync(0, bytes, base, defaultStream);
    assertEquals([...new Uint32Array(bytes.buffer)], [...expected.subarray(0, cells)], what);
  }
}

const original = new WeakMap<Operation, number>();

function fillOf({ to, constant }: Operation, addressOf: (cell: number) => bigint): GraphFill {
  return { address: addressOf(to), value: constant, elementSize: 1, width: cellBytes, height: 1, pitch: 0 };
}

/** Whether two operations must keep their order. */
function conflict(a: Operation, b: Operation): boolean {
  const reads = ({ kind, to, from }: Operation) => kind === "fill" ? [] : kind === "copy" ? [from] : [to, from];
  return a.to === b.to || reads(a).includes(b.to) || reads(b).includes(a.to);
}

/** Executes operations one after the other. */
function run(operations: readonly Operation[], values: Uint32Array): void {
  for (const { kind, to, from, constant, isEnabled } of operations) {
    if (!isEnabled) continue;
    if (kind === "mix") values[to] = Math.imul(values[to]!, 3) + values[from]! + constant;
    else if (kind === "copy") values[to] = values[from]!;
    else values[to] = Math.imul(constant, 0x01010101);
  }
}

const schedules: readonly (Schedule | undefined)[] = [undefined, "oldest", "newest", "random:1", "random:2"];
const graphsPerSchedule = isLong ? 2000 : 40;

/** Plays with random graphs, four at a time. */
function play(player: Player): void {
  const { driver } = player;
  for (let count = 0; count < graphsPerSchedule; count += 4) {
    const graphs = Array.from({ length: 4 }, () => player.build());
    for (const one of graphs) player.remember(one);
    for (let step = 0; step < 5; step++) for (const one of graphs) player.change(one);
    for (const [index, one] of graphs.entries()) {
      // Memory that a pending launch uses is released when the launch is complete.
      if (index % 2 === 0) driver.graphExecDestroy(one.exec);
      driver.graphDestroy(one.graph);
    }
    for (const [index, one] of graphs.entries()) {
      player.check(one, `graph ${count + index}`);
      if (index % 2 > 0) driver.graphExecDestroy(one.exec);
      driver.free(0, one.base);
    }
  }
}

for (const schedule of schedules) {
  test(`random graphs are executed as if one node after the other ran, schedule ${schedule ?? "by turns"}`, () => {
    const driver = new SoftwareDriver({ devices: 1, peers: true, ...schedule && { schedule } });
    play(new Player(schedules.indexOf(schedule) + 1, driver));
    driver.deviceGraphMemTrim(0);
    assertEquals(driver.deviceGetGraphMemAttribute(0, 0), 0n);
    driver.close();
  });
}

const { skip, open: openCuda } = driverNamed("cuda");
test("random graphs are executed as if one node after the other ran [cuda]", { skip }, async () => {
  const driver = openCuda();
  await driver.deviceInitialize(0);
  play(new Player(1, driver));
  driver.close();
});

test("nodes without an order run in the order of the schedule", () => {
  const lastOf = (schedule: Schedule) => {
    const driver = new SoftwareDriver({ devices: 1, peers: true, schedule });
    const address = driver.malloc(0, cellBytes);
    const graph = driver.graphCreate();
    for (const value of [1, 2, 3]) {
      driver.graphAddMemsetNode(0, graph, [], { address, value, elementSize: 1, width: 4, height: 1, pitch: 0 });
    }
    driver.graphLaunch(0, driver.graphInstantiate(graph, 0), defaultStream);
    driver.streamSynchronize(0, defaultStream);
    const bytes = new Uint8Array(1);
    driver.memcpyDtoHAsync(0, bytes, address, defaultStream);
    driver.close();
    return bytes[0];
  };
  assertEquals([lastOf("oldest"), lastOf("newest")], [3, 1]);
  assertEquals(new Set(Array.from({ length: 20 }, (_, seed) => lastOf(`random:${seed}`))).size, 3);
});

test("a graph that cannot be executed or updated says why, and names the node", () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const graph = driver.graphCreate();
  const first = driver.graphAddEmptyNode(graph, []);
  const exec = driver.graphInstantiate(graph, 0);
  const second = driver.graphAddEmptyNode(graph, []);
  const update = assertThrows(() => driver.graphExecUpdate(exec, graph), GraphError, "differ in their nodes or edges");
  assertEquals([update.result, update.node, update.code], [
    graphExecUpdateResult.topologyChanged,
    undefined,
    "cudaErrorGraphExecUpdateFailure",
  ]);
  const other = driver.graphCreate();
  const event = driver.eventCreateWithFlags(0, 0);
  const record = driver.graphAddEventRecordNode(other, [], event);
  const type = assertThrows(() => driver.graphExecUpdate(exec, other), GraphError, "differ in a node's type");
  assertEquals([type.result, type.node], [graphExecUpdateResult.nodeTypeChanged, record]);
  driver.graphAddDependencies(graph, [[first, second], [second, first]]);
  const circle = assertThrows(() => driver.graphInstantiate(graph, 0), GraphError, "depend on each other in a circle");
  assertEquals([circle.result, circle.node, circle.code], [
    graphInstantiateResult.invalidStructure,
    first,
    "cudaErrorInvalidValue",
  ]);
  driver.close();
});

test("a failed update changes no node", () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const address = driver.malloc(0, 8);
  const fill = (value: number, offset: bigint): GraphFill => {
    return { address: address + offset, value, elementSize: 1, width: 4, height: 1, pitch: 0 };
  };
  const build = (value: number, isLong: boolean) => {
    const graph = driver.graphCreate();
    const first = driver.graphAddMemsetNode(0, graph, [], fill(value, 0n));
    if (isLong) driver.graphAddMemsetNode(0, graph, [first], fill(value, 4n));
    else driver.graphAddEmptyNode(graph, [first]);
    return graph;
  };
  const exec = driver.graphInstantiate(build(1, true), 0);
  assertThrows(() => driver.graphExecUpdate(exec, build(2, false)), GraphError);
  driver.graphLaunch(0, exec, defaultStream);
  const bytes = new Uint8Array(8);
  driver.memcpyDtoHAsync(0, bytes, address, defaultStream);
  assertEquals([...bytes], [1, 1, 1, 1, 1, 1, 1, 1]);
  driver.close();
});

/** Kernels that decide how a graph goes on, by memory and by a counter. */
const decidingPtx = `.version 8.3
.target sm_60
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
.visible .entry decide(.param .u64 handle, .param .u64 from) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [handle];
  ld.param.u64 %rd2, [from];
  ld.global.u32 %r1, [%rd2];
  {
    .param .b64 first;
    .param .b32 second;
    st.param.b64 [first], %rd1;
    st.param.b32 [second], %r1;
    call.uni cudaGraphSetConditional, (first, second);
  }
  ret;
}
.visible .entry countDown(.param .u64 handle, .param .u64 counter) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [handle];
  ld.param.u64 %rd2, [counter];
  ld.global.u32 %r1, [%rd2];
  sub.u32 %r2, %r1, 1;
  st.global.u32 [%rd2], %r2;
  {
    .param .b64 first;
    .param .b32 second;
    st.param.b64 [first], %rd1;
    st.param.b32 [second], %r2;
    call.uni cudaGraphSetConditional, (first, second);
  }
  ret;
}`;

for (const schedule of schedules) {
  test(`conditional nodes run the bodies that kernels choose, schedule ${schedule ?? "by turns"}`, () => {
    const driver = new SoftwareDriver({ devices: 1, peers: true, ...schedule && { schedule } });
    const module = driver.moduleLoadData(0, decidingPtx);
    const [decide, countDown] = ["decide", "countDown"].map((name) => driver.moduleGetFunction(module, name));
    const mix = driver.moduleGetFunction(driver.moduleLoadData(0, mixPtx), "mix");
    const base = driver.malloc(0, 64);
    const cell = (index: number) => base + BigInt(4 * index);
    const set = (index: number, value: number) => driver.memsetD32Async(0, cell(index), value, 1, defaultStream);
    const launchOf = (kernel: bigint, ...parameters: (bigint | number)[]) => {
      const byteLength = parameters.reduce<number>((sum, value) => sum + (typeof value === "bigint" ? 8 : 4), 0);
      const launch = driver.createKernelLaunch(0, kernel, byteLength);
      parameters.forEach((value, index) => {
        if (typeof value === "bigint") launch.parameters.setBigUint64(8 * index, value, true);
        else launch.parameters.setUint32(8 * index, value, true);
      });
      return launch;
    };
    const addTo = (graph: bigint, index: number, constant: number) =>
      driver.graphAddKernelNode(graph, [], launchOf(mix, cell(index), cell(15), constant));
    // Runs one of three bodies, one of two, and one as often as the counter in cell 0 says.
    const graph = driver.graphCreate();
    const { switch: cases, if: choice, while: loop } = conditionalNodeType;
    const [of, yes, again] = [0, 1, 2].map((index) => {
      return driver.graphConditionalHandleCreate(0, graph, index === 2 ? 1 : undefined);
    });
    const deciding = [of!, yes!].map((handle, index) =>
      driver.graphAddKernelNode(graph, [], launchOf(decide!, handle, cell(1 + index)))
    );
    const switching = driver.graphAddConditionalNode(0, graph, [deciding[0]!], { handle: of!, type: cases, size: 3 });
    switching.bodies.forEach((body, index) => addTo(body, 3, index + 1));
    const choosing = driver.graphAddConditionalNode(0, graph, [deciding[1]!], { handle: yes!, type: choice, size: 2 });
    choosing.bodies.forEach((body, index) => addTo(body, 4, index + 1));
    const looping = driver.graphAddConditionalNode(0, graph, [], { handle: again!, type: loop, size: 1 });
    const [body] = looping.bodies;
    const counted = driver.graphAddKernelNode(body!, [], launchOf(countDown!, again!, cell(0)));
    driver.graphAddKernelNode(body!, [counted], launchOf(mix, cell(5), cell(15), 1));
    const exec = driver.graphInstantiate(graph, 0);
    driver.graphDestroy(graph);
    const results = [[3, 0, 0], [1, 2, 1], [5, 7, 2]].map((values) => {
      driver.memsetAsync(0, base, 0, 64, defaultStream);
      values.forEach((value, index) => set(index, value));
      driver.graphLaunch(0, exec, defaultStream);
      const bytes = new Uint8Array(24);
      driver.memcpyDtoHAsync(0, bytes, base, defaultStream);
      return [...new Uint32Array(bytes.buffer).subarray(3)];
    });
    // A loop of n turns makes 1, 4, 13, 40, 121 of 0.
    assertEquals(results, [[1, 2, 13], [3, 1, 1], [0, 1, 121]]);
    driver.graphExecDestroy(exec);
    driver.close();
  });
}

test("memory of graphs is released with the last graph that has it, once it is freed", () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
  const pool = driver.memPoolCreate({ handleTypes: 0, location: { type: 1, id: 0 }, maxSize: 0n });
  const free = () => driver.memGetInfo(0).free;
  const before = free();
  for (const flags of [0, graphInstantiateFlags.autoFreeOnLaunch]) {
    driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
    const memory = driver.mallocFromPoolAsync(0, 2 ** 20, pool, stream);
    const graph = driver.streamEndCapture(0, stream);
    const exec = driver.graphInstantiate(graph, flags);
    driver.graphLaunch(0, exec, stream);
    driver.graphExecDestroy(exec);
    driver.graphDestroy(graph);
    driver.streamSynchronize(0, stream);
    assertEquals(free() < before, true);
    driver.freeAsync(0, memory, stream);
    assertThrows(() => driver.freeAsync(0, memory, stream), CudaError, "cudaErrorInvalidValue");
    driver.streamSynchronize(0, stream);
    assertEquals(free(), before);
  }
  driver.close();
});
