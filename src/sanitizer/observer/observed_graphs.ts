/**
 * Observes graphs. What is captured or added to a graph orders nothing: it is kept as nodes with their accesses. A
 * launch of the graph makes an operation of each node, and compares those that no edges order.
 *
 * @module
 */
import {
  type ArrayCopy,
  type Driver,
  externalEvent,
  type GraphCopy,
  type GraphFill,
  isArrayCopy,
  type KernelLaunch,
  type PitchedCopy,
} from "../../driver.ts";
import { type CapturedNote, type DriverMethod, notedCalls } from "../../driver_layers.ts";
import type { RangeAccess } from "../order/stream_order.ts";
import { lastPoint, type Operation, type Point, Timeline } from "../order/timelines.ts";
import { type CallStack, captureCallStack } from "../reporting/call_stacks.ts";
import { type CallName, effectsOf } from "../../call_effects.ts";
import { accessesOfRows, rangesOf } from "./device_memory.ts";
import { type GraphShape, type ObservedNode, type OrderedNode, planOf } from "./graph_plan.ts";
import type { ObservedHostMemory } from "./host_memory.ts";
import type { ObservedTextures } from "./textures.ts";
import type { ObservedKernels } from "./kernels.ts";
import type { ObservedEvents, ObservedWork } from "./observed_events.ts";
import type { ObservedStreams } from "./observed_streams.ts";

/** The parts of the sanitizer that `ObservedGraphs` uses. */
interface ObservedGraphsParts {
  readonly streams: ObservedStreams;
  readonly work: ObservedWork;
  readonly events: ObservedEvents;
  readonly kernels: ObservedKernels;
  readonly hostMemory: ObservedHostMemory;
  readonly textures: ObservedTextures;
}

/** An executable graph. */
interface ObservedExec {
  shape: GraphShape;
  readonly replaced: Map<bigint, ObservedNode>;
  readonly disabled: Set<bigint>;
  /** The nodes in the order of a launch. Undefined if they have changed since the latest launch. */
  plan: readonly OrderedNode[] | undefined;
  /** The branches of the launches but the first one, which is the stream itself. */
  readonly branches: Timeline[];
  /** The end of the latest launch. */
  end: Point | undefined;
}

/** The name and the effect of a node. */
type Described = Pick<ObservedNode, "name" | "effect">;

/** The library checks and notes a node that is added: its own frames are up to 15. */
const framesOfNodes = 24;

/** Observes the calls that capture, build, change and launch graphs. */
export class ObservedGraphs {
  readonly #driver: Driver;
  readonly #parts: ObservedGraphsParts;
  readonly #noted: Partial<Driver>;
  /** The nodes of graphs, by handle. */
  readonly #nodes = new Map<bigint, ObservedNode>();
  readonly #execs = new Map<bigint, ObservedExec>();

