/**
 * The parameters that the nodes of an executable graph have, and their changes: all of one call, or none.
 *
 * @module
 */
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { bytesOfHost, HostBuffer, lifetimeOfHost } from "../../memory/transfers/host_buffer.ts";
import type { Session } from "../../session.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { CudaError, cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import { shown } from "../../support/validation.ts";
import { kernelParameter, type KernelParameterPlace } from "../kernels/cuda_kernel.ts";
import type { KernelArgument } from "../kernels/kernel_arguments.ts";
import type { ExecMemory, NodeMemory } from "./exec_memory.ts";
import { type CopyEnd, ExecCopy, ExecFill, ExecKernel, type ExecNode } from "./exec_nodes.ts";
import {
  argumentNamed,
  type ArgumentPlace,
  type ArgumentPlaces,
  checkValue,
  isMemory,
  type NamedArgument,
  type NamedArguments,
} from "./named_arguments.ts";
import type { KernelNote, NodeNotes } from "./node_notes.ts";

/** What the parameters of an executable graph are made of. */
export interface ParametersSource {
  readonly device: number;
  /** Undefined if it is not known what the nodes run. */
  readonly notes: NodeNotes | undefined;
  readonly named: NamedArguments;
  /** Where the nodes use them. */
  readonly places: ArgumentPlaces;
  readonly memory: ExecMemory;
}

/** A part of a node's parameters that an argument is written to. */
interface Slot {
  readonly node: ExecNode;
  /** The end of a copy. */
  readonly end?: CopyEnd;
  /** Whether the argument is memory. */
  readonly isMemory: boolean;
  /** Writes a value. If it throws, nothing has changed. */
  write(value: unknown): void;
  /** Sets back what the latest `write` has written. */
  undo(): void;
}

/** A kernel's parameter whose value is an argument. */
class ValueSlot implements Slot {
  readonly node: ExecKernel;
  readonly isMemory = false;
  readonly #argument: string;
  readonly #parameter: KernelParameterPlace;
  /** The bytes of the parameter, and what they were before the latest `write`. */
  readonly #bytes: Uint8Array;
  readonly #saved: Uint8Array;

  constructor(node: ExecKernel, { argument, index }: { argument: string; index: number }) {
    this.node = node;
    this.#argument = argument;
    const parameter = this.#parameter = kernelParameter(node.kernel, index);
    const { offset, byteLength } = parameter;
    this.#bytes = new Uint8Array(node.launch.parameters.buffer, offset, byteLength);
    this.#saved = new Uint8Array(byteLength);
  }

  write(value: KernelArgument): void {
    this.#saved.set(this.#bytes);
    const { write, name } = this.#parameter;
    const refusal = write(this.node.launch.parameters, value);
    if (refusal === undefined) return;
    this.undo();
    const what = `Cannot update the argument ${shown(this.#argument)} to ${shown(value)}: it is ${name}, and ` +
      `${refusal.reason}`;
    throw refusal.isRangeError ? new RangeError(what) : new TypeError(what);
  }

  undo(): void {
    this.#bytes.set(this.#saved);
  }
}

/** A kernel's parameter that is an address in an argument. */
class AddressSlot implements Slot {
  readonly node: ExecKernel;
  readonly isMemory = true;
  readonly #place: { readonly index: number; readonly offset: number };
  readonly #byteOffset: bigint;
  #saved: { address: bigint; memory: NodeMemory | undefined } | undefined;

  constructor(node: ExecKernel, place: { index: number; offset: number; byteOffset: number }) {
    this.node = node;
    this.#place = place;
    this.#byteOffset = BigInt(place.byteOffset);
  }

  write(value: DeviceBuffer | HostBuffer): void {
    const { node: { launch: { parameters }, memory }, node } = this;
    const { index, offset } = this.#place;
    const address = value.address + this.#byteOffset;
    this.#saved = { address: parameters.getBigUint64(offset, true), memory: memory[index] };
    parameters.setBigUint64(offset, address, true);
    node.use(index, memoryOf(value));
  }

