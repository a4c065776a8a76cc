/**
 * What the library knows of the nodes of a graph that it has captured or added: what they run, and with which
 * parameters. CUDA describes a node only in part, and names no kernel.
 *
 * @module
 */
import type { Driver, GraphCopy, GraphFill, KernelLaunch, LaunchAttributes, PitchedCopy } from "../../driver.ts";
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

/** A node that copies. */
export interface CopyNote {
  readonly kind: "copy";
  readonly device: number;
  readonly copy: GraphCopy;
}

/** A node that copies rows. CUDA changes nothing of it in an executable graph. */
export interface RowsNote {
  readonly kind: "rows";
  readonly device: number;
  readonly copy: PitchedCopy;
}

/** A node that fills. */
export interface FillNote {
  readonly kind: "fill";
  readonly device: number;
  readonly fill: GraphFill;
}

/** A node that records an event or waits for one. */
export interface EventNote {
  readonly kind: "record" | "wait";
  readonly event: bigint;
}

/** A node that allocates memory or frees it. */
export interface MemoryNote {
  readonly kind: "allocate" | "free";
  readonly address: bigint;
}

/** A node that runs another graph. */
export interface GraphNote {
  readonly kind: "graph";
  readonly notes: NodeNotes;
}

/** What is known of a node. */
export type NodeNote = KernelNote | CopyNote | RowsNote | FillNote | EventNote | MemoryNote | GraphNote;

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

/** Takes the note of the node that a call has just added to the capture of a stream. */
export type NoteNode = (device: number, stream: bigint, note: NodeNote) => void;

/**
 * Returns calls that note the nodes which they add to a capture: copies, fills, allocations and frees. Launches are
 * noted by their kernel.
 */
export function notedCalls(base: Driver, note: NoteNode): Partial<Driver> {
  const fills = (device: number, stream: bigint, fill: GraphFill) =>
    note(device, stream, { kind: "fill", device, fill });
  const copies = (device: number, stream: bigint, copy: GraphCopy) =>
    note(device, stream, { kind: "copy", device, copy });
  const row = { height: 1, pitch: 0 };
  return {
    memcpyHtoDAsync(device, destination, source, stream) {
      base.memcpyHtoDAsync(device, destination, source, stream);
      copies(device, stream, { destination, source, byteLength: source.byteLength });
    },
    memcpyDtoHAsync(device, destination, source, stream, onUninitialized) {
      base.memcpyDtoHAsync(device, destination, source, stream, onUninitialized);
      copies(device, stream, { destination, source, byteLength: destination.byteLength });
    },
    memcpyAsync(device, destination, source, byteLength, stream) {
      base.memcpyAsync(device, destination, source, byteLength, stream);
      copies(device, stream, { destination, source, byteLength });
    },
    memcpy3DAsync(device, copy, stream, onUninitialized) {
      base.memcpy3DAsync(device, copy, stream, onUninitialized);
      note(device, stream, { kind: "rows", device, copy });
    },
    memsetAsync(device, address, value, width, stream) {
      base.memsetAsync(device, address, value, width, stream);
      fills(device, stream, { address, value, elementSize: 1, width, ...row });
    },
    memsetD16Async(device, address, value, width, stream) {
      base.memsetD16Async(device, address, value, width, stream);
      fills(device, stream, { address, value, elementSize: 2, width, ...row });
    },
    memsetD32Async(device, address, value, width, stream) {
      base.memsetD32Async(device, address, value, width, stream);
      fills(device, stream, { address, value, elementSize: 4, width, ...row });
    },
    memsetD2D8Async(device, address, pitch, value, width, height, stream) {
      base.memsetD2D8Async(device, address, pitch, value, width, height, stream);
      fills(device, stream, { address, value, elementSize: 1, width, height, pitch });
    },
    memsetD2D16Async(device, address, pitch, value, width, height, stream) {
      base.memsetD2D16Async(device, address, pitch, value, width, height, stream);
      fills(device, stream, { address, value, elementSize: 2, width, height, pitch });
    },
    memsetD2D32Async(device, address, pitch, value, width, height, stream) {
      base.memsetD2D32Async(device, address, pitch, value, width, height, stream);
      fills(device, stream, { address, value, elementSize: 4, width, height, pitch });
    },
    mallocFromPoolAsync(device, byteLength, pool, stream) {
      const address = base.mallocFromPoolAsync(device, byteLength, pool, stream);
      note(device, stream, { kind: "allocate", address });
      return address;
    },
    freeAsync(device, address, stream) {
      base.freeAsync(device, address, stream);
      note(device, stream, { kind: "free", address });
    },
  };
}
