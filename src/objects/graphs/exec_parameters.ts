/**
 * The parameters that the nodes of an executable graph have, and their changes: all of one call, or none.
 *
 * @module
 */
import type { Driver } from "../../driver.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { bytesOfHost, HostBuffer, lifetimeOfHost } from "../../memory/transfers/host_buffer.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
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
  /** The program's memory that the part was in before the latest `write`, and is in now. */
  readonly before?: NodeMemory | undefined;
  readonly now?: NodeMemory | undefined;
  /** Writes a value. If it throws, nothing has changed. */
  write(value: unknown): void;
  /** Sets back what the latest `write` has written. */
  undo(): void;
}

/** A kernel's parameter whose value is an argument. */
class ValueSlot implements Slot {
  readonly node: ExecKernel;
  readonly #argument: string;
  readonly #parameter: KernelParameterPlace;
  /** The bytes of the parameter, and what they were before the latest `write`. A word is saved as a number instead. */
  readonly #bytes: Uint8Array;
  readonly #saved: Uint8Array | undefined;
  #savedWord = 0;

  constructor(node: ExecKernel, { argument, index }: { argument: string; index: number }) {
    this.node = node;
    this.#argument = argument;
    const parameter = this.#parameter = kernelParameter(node.kernel, index);
    const { offset, byteLength } = parameter;
    this.#bytes = new Uint8Array(node.launch.parameters.buffer, offset, byteLength);
    this.#saved = byteLength === 4 ? undefined : new Uint8Array(byteLength);
  }

