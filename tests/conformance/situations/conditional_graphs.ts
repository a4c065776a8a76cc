/**
 * Rows about conditional nodes of graphs.
 *
 * @module
 */
import {
  conditionalNodeType,
  defaultStream,
  type Driver,
  type GraphFill,
  type KernelLaunch,
  streamCaptureMode,
} from "../../../src/driver.ts";
import { CudaError } from "../../../src/support/errors.ts";
import { GraphError } from "../../../src/support/graph_errors.ts";
import { attemptEach } from "../attempts.ts";
import { byteLength, endOf, type Parts, prepare, shapeOf } from "../graph_parts.ts";
import { readBytes } from "../launch.ts";
import { onDevice } from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

/** Kernels that set the value of a conditional node: to a number in memory, which `countDown` decreases first. */
const ptx = `.version 8.3
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

const { if: choice, while: loop, switch: cases } = conditionalNodeType;

/** What the rows use, and a graph. */
interface ConditionalParts extends Parts {
  readonly graph: bigint;
  /** Returns a launch of `decide` or `countDown` with the number at an offset of the memory. */
  launchOf(name: "decide" | "countDown", handle: bigint, offset: number): KernelLaunch;
  /** Creates a value of the graph, and a kernel that gives it the number at an offset of the memory. */
  decided(offset: number, defaultValue?: number): { handle: bigint; node: bigint };
  /** Adds a fill of 4 bytes of the memory to a graph. */
  fillIn(graph: bigint, offset: number, value: number): bigint;
  /** Sets the numbers at the beginning of the memory, launches an executable graph, and returns the first bytes. */
  bytesAfter(exec: bigint, numbers: readonly number[]): number[];
}

function prepareConditions(driver: Driver): ConditionalParts {
  const parts = prepare(driver);
  const { address, stream } = parts;
  const graph = driver.graphCreate();
  const module = driver.moduleLoadData(0, ptx);
  const launchOf = (name: string, handle: bigint, offset: number) => {
    const launch = driver.createKernelLaunch(0, driver.moduleGetFunction(module, name), 16);
    launch.parameters.setBigUint64(0, handle, true);
    launch.parameters.setBigUint64(8, address + BigInt(offset), true);
    return launch;
  };
  return {
    ...parts,
    graph,
    launchOf,
    decided(offset, defaultValue) {
      const handle = driver.graphConditionalHandleCreate(0, graph, defaultValue);
      return { handle, node: driver.graphAddKernelNode(graph, [], launchOf("decide", handle, offset)) };
    },
    fillIn: (target, offset, value) => driver.graphAddMemsetNode(0, target, [], fillOf(address, offset, value)),
    bytesAfter(exec, numbers) {
      driver.memsetAsync(0, address, 0, byteLength, stream);
      numbers.forEach((number, index) => driver.memsetD32Async(0, address + BigInt(4 * index), number, 1, stream));
      driver.graphLaunch(0, exec, stream);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, address, 16);
    },
  };
}

function fillOf(address: bigint, offset: number, value: number): GraphFill {
  return { address: address + BigInt(offset), value, elementSize: 1, width: 4, height: 1, pitch: 0 };
}

/** The code of an error, and CUDA's reason. */
function errorOf(call: () => unknown): Answer {
  try {
    call();
    return "done";
  } catch (error) {
    if (error instanceof GraphError) return { code: error.code, result: error.result, names: error.node !== undefined };
    if (error instanceof CudaError) return error.code;
    throw error;
  }
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "PTX that sets the value of a conditional node loaded, and linked",
    run: ({ driver }) =>
      attemptEach({
        load: () => driver.moduleGetFunction(driver.moduleLoadData(0, ptx), "decide"),
        link: () => driver.moduleGetFunction(driver.linkModules(0, [{ name: "module", image: ptx }]), "decide"),
      }),
  },
  {
    name: "a conditional node that runs its body or not",
    run({ driver }) {
      const { graph, decided, fillIn, bytesAfter } = prepareConditions(driver);
      const { handle, node } = decided(0);
      const { bodies } = driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 1 });
      fillIn(bodies[0]!, 4, 5);
      const exec = driver.graphInstantiate(graph, 0);
      return [0, 1, 7].map((number) => bytesAfter(exec, [number]));
    },
  },
  {
    name: "a conditional node that runs one of two bodies",
    run({ driver }) {
      const { graph, decided, fillIn, bytesAfter } = prepareConditions(driver);
      const { handle, node } = decided(0);
      const { bodies } = driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 2 });
      bodies.forEach((body, index) => fillIn(body, 4 + 4 * index, 5));
      const exec = driver.graphInstantiate(graph, 0);
      return [0, 1].map((number) => bytesAfter(exec, [number]));
    },
  },
  {
    name: "a conditional node that runs one of three bodies, or none",
    run({ driver }) {
      const { graph, decided, fillIn, bytesAfter } = prepareConditions(driver);
      const { handle, node } = decided(0);
      const { bodies } = driver.graphAddConditionalNode(0, graph, [node], { handle, type: cases, size: 3 });
      bodies.forEach((body, index) => fillIn(body, 4, 5 + index));
      const exec = driver.graphInstantiate(graph, 0);
      return { shape: shapeOf(driver, graph), bytes: [0, 1, 2, 3].map((number) => bytesAfter(exec, [number])) };
    },
  },
  {
    name: "a conditional node that repeats its body, and a value with a default, launched three times",
    run({ driver }) {
      const { graph, address, launchOf, bytesAfter } = prepareConditions(driver);
      const handle = driver.graphConditionalHandleCreate(0, graph, 1);
      const { bodies } = driver.graphAddConditionalNode(0, graph, [], { handle, type: loop, size: 1 });
      const [body] = bodies;
      const counted = driver.graphAddKernelNode(body!, [], launchOf("countDown", handle, 0));
      const copy = { source: address, destination: address + 4n, byteLength: 4 };
      driver.graphAddMemcpyNode(0, body!, [counted], copy);
      driver.graphAddMemsetNode(0, graph, [driver.graphGetNodes(graph)[0]!], fillOf(address, 8, 9));
      const exec = driver.graphInstantiate(graph, 0);
      return [3, 1, 20].map((number) => bytesAfter(exec, [number]));
    },
  },
  {
    name: "a value of a conditional node without a default, over three launches",
    run({ driver }) {
      const { graph, stream, address, launchOf, fillIn, bytesAfter } = prepareConditions(driver);
      const handle = driver.graphConditionalHandleCreate(0, graph);
      const { node, bodies } = driver.graphAddConditionalNode(0, graph, [], { handle, type: choice, size: 1 });
      fillIn(bodies[0]!, 4, 5);
      driver.graphAddKernelNode(graph, [node], launchOf("decide", handle, 0));
      const exec = driver.graphInstantiate(graph, 0);
      driver.memsetAsync(0, address, 0, byteLength, stream);
      driver.graphLaunch(0, exec, stream);
      return [1, 0, 1].map((number) => bytesAfter(exec, [number]));
    },
  },
  {
    name: "a value of a graph that no node tests",
    run({ driver }) {
      const { graph, decided } = prepareConditions(driver);
      decided(0);
      return errorOf(() => driver.graphInstantiate(graph, 0));
    },
  },
  {
    name: "conditional nodes with sizes and types that are wrong, and a value that is used twice",
    run({ driver }) {
      const { graph } = prepareConditions(driver);
      const add = (type: number, size: number) => () => {
        const handle = driver.graphConditionalHandleCreate(0, graph);
        driver.graphAddConditionalNode(0, graph, [], { handle, type, size });
      };
      const handle = driver.graphConditionalHandleCreate(0, graph);
      const use = () => driver.graphAddConditionalNode(0, graph, [], { handle, type: choice, size: 1 }).node;
      const other = driver.graphCreate();
      const foreign = driver.graphConditionalHandleCreate(0, other);
      return attemptEach({
        "no bodies": add(choice, 0),
        "three bodies of a choice": add(choice, 3),
        "two bodies of a loop": add(loop, 2),
        "no cases": add(cases, 0),
        "a hundred cases": add(cases, 100),
        "a type that there is not": add(3, 1),
        once: use,
        twice: use,
        "a value of another graph": () =>
          driver.graphAddConditionalNode(0, graph, [], { handle: foreign, type: choice, size: 1 }).node,
      });
    },
  },
  {
    name: "what a graph with a conditional node does not allow",
    run({ driver }) {
      const { graph, decided, fillIn } = prepareConditions(driver);
      const { handle, node } = decided(0);
      const { bodies } = driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 1 });
      const inBody = fillIn(bodies[0]!, 4, 5);
      return attemptEach({
        clone: () => driver.graphClone(graph),
        child: () => driver.graphAddChildGraphNode(driver.graphCreate(), [], graph),
        "clone the body": () => driver.graphClone(bodies[0]!),
        "instantiate the body": () => driver.graphInstantiate(bodies[0]!, 0),
        "destroy a node of the body": () => driver.graphDestroyNode(inBody),
        instantiate: () => driver.graphInstantiate(graph, 0),
        "instantiate again": () => driver.graphInstantiate(graph, 0),
        "the body's type": () => driver.graphGetNodes(bodies[0]!).length,
      });
    },
  },
  {
    name: "nodes of each type in the body of a conditional node",
    run({ driver }) {
      const answers: Record<string, Answer> = {};
      const kinds: Record<string, (parts: ConditionalParts, body: bigint) => unknown> = {
        kernel: ({ launchOf }, body) => driver.graphAddKernelNode(body, [], launchOf("decide", 0n, 0)),
        copy: ({ address }, body) =>
          driver.graphAddMemcpyNode(0, body, [], { source: address, destination: address + 8n, byteLength: 4 }),
        empty: (_, body) => driver.graphAddEmptyNode(body, []),
        child: ({ fillIn }, body) => {
          const child = driver.graphCreate();
          fillIn(child, 8, 1);
          driver.graphAddChildGraphNode(body, [], child);
        },
        "event record": ({ event }, body) => driver.graphAddEventRecordNode(body, [], event),
        "event wait": ({ event }, body) => driver.graphAddEventWaitNode(body, [], event),
        allocation: (_, body) => {
          const props = { handleTypes: 0, location: onDevice(0), maxSize: 0n };
          driver.graphAddMemAllocNode(body, [], props, [], byteLength);
        },
        "conditional node": ({ graph }, body) => {
          const handle = driver.graphConditionalHandleCreate(0, graph, 0);
          driver.graphAddConditionalNode(0, body, [], { handle, type: choice, size: 1 });
        },
        "conditional node with a value of the body": (_, body) => {
          const handle = driver.graphConditionalHandleCreate(0, body, 0);
          driver.graphAddConditionalNode(0, body, [], { handle, type: choice, size: 1 });
        },
      };
      for (const [name, add] of Object.entries(kinds)) {
        const parts = prepareConditions(driver);
        const { handle, node } = parts.decided(0);
        const { graph } = parts;
        const { bodies } = driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 1 });
        answers[name] = attemptEach({
          add: () => void add(parts, bodies[0]!),
          instantiate: () => driver.graphInstantiate(graph, 0),
        });
      }
      return answers;
    },
  },
  {
    name: "an empty body of a conditional node",
    run({ driver }) {
      const { graph, decided, bytesAfter } = prepareConditions(driver);
      const { handle, node } = decided(0);
      driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 1 });
      return bytesAfter(driver.graphInstantiate(graph, 0), [1]);
    },
  },
  {
    name: "nodes in and around the body of a conditional node changed, disabled and updated",
    run({ driver }) {
      const { graph, address, decided, fillIn, bytesAfter, ...parts } = prepareConditions(driver);
      const { handle, node } = decided(0);
      const conditional = driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 1 });
      const inBody = fillIn(conditional.bodies[0]!, 4, 5);
      const exec = driver.graphInstantiate(graph, 0);
      const next = driver.graphCreate();
      const nextHandle = driver.graphConditionalHandleCreate(0, next);
      const nextNode = driver.graphAddKernelNode(next, [], parts.launchOf("decide", nextHandle, 0));
      const condition = { handle: nextHandle, type: choice, size: 1 };
      const { bodies } = driver.graphAddConditionalNode(0, next, [nextNode], condition);
      fillIn(bodies[0]!, 8, 7);
      const answers = attemptEach({
        "change the body": () => driver.graphExecMemsetNodeSetParams(0, exec, inBody, fillOf(address, 4, 6)),
        "disable in the body": () => driver.graphNodeSetEnabled(exec, inBody, false),
        "disable the node": () => driver.graphNodeSetEnabled(exec, conditional.node, false),
        "the bytes": () => bytesAfter(exec, [1]).join(),
      });
      const update = errorOf(() => driver.graphExecUpdate(exec, next));
      return { ...answers, update, bytes: bytesAfter(exec, [1]) };
    },
  },
  {
    name: "a stream captured into the body of a conditional node",
    run({ driver }) {
      const { graph, stream, address, decided, bytesAfter } = prepareConditions(driver);
      const { handle, node } = decided(0);
      const { bodies } = driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 1 });
      const [body] = bodies;
      driver.streamBeginCaptureToGraph(0, stream, body!, [], streamCaptureMode.relaxed);
      driver.memsetAsync(0, address + 4n, 5, 4, stream);
      const ended = driver.streamEndCapture(0, stream) === body;
      return { ended, shape: shapeOf(driver, body!), bytes: bytesAfter(driver.graphInstantiate(graph, 0), [1]) };
    },
  },
  {
    name: "a conditional node added to the graph of a capture",
    run({ driver }) {
      const { stream, address, launchOf, bytesAfter } = prepareConditions(driver);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const { graph } = driver.streamGetCaptureInfo(0, stream);
      const handle = driver.graphConditionalHandleCreate(0, graph);
      driver.launchKernel(Object.assign(launchOf("decide", handle, 0), { stream }));
      const { dependencies } = driver.streamGetCaptureInfo(0, stream);
      const added = driver.graphAddConditionalNode(0, graph, dependencies, { handle, type: choice, size: 1 });
      driver.streamUpdateCaptureDependencies(0, stream, [added.node]);
      driver.graphAddMemsetNode(0, added.bodies[0]!, [], fillOf(address, 4, 5));
      driver.memsetAsync(0, address + 8n, 6, 4, stream);
      const ended = driver.streamEndCapture(0, stream);
      const exec = driver.graphInstantiate(ended, 0);
      return { shape: shapeOf(driver, ended), bytes: [0, 1].map((number) => bytesAfter(exec, [number])) };
    },
  },
  {
    name: "a graph with a conditional node launched in a capture, and on the default stream",
    run({ driver }) {
      const { graph, stream, address, decided, fillIn } = prepareConditions(driver);
      const { handle, node } = decided(0, 1);
      const { bodies } = driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 1 });
      fillIn(bodies[0]!, 4, 5);
      const exec = driver.graphInstantiate(graph, 0);
      driver.memsetAsync(0, address, 1, byteLength, defaultStream);
      driver.graphLaunch(0, exec, defaultStream);
      const bytes = readBytes(driver, 0, address, 8);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const answers = attemptEach({ launch: () => driver.graphLaunch(0, exec, stream) });
      return { bytes, ...answers, end: endOf(driver, stream) };
    },
  },
  {
    name: "a capture into a graph that is invalidated, and one that is not joined, and what is left of the graphs",
    run({ driver }) {
      const { stream, other, event, address, fillIn } = prepareConditions(driver);
      const states = ["invalidated", "not joined"].map((kind) => {
        const graph = driver.graphCreate();
        fillIn(graph, 4, 5);
        driver.streamBeginCaptureToGraph(0, stream, graph, [], streamCaptureMode.relaxed);
        const disturb = () => {
          if (kind === "invalidated") return driver.streamQuery(0, stream);
          driver.eventRecord(0, event, stream);
          driver.streamWaitEvent(0, other, event);
          driver.memsetAsync(0, address + 8n, 6, 4, other);
        };
        return attemptEach({
          disturb,
          end: () => driver.streamEndCapture(0, stream),
          nodes: () => driver.graphGetNodes(graph).length,
          instantiate: () => driver.graphInstantiate(graph, 0),
          destroy: () => driver.graphDestroy(graph),
        });
      });
      return states;
    },
  },
  {
    name: "a stream captured into a graph, and others meanwhile into the graph and into the body of a node of it",
    run({ driver }) {
      const { graph, stream, other, address, decided, bytesAfter } = prepareConditions(driver);
      const { handle, node } = decided(0);
      const { bodies } = driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 1 });
      const [body] = bodies;
      const { relaxed } = streamCaptureMode;
      const answers = attemptEach({
        "into the graph": () => driver.streamBeginCaptureToGraph(0, stream, graph, [], relaxed),
        "into the graph again": () => driver.streamBeginCaptureToGraph(0, other, graph, [], relaxed),
        "into the body": () => driver.streamBeginCaptureToGraph(0, other, body!, [], relaxed),
        "work in the body": () => driver.memsetAsync(0, address + 4n, 5, 4, other),
        "work in the graph": () => driver.memsetAsync(0, address + 8n, 6, 4, stream),
        "end of the body": () => void driver.streamEndCapture(0, other),
        "end of the graph": () => void driver.streamEndCapture(0, stream),
      });
      return { ...answers, bytes: bytesAfter(driver.graphInstantiate(graph, 0), [1]) };
    },
  },
  {
    name: "nodes and edges of a body removed, and the conditional node",
    run({ driver }) {
      const { graph, decided, fillIn, bytesAfter } = prepareConditions(driver);
      const { handle, node } = decided(0);
      const conditional = driver.graphAddConditionalNode(0, graph, [node], { handle, type: choice, size: 1 });
      const [body] = conditional.bodies;
      const [first, second] = [fillIn(body!, 4, 5), fillIn(body!, 8, 5)];
      driver.graphAddDependencies(body!, [[first, second]]);
      const answers = attemptEach({
        edge: () => driver.graphRemoveDependencies(body!, [[first, second]]),
        node: () => driver.graphDestroyNode(second),
        launch: () => bytesAfter(driver.graphInstantiate(graph, 0), [1]).join(),
        conditional: () => driver.graphDestroyNode(conditional.node),
        nodes: () => driver.graphGetNodes(graph).length,
      });
      return { ...answers, instantiate: errorOf(() => driver.graphInstantiate(graph, 0)) };
    },
  },
  {
    name: "a child graph with an event, and a copy from a page-locked array, in the body of a conditional node",
    run({ driver }) {
      const answers: Record<string, Answer> = {};
      const pinned = new Uint8Array(driver.hostAlloc(64).buffer, 0, 4);
      const kinds: Record<string, (parts: ConditionalParts, body: bigint) => unknown> = {
        "a child with an event": ({ event }, body) => {
          const child = driver.graphCreate();
          driver.graphAddEventRecordNode(child, [], event);
          driver.graphAddChildGraphNode(body, [], child);
        },
        "a copy from a page-locked array": ({ address }, body) =>
          driver.graphAddMemcpyNode(0, body, [], { source: pinned, destination: address, byteLength: 4 }),
      };
      for (const [name, add] of Object.entries(kinds)) {
        const parts = prepareConditions(driver);
        const { handle, node } = parts.decided(0);
        const { bodies } = driver.graphAddConditionalNode(0, parts.graph, [node], { handle, type: choice, size: 1 });
        answers[name] = attemptEach({
          add: () => void add(parts, bodies[0]!),
          instantiate: () => driver.graphInstantiate(parts.graph, 0),
        });
      }
      return answers;
    },
  },
  {
    name: "a graph that fills memory of its parent, in columns of a 64-bit pattern",
    run({ driver }) {
      const { graph, address, bytesAfter } = prepareConditions(driver);
      const props = { handleTypes: 0, location: onDevice(0), maxSize: 0n };
      const allocated = driver.graphAddMemAllocNode(graph, [], props, [], byteLength);
      const child = driver.graphCreate();
      const half = { elementSize: 4, width: 1, height: 4, pitch: 8 } as const;
      driver.graphAddMemsetNode(0, child, [], { ...half, address: allocated.address, value: 7 });
      driver.graphAddMemsetNode(0, child, [], { ...half, address: allocated.address + 4n, value: 9 });
      const filled = driver.graphAddChildGraphNode(graph, [allocated.node], child);
      driver.graphDestroy(child);
      const copy = { source: allocated.address, destination: address, byteLength: 16 };
      const copied = driver.graphAddMemcpyNode(0, graph, [filled], copy);
      driver.graphAddMemFreeNode(graph, [copied], allocated.address);
      return bytesAfter(driver.graphInstantiate(graph, 0), []);
    },
  },
  {
    // May crash: CUDA may use the body at the end of the outer capture. Nothing is destroyed.
    name: "a capture into a body that is invalidated while the graph around it is captured, and the end of that",
    run({ driver }) {
      const { stream, other, address, launchOf } = prepareConditions(driver);
      const { relaxed } = streamCaptureMode;
      driver.streamBeginCapture(0, stream, relaxed);
      const { graph } = driver.streamGetCaptureInfo(0, stream);
      const handle = driver.graphConditionalHandleCreate(0, graph);
      driver.launchKernel(Object.assign(launchOf("decide", handle, 0), { stream }));
      const { dependencies } = driver.streamGetCaptureInfo(0, stream);
      const added = driver.graphAddConditionalNode(0, graph, dependencies, { handle, type: choice, size: 1 });
      driver.streamUpdateCaptureDependencies(0, stream, [added.node]);
      return attemptEach({
        begin: () => driver.streamBeginCaptureToGraph(0, other, added.bodies[0]!, [], relaxed),
        query: () => driver.streamQuery(0, other),
        "end of the body": () => driver.streamEndCapture(0, other),
        work: () => driver.memsetAsync(0, address + 8n, 6, 4, stream),
        end: () => void driver.streamEndCapture(0, stream),
        "another graph": () => driver.graphDestroy(driver.graphCreate()),
      });
    },
  },
];