  constructor(driver: Driver, parts: ObservedGraphsParts) {
    this.#driver = driver;
    this.#parts = parts;
    this.#noted = notedCalls(driver, (device, stream, note) => {
      this.#keepCaptured(device, stream, this.#describe(note));
    });
  }

  /** Returns wrappers of the driver's graph calls that observe and forward each call. */
  calls(): Partial<Driver> {
    return { ...this.#nodeCalls(), ...this.#graphCalls(), ...this.#execCalls() };
  }

  /** Makes a call whose stream is captured, and keeps the node that it adds. */
  capture(name: PropertyKey, parameters: readonly unknown[], method: DriverMethod): unknown {
    const noted = this.#noted[name as CallName] as DriverMethod | undefined;
    if (noted !== undefined) return Reflect.apply(noted, undefined, parameters);
    const result: unknown = Reflect.apply(method, this.#driver, parameters);
    const described = this.#describeCaptured(name, parameters);
    if (described === undefined) return result;
    const { stream: place } = effectsOf(name);
    const { device, stream } = place === "launch"
      ? parameters[0] as KernelLaunch
      : { device: parameters[0] as number, stream: parameters[place as number] as bigint };
    this.#keepCaptured(device, stream, described);
    return result;
  }

  /** Keeps the node that a call has just added to the capture of a stream. */
  #keepCaptured(device: number, stream: bigint, described: Described): void {
    const { dependencies } = this.#driver.streamGetCaptureInfo(device, stream);
    if (dependencies.length === 1) this.#nodes.set(dependencies[0]!, { ...described, site: this.#parts.work.site });
  }

  /** Describes what the calls of `notedCalls` do not note. */
  #describeCaptured(name: PropertyKey, parameters: readonly unknown[]): Described | undefined {
    const [, first, second, third] = parameters;
    switch (name) {
      case "launchKernel":
      case "launchKernelEx":
        return this.#kernel(parameters[0] as KernelLaunch);
      case "memcpy3DPeerAsync":
        return this.#copyOfRows(first as PitchedCopy);
      case "memcpy3DArrayAsync":
        return this.#copyOfArray(first as ArrayCopy);
      case "eventRecordWithFlags":
        return third === externalEvent ? eventNode("record", first as bigint) : undefined;
      case "streamWaitEvent":
        return third === externalEvent ? eventNode("wait", second as bigint) : undefined;
      default:
        return undefined;
    }
  }

  #describe(note: CapturedNote): Described {
    switch (note.kind) {
      case "copy": {
        const { source, destination } = note.copy;
        return this.#copy(
          note.copy,
          typeof source !== "bigint" ? "copyFrom" : typeof destination !== "bigint" ? "copyTo" : "copy",
        );
      }
      case "rows":
        return this.#copyOfRows(note.copy);
      case "fill":
        return this.#fill(note.fill);
      case "allocate":
        return allocation(note.address, note.byteLength);
      case "free":
        return freeOf(note.address);
    }
  }

  #kernel(launch: KernelLaunch): Described {
    const { name, certain, possible } = this.#parts.kernels.describe(launch);
    return { name, effect: { kind: "access", accesses: certain, possible } };
  }

  #copy({ destination, source, byteLength }: GraphCopy, name = "copy"): Described {
    const ends = [["read", source], ["write", destination]] as const;
    const accesses = ends.flatMap(([access, memory]): readonly RangeAccess[] =>
      typeof memory === "bigint"
        ? [{ access, address: Number(memory), byteLength }]
        : this.#parts.hostMemory.rangeOf(access, memory.subarray(0, byteLength))
    );
    return { name, effect: { kind: "access", accesses, ...typeof source === "bigint" ? {} : { source } } };
  }

  #copyOfRows(copy: PitchedCopy): Described {
    const { hostMemory } = this.#parts;
    const accesses = [
      ...accessesOfRows(hostMemory, "read", copy.source, copy),
      ...accessesOfRows(hostMemory, "write", copy.destination, copy),
    ];
    return { name: "copy", effect: { kind: "access", accesses } };
  }

  #copyOfArray(copy: ArrayCopy): Described {
    const { textures } = this.#parts;
    const accesses = [
      ...textures.accessesOfEnd("read", copy.source, copy),
      ...textures.accessesOfEnd("write", copy.destination, copy),
    ];
    return { name: "copy", effect: { kind: "access", accesses } };
  }

  #fill({ address, elementSize, width, height, pitch }: GraphFill): Described {
    const size = { width: elementSize * width, height, depth: 1 };
    const accesses = rangesOf(
      "write",
      { memory: address, pitch: height === 1 ? size.width : pitch, rows: height },
      size,
    );
    return { name: "fill", effect: { kind: "access", accesses } };
  }

  #add(node: bigint, described: Described): bigint {
    this.#nodes.set(node, { ...described, site: captureCallStack(framesOfNodes) });
    return node;
  }

  #nodeCalls(): Partial<Driver> {
    const driver = this.#driver;
    return {
      graphAddKernelNode: (graph, dependencies, launch, attributes) =>
        this.#add(driver.graphAddKernelNode(graph, dependencies, launch, attributes), this.#kernel(launch)),
      graphAddMemcpyNode: (device, graph, dependencies, copy) =>
        this.#add(
          driver.graphAddMemcpyNode(device, graph, dependencies, copy),
          "byteLength" in copy
            ? this.#copy(copy)
            : isArrayCopy(copy)
            ? this.#copyOfArray(copy)
            : this.#copyOfRows(copy),
        ),
      graphAddMemsetNode: (device, graph, dependencies, fill) =>
        this.#add(driver.graphAddMemsetNode(device, graph, dependencies, fill), this.#fill(fill)),
      graphAddChildGraphNode: (graph, dependencies, child, isMoved) => {
        const effect = { kind: "graph", child: this.#shapeOf(child) } as const;
        return this.#add(driver.graphAddChildGraphNode(graph, dependencies, child, isMoved), { name: "graph", effect });
      },
      graphAddEventRecordNode: (graph, dependencies, event) =>
        this.#add(driver.graphAddEventRecordNode(graph, dependencies, event), eventNode("record", event)),
      graphAddEventWaitNode: (graph, dependencies, event) =>
        this.#add(driver.graphAddEventWaitNode(graph, dependencies, event), eventNode("wait", event)),
      graphAddMemAllocNode: (graph, dependencies, props, accesses, byteLength) => {
        const added = driver.graphAddMemAllocNode(graph, dependencies, props, accesses, byteLength);
        this.#add(added.node, allocation(added.address, byteLength));
        return added;
      },
      graphAddMemFreeNode: (graph, dependencies, address) =>
        this.#add(driver.graphAddMemFreeNode(graph, dependencies, address), freeOf(address)),
      graphAddConditionalNode: (device, graph, dependencies, condition) => {
        const added = driver.graphAddConditionalNode(device, graph, dependencies, condition);
        this.#add(added.node, { name: "conditional", effect: { kind: "branches", bodies: added.bodies } });
        return added;
      },
      graphDestroyNode: (node) => {
        driver.graphDestroyNode(node);
        this.#nodes.delete(node);
      },
    };
  }

  #graphCalls(): Partial<Driver> {
    const driver = this.#driver;
    return {
      graphClone: (graph) => {
        const clone = driver.graphClone(graph);
        for (const handle of driver.graphGetNodes(graph)) {
          const node = this.#nodes.get(handle);
          if (node !== undefined) this.#nodes.set(driver.graphNodeFindInClone(handle, clone), node);
        }
        return clone;
      },
      graphDestroy: (graph) => {
        const nodes = this.#allNodesOf(graph);
        driver.graphDestroy(graph);
        for (const node of nodes) this.#nodes.delete(node);
      },
      graphInstantiate: (graph, flags) => {
        const exec = driver.graphInstantiate(graph, flags);
        this.#execs.set(exec, {
          shape: this.#shapeOf(graph),
          replaced: new Map(),
          disabled: new Set(),
          plan: undefined,
          branches: [],
          end: undefined,
        });
        return exec;
      },
    };
  }

  #execCalls(): Partial<Driver> {
    const driver = this.#driver;
    const replace = (exec: bigint, node: bigint, described: Described) => {
      const found = this.#execs.get(exec);
      if (found === undefined) return;
      found.replaced.set(node, { ...described, site: found.replaced.get(node)?.site ?? this.#siteOf(node) });
      found.plan = undefined;
    };
    return {
      graphLaunch: (device, exec, stream) => this.#launch(exec, { device, stream }),
      graphExecDestroy: (exec) => {
        driver.graphExecDestroy(exec);
        for (const branch of this.#execs.get(exec)?.branches ?? []) this.#parts.streams.dropBranch(branch);
        this.#execs.delete(exec);
      },
      graphExecUpdate: (exec, graph) => {
        driver.graphExecUpdate(exec, graph);
        const found = this.#execs.get(exec);
        if (found === undefined) return;
        found.plan = undefined;
        found.replaced.clear();
        const shape = this.#shapeOf(graph);
        if (!replaceAll(found.replaced, found.shape, shape)) found.shape = shape;
      },
      graphExecKernelNodeSetParams: (exec, node, launch) => {
        driver.graphExecKernelNodeSetParams(exec, node, launch);
        replace(exec, node, this.#kernel(launch));
      },
      graphExecMemcpyNodeSetParams: (device, exec, node, copy) => {
        driver.graphExecMemcpyNodeSetParams(device, exec, node, copy);
        replace(exec, node, this.#copy(copy));
      },
      graphExecMemsetNodeSetParams: (device, exec, node, fill) => {
        driver.graphExecMemsetNodeSetParams(device, exec, node, fill);
        replace(exec, node, this.#fill(fill));
      },
      graphExecEventRecordNodeSetEvent: (exec, node, event) => {
        driver.graphExecEventRecordNodeSetEvent(exec, node, event);
        replace(exec, node, eventNode("record", event));
      },
      graphExecEventWaitNodeSetEvent: (exec, node, event) => {
        driver.graphExecEventWaitNodeSetEvent(exec, node, event);
        replace(exec, node, eventNode("wait", event));
      },
      graphExecChildGraphNodeSetParams: (exec, node, child) => {
        driver.graphExecChildGraphNodeSetParams(exec, node, child);
        replace(exec, node, { name: "graph", effect: { kind: "graph", child: this.#shapeOf(child) } });
      },
      graphNodeSetEnabled: (exec, node, isEnabled) => {
        driver.graphNodeSetEnabled(exec, node, isEnabled);
        const found = this.#execs.get(exec);
        if (found === undefined) return;
        if (isEnabled) found.disabled.delete(node);
        else found.disabled.add(node);
        found.plan = undefined;
      },
    };
  }

  #siteOf(node: bigint): CallStack {
    return this.#nodes.get(node)?.site ?? captureCallStack(framesOfNodes);
  }

  #shapeOf(graph: bigint): GraphShape {
    const handles = this.#driver.graphGetNodes(graph);
    const places = new Map(handles.map((handle, index) => [handle, index]));
    const dependencies = handles.map((): number[] => []);
    for (const [from, to] of this.#driver.graphGetEdges(graph)) {
      dependencies[places.get(to)!]!.push(places.get(from)!);
    }
    return handles.map((handle, index) => {
      const node = this.#nodes.get(handle);
      const bodies = this.#bodiesOf(node).map((body) => this.#shapeOf(body));
      return { handle, node, dependencies: dependencies[index]!, bodies };
    });
  }

  #bodiesOf(node: ObservedNode | undefined): readonly bigint[] {
    return node?.effect.kind === "branches" ? node.effect.bodies : [];
  }

  #allNodesOf(graph: bigint): bigint[] {
    return this.#driver.graphGetNodes(graph).flatMap((handle) => {
      const bodies = this.#bodiesOf(this.#nodes.get(handle));
      return [handle, ...bodies.flatMap((body) => this.#allNodesOf(body))];
    });
  }

  #launch(exec: bigint, { device, stream }: { readonly device: number; readonly stream: bigint }): void {
    const { streams, work, hostMemory } = this.#parts;
    const found = this.#execs.get(exec);
    const plan = found === undefined ? [] : found.plan ??= planOf(found.shape, found);
    for (const { node } of plan) {
      if (node?.effect.kind !== "access") continue;
      for (const { access, address, byteLength } of node.effect.accesses) {
        if (access !== "read") hostMemory.beforeWrite(BigInt(address), byteLength);
      }
    }
    this.#driver.graphLaunch(device, exec, stream);
    const own = streams.streamOf(device, stream);
    if (found?.end !== undefined) own.joinEnd(found.end);
    const begin = streams.next(device, stream);
    if (found === undefined) return;
    const graph = { stream: own.name, launched: work.site };
    const points: Point[] = [];
    const used = new Set<Timeline>();
    for (const { node, dependencies, branch } of plan) {
      const timeline = branch === 0 ? own : found.branches[branch - 1] ??= new Timeline("", { device });
      timeline.joinEnd(begin);
      for (const dependency of dependencies) timeline.joinEnd(points[dependency]!);
      timeline.position++;
      const point = lastPoint(timeline);
      points.push(point);
      if (branch > 0) used.add(timeline);
      if (node === undefined) continue;
      const { processes: { sequence }, assumed } = streams;
      this.#run(node, { name: node.name, site: node.site, sequence, assumed, graph, ...point });
    }
    for (const branch of used) own.joinTimeline(branch);
    found.end = lastPoint(own);
  }

  #run({ effect, site }: ObservedNode, operation: Operation): void {
    const { work, events, hostMemory } = this.#parts;
    switch (effect.kind) {
      case "access": {
        const { accesses, possible = [], source } = effect;
        work.order.add({ operation, accesses, possible });
        hostMemory.afterNode(accesses);
        if (source !== undefined) hostMemory.addSource(operation, source);
        break;
      }
      case "allocate":
        work.allocated(operation, effect);
        break;
      case "free":
        work.freed(operation, effect.address);
        break;
      case "record":
        events.recorded(effect.event, operation, site);
        break;
      case "wait":
        events.joinRecords(operation.timeline, effect.event);
    }
  }
}

function allocation(address: bigint, byteLength: number): Described {
  return { name: "allocate", effect: { kind: "allocate", address: Number(address), byteLength } };
}

function freeOf(address: bigint): Described {
  return { name: "free", effect: { kind: "free", address: Number(address) } };
}

function eventNode(kind: "record" | "wait", event: bigint): Described {
  return { name: kind, effect: { kind, event } };
}

/**
 * Replaces the nodes of an executable graph by those of another graph with the same shape. Returns false if the shapes
 * differ.
 */
function replaceAll(replaced: Map<bigint, ObservedNode>, own: GraphShape, other: GraphShape): boolean {
  if (own.length !== other.length) return false;
  return own.every(({ handle, node: before, bodies }, index) => {
    const { node, bodies: otherBodies } = other[index]!;
    if (before?.effect.kind !== node?.effect.kind || bodies.length !== otherBodies.length) return false;
    if (node !== undefined) replaced.set(handle, node);
    return bodies.every((body, place) => replaceAll(replaced, body, otherBodies[place]!));
  });
}
