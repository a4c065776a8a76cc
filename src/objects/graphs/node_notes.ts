/**
 * What the library knows of the nodes of a graph that it has captured or added: what they run, and with which
 * parameters. CUDA describes a node only in part, and names no kernel.
 *
 * @module
 */
import type { Driver, KernelLaunch, LaunchAttributes } from "../../driver.ts";
import type { CapturedNote } from "../../driver_layers.ts";
import type { Allocation } from "../../memory/allocation.ts";
import type { CudaKernel } from "../kernels/cuda_kernel.ts";
import type { GraphArgument } from "./graph_argument.ts";

/** A parameter of a kernel node that is the address of memory. */
export interface AddressParameter {
  readonly index: number;
  /** The parameter's offset in the packed parameters, in bytes. */
  readonly offset: number;
  /** The index of the memory in `KernelLaunch.buffers`. */
  readonly place: number;
  readonly address: bigint;
  /** The size of the buffer that was passed; undefined for an address without a buffer. */
  readonly byteLength: number | undefined;
  /** The memory of the buffer that was passed. Page-locked memory is the buffer that is detached when it is freed. */
  readonly memory: Allocation | ArrayBufferLike | undefined;
}

/** A parameter of a kernel node whose value is a named argument of the graph. */
export interface NamedParameter {
  readonly index: number;
  readonly argument: GraphArgument;
}

/** A node that launches a kernel. */
export interface KernelNote {
  readonly kind: "kernel";
  readonly kernel: CudaKernel;
  /** The launch, which belongs to the note: nobody changes it. */
  readonly launch: KernelLaunch;
  /** The size of the packed parameters. */
  readonly parameterBytes: number;
  readonly attributes: LaunchAttributes | undefined;
  readonly addresses: readonly AddressParameter[];
  readonly named: readonly NamedParameter[];
}

/** A node that records an event or waits for one. */
export interface EventNote {
  readonly kind: "record" | "wait";
  readonly event: bigint;
}

/** A node that runs another graph. */
export interface GraphNote {
  readonly kind: "graph";
  readonly notes: NodeNotes;
}

/** What is known of a node. */
export type NodeNote = KernelNote | CapturedNote | EventNote | GraphNote;

/** A call stack, as the sanitizer reads it. */
export interface NodeSite {
  readonly stack?: string;
}

/** Returns a copy of a launch that changes of the launch do not affect. `byteLength` is the size of its parameters. */
export function copyOfLaunch(driver: Driver, launch: KernelLaunch, byteLength: number): KernelLaunch {
  const { device, kernel, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedMemoryBytes, parameters } = launch;
  const copy = driver.createKernelLaunch(device, kernel, byteLength, [...launch.buffers]);
  Object.assign(copy, { gridX, gridY, gridZ, blockX, blockY, blockZ, sharedMemoryBytes });
  new Uint8Array(copy.parameters.buffer).set(new Uint8Array(parameters.buffer, 0, byteLength));
  return copy;
}

/** The notes of a graph's nodes. */
export class NodeNotes {
  readonly #notes = new Map<bigint, NodeNote>();
  /** Where the program has added the nodes. Only with the sanitizer. */
  readonly #sites = new Map<bigint, NodeSite>();

  /** Adds the note of a node, by its handle. `site` is where the program has added it, for the sanitizer. */
  add(node: bigint, note: NodeNote, site?: NodeSite): void {
    this.#notes.set(node, note);
    if (site !== undefined) this.#sites.set(node, site);
  }

  get(node: bigint): NodeNote | undefined {
    return this.#notes.get(node);
  }

  /** Returns where the program has added a node. Undefined without the sanitizer. */
  siteOf(node: bigint): NodeSite | undefined {
    return this.#sites.get(node);
  }

  /** Call when a node was removed. */
  delete(node: bigint): void {
    this.#notes.delete(node);
    this.#sites.delete(node);
  }

  /** The nodes that there are notes of, and their notes, in the order in which they were added. */
  entries(): IterableIterator<[node: bigint, note: NodeNote]> {
    return this.#notes.entries();
  }

  /** Returns the notes of a copy of the graph. `find` returns the node of the copy that a node became. */
  copy(find: (node: bigint) => bigint): NodeNotes {
    const copy = new NodeNotes();
    for (const [node, note] of this.#notes) copy.add(find(node), note, this.#sites.get(node));
    return copy;
  }
}
