/**
 * The nodes of an executable graph whose parameters can be changed, with the parameters that they have now.
 *
 * @module
 */
import type { Driver, GraphCopy, GraphFill, KernelLaunch } from "../../driver.ts";
import { countOf } from "../../support/printing.ts";
import { RangeError, ReferenceError } from "../../support/program_errors.ts";
import type { CudaKernel } from "../kernels/cuda_kernel.ts";
import type { ExecMemory, NodeMemory } from "./exec_memory.ts";
import { sizeOfFill } from "./named_arguments.ts";
import type { CopyNote, FillNote } from "../../driver_layers.ts";
import { copyOfLaunch, type KernelNote } from "./node_notes.ts";

/** A node of an executable graph, with the parameters that it has now. */
export abstract class ExecNode {
  readonly node: bigint;
  /** Whether the current call changes the node. */
  isChanged = false;

  constructor(node: bigint) {
    this.node = node;
  }

  /** What the node is in messages. */
  abstract readonly name: string;
  /** The program's memory that the node uses: once for each parameter, end or target. */
  abstract readonly uses: readonly NodeMemory[];
  /** Advice for parameters that CUDA does not accept. */
  abstract readonly hint: string | undefined;
  /** Throws if the parameters do not fit each other. */
  check(): void {}
  /** Gives CUDA the parameters. */
  abstract send(driver: Driver, exec: bigint): void;
}

/** A kernel of an executable graph. */
export class ExecKernel extends ExecNode {
  kernel: CudaKernel;
  launch: KernelLaunch;
  /** The program's memory among the arguments, by its place in `launch.buffers`. */
  memory: (NodeMemory | undefined)[] = [];
  readonly hint = undefined;

  constructor(node: bigint, { kernel, launch, parameterBytes, addresses }: KernelNote, driver: Driver) {
    super(node);
    this.kernel = kernel;
    this.launch = copyOfLaunch(driver, launch, parameterBytes);
    for (const { place, memory } of addresses) this.memory[place] = memory;
  }

  get name(): string {
    return `the kernel ${this.kernel.name}`;
  }

  get uses(): readonly NodeMemory[] {
    return this.memory.filter((memory) => memory !== undefined);
  }

  /** Replaces the memory at a place of `launch.buffers`. */
  use(place: number, memory: NodeMemory | undefined): void {
    this.memory[place] = memory;
    const isAllocation = memory !== undefined && "owner" in memory;
    (this.launch.buffers as unknown[])[place] = isAllocation ? memory : undefined;
  }

  /** Takes the kernel, the launch and the memory of another one. */
  become({ kernel, launch, memory }: Pick<ExecKernel, "kernel" | "launch" | "memory">): void {
    this.kernel = kernel;
    this.launch = launch;
    this.memory = memory;
  }

  send(driver: Driver, exec: bigint): void {
    driver.graphExecKernelNodeSetParams(exec, this.node, this.launch);
  }
}

const ofOneKind =
  "CUDA changes a copy only to memory of the same device and kind, such as from pool to pool; instantiate " +
  "a graph that was captured with the other memory";

/** A copy of an executable graph. */
export class ExecCopy extends ExecNode {
  readonly copy: { -readonly [Name in keyof GraphCopy]: GraphCopy[Name] };
  readonly #device: number;
  readonly #memory: { source: NodeMemory | undefined; destination: NodeMemory | undefined };
  readonly hint: string = ofOneKind;

  constructor(node: bigint, { device, copy }: CopyNote, memory: ExecMemory) {
    super(node);
    this.#device = device;
    this.copy = { ...copy };
    this.#memory = { source: memory.find(copy.source), destination: memory.find(copy.destination) };
  }

  get name(): string {
    return `the copy of ${countOf(this.copy.byteLength, "byte")}`;
  }

  get uses(): readonly NodeMemory[] {
    const { source, destination } = this.#memory;
    return [source, destination].filter((memory) => memory !== undefined);
  }

  memoryAt(end: CopyEnd): NodeMemory | undefined {
    return this.#memory[end];
  }

  /** Replaces an end. */
  use(end: CopyEnd, place: bigint | Uint8Array, memory: NodeMemory | undefined): void {
    this.copy[end] = place;
    this.#memory[end] = memory;
  }

  override check(): void {
    for (const memory of this.uses) {
      if (!("owner" in memory) || !memory.isGone) continue;
      throw new ReferenceError(
        `Cannot change ${this.name} in a graph: it uses a buffer of ${memory.byteLength} bytes that was freed; replace ` +
          "that in the same call",
      );
    }
    const { source, destination, byteLength } = this.copy;
    if (typeof source !== "bigint" || typeof destination !== "bigint") return;
    const distance = source > destination ? source - destination : destination - source;
    if (distance >= byteLength) return;
    throw new RangeError(`Cannot change ${this.name} of a graph: its source and its target overlap`);
  }

  send(driver: Driver, exec: bigint): void {
    driver.graphExecMemcpyNodeSetParams(this.#device, exec, this.node, this.copy);
  }
}

/** The end of a copy. */
export type CopyEnd = "source" | "destination";

/** A fill of an executable graph. */
export class ExecFill extends ExecNode {
  readonly fill: { -readonly [Name in keyof GraphFill]: GraphFill[Name] };
  readonly #device: number;
  memory: NodeMemory | undefined;
  readonly hint: string = "CUDA fills memory of a device";

  constructor(node: bigint, { device, fill }: FillNote, memory: ExecMemory) {
    super(node);
    this.#device = device;
    this.fill = { ...fill };
    this.memory = memory.find(fill.address);
  }

  get name(): string {
    return `the fill of ${countOf(sizeOfFill({ fill: this.fill }), "byte")}`;
  }

  get uses(): readonly NodeMemory[] {
    return this.memory === undefined ? [] : [this.memory];
  }

  send(driver: Driver, exec: bigint): void {
    driver.graphExecMemsetNodeSetParams(this.#device, exec, this.node, this.fill);
  }
}