  write(value: KernelArgument): void {
    const { parameters } = this.node.launch;
    const { write, name, offset } = this.#parameter;
    // The fast path: engines read a word quicker than they copy an array.
    if (this.#saved === undefined) this.#savedWord = parameters.getUint32(offset, true);
    else this.#saved.set(this.#bytes);
    const refusal = write(parameters, value);
    if (refusal === undefined) return;
    this.undo();
    const what = `Cannot update the argument ${shown(this.#argument)} to ${shown(value)}: it is ${name}, and ` +
      `${refusal.reason}`;
    throw refusal.isRangeError ? new RangeError(what) : new TypeError(what);
  }

  undo(): void {
    if (this.#saved !== undefined) this.#bytes.set(this.#saved);
    else this.node.launch.parameters.setUint32(this.#parameter.offset, this.#savedWord, true);
  }
}

/** A part of a node's parameters that is memory of an argument. */
abstract class MemorySlot<Place> implements Slot {
  abstract readonly node: ExecNode;
  before: NodeMemory | undefined;
  now: NodeMemory | undefined;
  #placeBefore: Place | undefined;

  write(value: DeviceBuffer | HostBuffer): void {
    const place = this.placeIn(value);
    this.#placeBefore = this.place;
    this.before = this.memory;
    this.set(place, this.now = memoryOf(value));
  }

  undo(): void {
    this.set(this.#placeBefore!, this.before);
  }

  /** Where the part is. */
  protected abstract readonly place: Place;
  /** The memory that it is in. */
  protected abstract readonly memory: NodeMemory | undefined;
  /** Returns where the part would be in a buffer. */
  protected abstract placeIn(value: DeviceBuffer | HostBuffer): Place;
  protected abstract set(place: Place, memory: NodeMemory | undefined): void;
}

/** Returns an address in a buffer. */
function addressIn({ address }: DeviceBuffer | HostBuffer, byteOffset: bigint): bigint {
  return byteOffset === 0n ? address : address + byteOffset;
}

/** A kernel's parameter that is an address in an argument. */
class AddressSlot extends MemorySlot<bigint> {
  readonly node: ExecKernel;
  readonly #index: number;
  readonly #offset: number;
  readonly #byteOffset: bigint;

  constructor(node: ExecKernel, { index, offset, byteOffset }: { index: number; offset: number; byteOffset: number }) {
    super();
    this.node = node;
    this.#index = index;
    this.#offset = offset;
    this.#byteOffset = BigInt(byteOffset);
  }

  protected get place(): bigint {
    return this.node.launch.parameters.getBigUint64(this.#offset, true);
  }

  protected get memory(): NodeMemory | undefined {
    return this.node.memory[this.#index];
  }

  protected placeIn(value: DeviceBuffer | HostBuffer): bigint {
    return addressIn(value, this.#byteOffset);
  }

  protected set(place: bigint, memory: NodeMemory | undefined): void {
    this.node.launch.parameters.setBigUint64(this.#offset, place, true);
    this.node.use(this.#index, memory);
  }
}

/** An end of a copy that is in an argument. */
class EndSlot extends MemorySlot<bigint | Uint8Array> {
  readonly node: ExecCopy;
  readonly end: CopyEnd;
  readonly #byteOffset: number;

  constructor(node: ExecCopy, end: CopyEnd, byteOffset: number) {
    super();
    this.node = node;
    this.end = end;
    this.#byteOffset = byteOffset;
  }

  protected get place(): bigint | Uint8Array {
    return this.node.copy[this.end];
  }

  protected get memory(): NodeMemory | undefined {
    return this.node.memoryAt(this.end);
  }

  protected placeIn(value: DeviceBuffer | HostBuffer): bigint | Uint8Array {
    const isAddress = typeof this.place === "bigint";
    return partOf(value, { byteOffset: this.#byteOffset, byteLength: this.node.copy.byteLength, isAddress });
  }

  protected set(place: bigint | Uint8Array, memory: NodeMemory | undefined): void {
    this.node.use(this.end, place, memory);
  }
}

/** A fill's target that is in an argument. */
class TargetSlot extends MemorySlot<bigint> {
  readonly node: ExecFill;
  readonly #byteOffset: bigint;

  constructor(node: ExecFill, byteOffset: number) {
    super();
    this.node = node;
    this.#byteOffset = BigInt(byteOffset);
  }

  protected get place(): bigint {
    return this.node.fill.address;
  }

  protected get memory(): NodeMemory | undefined {
    return this.node.memory;
  }

  protected placeIn(value: DeviceBuffer | HostBuffer): bigint {
    return addressIn(value, this.#byteOffset);
  }

  protected set(place: bigint, memory: NodeMemory | undefined): void {
    this.node.fill.address = place;
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
      this.#send(exec);
      return this.#exchangeMemory();
    } catch (error) {
      this.#undo();
      throw error;
    } finally {
      for (const node of this.#changed) node.isChanged = false;
      this.#written.length = this.#changed.length = 0;
    }
  }

  #write(name: string, value: unknown): void {
    const { argument, slots } = this.#bound.get(name) ?? this.#bind(name);
    checkValue(argument, value, this.#session);
    for (const slot of slots) {
      slot.write(value);
      this.#written.push(slot);
      const { node } = slot;
      if (node.isChanged) continue;
      node.isChanged = true;
      this.#changed.push(node);
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
  #send(exec: bigint): void {
    const { driver } = this.#session;
    const changed = this.#changed;
    for (const node of changed) node.check();
    let sent = 0;
    try {
      for (; sent < changed.length; sent++) changed[sent]!.send(driver, exec);
    } catch (error) {
      this.#undo();
      for (const node of changed.slice(0, sent)) sendBack(node, driver, exec);
      throw this.#refusal(error, changed[sent]!);
    }
  }

  /** Notes the memory that what was written has left, and is in now. Returns whether there is any. */
  #exchangeMemory(): boolean {
    const { memory } = this.#source;
    let hasOther = false;
    let count = 0;
    for (const [index, { before, now }] of this.#written.entries()) {
      if (before === now) continue;
      hasOther = true;
      count++;
      // Most parts of an argument have left the same memory.
      const next = this.#written[index + 1];
      if (next?.before === before && next?.now === now) continue;
      memory.move(before, now, count);
      count = 0;
    }
    return hasOther;
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

/** Gives CUDA the parameters that a node had. */
function sendBack(node: ExecNode, driver: Driver, exec: bigint): void {
  try {
    node.send(driver, exec);
  } catch {
    // The device is lost, or the memory was freed: the graph is not launched before that is replaced.
  }
}

function keyOf(handle: bigint, end: CopyEnd | undefined): string {
  return end === undefined ? String(handle) : `${handle} ${end}`;
}

function refuseUnknown(action: string): never {
  throw new TypeError(
    `Cannot ${action} the graph: it was updated by a graph that has its nodes in another order or has conditional nodes, ` +
      "or after its own graph was disposed",
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