  undo(): void {
    const { address, memory } = this.#saved!;
    this.node.launch.parameters.setBigUint64(this.#place.offset, address, true);
    this.node.use(this.#place.index, memory);
  }
}

/** An end of a copy that is in an argument. */
class EndSlot implements Slot {
  readonly node: ExecCopy;
  readonly isMemory = true;
  readonly end: CopyEnd;
  readonly #byteOffset: number;
  #saved: { place: bigint | Uint8Array; memory: NodeMemory | undefined } | undefined;

  constructor(node: ExecCopy, end: CopyEnd, byteOffset: number) {
    this.node = node;
    this.end = end;
    this.#byteOffset = byteOffset;
  }

  write(value: DeviceBuffer | HostBuffer): void {
    const { node } = this;
    const place = node.copy[this.end];
    const next = partOf(value, {
      byteOffset: this.#byteOffset,
      byteLength: node.copy.byteLength,
      isAddress: typeof place === "bigint",
    });
    this.#saved = { place, memory: node.memoryAt(this.end) };
    node.use(this.end, next, memoryOf(value));
  }

  undo(): void {
    const { place, memory } = this.#saved!;
    this.node.use(this.end, place, memory);
  }
}

/** A fill's target that is in an argument. */
class TargetSlot implements Slot {
  readonly node: ExecFill;
  readonly isMemory = true;
  readonly #byteOffset: bigint;
  #saved: { address: bigint; memory: NodeMemory | undefined } | undefined;

  constructor(node: ExecFill, byteOffset: number) {
    this.node = node;
    this.#byteOffset = BigInt(byteOffset);
  }

  write(value: DeviceBuffer | HostBuffer): void {
    const { node } = this;
    const address = value.address + this.#byteOffset;
    this.#saved = { address: node.fill.address, memory: node.memory };
    node.fill.address = address;
    node.memory = memoryOf(value);
  }

  undo(): void {
    const { address, memory } = this.#saved!;
    this.node.fill.address = address;
    this.node.memory = memory;
  }
}

/** Returns the memory that a buffer is a part of. */
export function memoryOf(buffer: DeviceBuffer | HostBuffer): NodeMemory {
  return buffer instanceof HostBuffer ? lifetimeOfHost(buffer) : allocationOf(buffer);
}

/** Returns a part of a buffer as an end of a copy: an address or, for page-locked memory, an array. */
export function partOf(
  buffer: DeviceBuffer | HostBuffer,
  { byteOffset, byteLength, isAddress }: { byteOffset: number; byteLength: number; isAddress: boolean },
): bigint | Uint8Array {
  if (buffer instanceof HostBuffer && !isAddress) {
    return bytesOfHost(buffer).subarray(byteOffset, byteOffset + byteLength);
  }
  return buffer.address + BigInt(byteOffset);
}

/** The argument of a name, and where nodes use it. */
interface BoundSlots {
  readonly argument: NamedArgument;
  slots: readonly Slot[];
}

/** The parameters of an executable graph's nodes. */
export class ExecParameters {
  readonly #session: Session;
  readonly #source: ParametersSource;
  readonly #nodes = new Map<bigint, ExecNode>();
  readonly #bound = new Map<string, BoundSlots>();
  /** The nodes, and the ends of copies, that no longer follow their arguments. */
  readonly #detached = new Set<string>();
  /** What the current call has written, and the nodes that it changes. Kept, so that calls allocate nothing. */
  readonly #written: Slot[] = [];
  readonly #changed: ExecNode[] = [];

  constructor(session: Session, source: ParametersSource) {
    this.#session = session;
    this.#source = source;
  }

  /** Changes arguments in all nodes that use them. Returns whether the memory that the graph uses has changed. */
  update(exec: bigint, values: Readonly<Record<string, unknown>>): boolean {
    try {
      for (const name in values) {
        const value = values[name];
        if (value !== undefined) this.#write(name, value);
      }
      return this.#send(exec);
    } finally {
      for (const node of this.#changed) node.isChanged = false;
      this.#written.length = this.#changed.length = 0;
    }
  }

  #write(name: string, value: unknown): void {
    const { argument, slots } = this.#bound.get(name) ?? this.#bind(name);
    try {
      checkValue(argument, value, this.#session);
      for (const slot of slots) {
        const { node } = slot;
        if (!node.isChanged) {
          node.isChanged = true;
          node.usedBefore = undefined;
          this.#changed.push(node);
        }
        if (slot.isMemory) node.usedBefore ??= node.uses;
        slot.write(value);
        this.#written.push(slot);
      }
    } catch (error) {
      this.#undo();
      throw error;
    }
  }

  /**
   * Changes one node. `write` changes its parameters, and returns a function that sets them back. Returns whether the
   * memory that the graph uses has changed.
   */
  change(exec: bigint, node: ExecNode, write: () => () => void): boolean {
    const before = node.uses;
    const undo = write();
    try {
      node.check();
      node.send(this.#session.driver, exec);
    } catch (error) {
      undo();
      throw this.#refusal(error, node);
    }
    const after = node.uses;
    if (before.length === after.length && before.every((memory, index) => memory === after[index])) return false;
    this.#source.memory.exchange(before, after);
    return true;
  }

  /** Call when a node, or an end of a copy, was set by itself: later updates of arguments do not change it. */
  detach(handle: bigint, end?: CopyEnd): void {
    this.#detached.add(keyOf(handle, end));
    for (const bound of this.#bound.values()) {
      bound.slots = bound.slots.filter(({ node, end: own }) => node.node !== handle || own !== end);
    }
  }

  #undo(): void {
    for (const slot of this.#written) slot.undo();
  }

  /** Whether a node copies rows. */
  isRows(handle: bigint): boolean {
    return this.#source.notes?.get(handle)?.kind === "rows";
  }

  /** Throws if it is not known what the nodes run. `action` is what cannot be done with the graph. */
  checkKnown(action: string): void {
    if (this.#source.notes === undefined) refuseUnknown(action);
  }

  /** Gives CUDA the parameters of the changed nodes. If CUDA refuses one, none has changed. */
  #send(exec: bigint): boolean {
    const { driver } = this.#session;
    const changed = this.#changed;
    let sent = 0;
    try {
      for (const node of changed) node.check();
      for (; sent < changed.length; sent++) changed[sent]!.send(driver, exec);
    } catch (error) {
      this.#undo();
      for (const node of changed.slice(0, sent)) ignoreLoss(() => node.send(driver, exec));
      throw this.#refusal(error, changed[sent]!);
    }
    let hasOtherMemory = false;
    for (const node of changed) {
      if (node.usedBefore === undefined) continue;
      this.#source.memory.exchange(node.usedBefore, node.uses);
      hasOtherMemory = true;
    }
    return hasOtherMemory;
  }

  #refusal(error: unknown, { name, hint }: ExecNode): unknown {
    if (!(error instanceof CudaError)) return error;
    const isInvalid = error.code === "cudaErrorInvalidValue";
    return cannot(`change ${name} in a graph of device ${this.#source.device}`, error, isInvalid ? hint : undefined);
  }

  #bind(name: string): BoundSlots {
    const argument = argumentNamed(name, this.#source.named);
    this.checkKnown(`update the argument ${shown(name)} of`);
    const bound = { argument, slots: this.#slotsOf(argument) };
    this.#bound.set(name, bound);
    return bound;
  }

  #slotsOf(argument: NamedArgument): readonly Slot[] {
    const { places: all, fixed } = this.#source.places;
    const what = fixed.get(argument.name);
    if (what !== undefined) refuseFixed(argument, what);
    const places = all.get(argument.name)!;
    if (places.length === 0) refuseUnused(argument);
    return places.filter(({ node, end }) => !this.#detached.has(keyOf(node, end)))
      .map((place) => this.#slotOf(argument, place));
  }

  #slotOf(argument: NamedArgument, { node: handle, index, end, byteOffset }: ArgumentPlace): Slot {
    const node = this.nodeOf(handle)!;
    if (node instanceof ExecCopy) return new EndSlot(node, end!, byteOffset);
    if (node instanceof ExecFill) return new TargetSlot(node, byteOffset);
    const kernel = node as ExecKernel;
    if (!isMemory(argument)) return new ValueSlot(kernel, { argument: argument.name, index: index! });
    const note = this.#source.notes!.get(handle) as KernelNote;
    const { place, offset } = note.addresses.find((address) => address.index === index)!;
    return new AddressSlot(kernel, { index: place, offset, byteOffset });
  }

  /** Returns a kernel, a copy or a fill. Undefined for another node, or one that the library has not added. */
  nodeOf(handle: bigint): ExecNode | undefined {
    const known = this.#nodes.get(handle);
    if (known !== undefined) return known;
    const { notes, memory } = this.#source;
    const note = notes?.get(handle);
    const node = note?.kind === "kernel"
      ? new ExecKernel(handle, note, this.#session.driver)
      : note?.kind === "copy"
      ? new ExecCopy(handle, note, memory)
      : note?.kind === "fill"
      ? new ExecFill(handle, note, memory)
      : undefined;
    if (node !== undefined) this.#nodes.set(handle, node);
    return node;
  }
}

function keyOf(handle: bigint, end: CopyEnd | undefined): string {
  return end === undefined ? String(handle) : `${handle} ${end}`;
}

function refuseUnknown(action: string): never {
  throw new TypeError(
    `Cannot ${action} the graph: it was updated by a graph that has its nodes in another order, or after its own graph ` +
      "was disposed",
  );
}

function refuseFixed({ name }: NamedArgument, what: string): never {
  const why = `${what} uses it, and is changed only as a part of the whole: capture again, and call update(graph)`;
  const number = cudaErrorNumbers.cudaErrorInvalidValue;
  throw cannot(
    `update the argument ${shown(name)} of a graph`,
    explainedError(number, "cudaGraphExecNodeSetParams", why),
  );
}

function refuseUnused(argument: NamedArgument): never {
  const { name } = argument;
  const why = isMemory(argument)
    ? "no kernel, copy or fill of the capture was given the buffer or a part of it; in a struct, an address is not found"
    : `no launch of the capture was given arguments.${name}, which stands for the value`;
  throw new TypeError(`Cannot update the argument ${shown(name)} of a graph: ${why}`);
}
