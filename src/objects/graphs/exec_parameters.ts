/**
 * The parameters that the nodes of an executable graph have, and their changes: all of one call, or none.
 *
 * @module
 */
import type { Driver, GraphCopy, GraphFill, KernelLaunch } from "../../driver.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { HostBuffer } from "../../memory/transfers/host_buffer.ts";
import type { Session } from "../../session.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import { countOf } from "../../support/printing.ts";
import { shown } from "../../support/validation.ts";
import { type CudaKernel, kernelParameter, type KernelParameterPlace } from "../kernels/cuda_kernel.ts";
import type { KernelArgument } from "../kernels/kernel_arguments.ts";
import type { ExecMemory, NodeMemory } from "./exec_memory.ts";
import {
  argumentNamed,
  type ArgumentPlace,
  checkValue,
  isMemory,
  type NamedArgument,
  type NamedArguments,
  placesOf,
  sizeOfFill,
} from "./named_arguments.ts";
import { type CopyNote, copyOfLaunch, type FillNote, type KernelNote, type NodeNotes } from "./node_notes.ts";

/** What the parameters of an executable graph are made of. */
export interface ParametersSource {
  readonly device: number;
  /** Undefined if it is not known what the nodes run. */
  readonly notes: NodeNotes | undefined;
  readonly named: NamedArguments;
  readonly memory: ExecMemory;
}

/** A node of an executable graph, with the parameters that it has now. */
abstract class ExecNode {
  readonly node: bigint;
  /** Whether the current call changes the node. */
  isChanged = false;
  /** The memory that the node has used before the current call. Undefined if the call has not changed it. */
  usedBefore: readonly NodeMemory[] | undefined;

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
  readonly kernel: CudaKernel;
  readonly launch: KernelLaunch;
  /** The program's memory among the arguments, by its place in `launch.buffers`. */
  readonly memory: (NodeMemory | undefined)[] = [];
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

/** A part of a node's parameters that an argument is written to. */
interface Slot {
  readonly node: ExecNode;
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
  readonly #end: CopyEnd;
  readonly #byteOffset: number;
  #saved: { place: bigint | Uint8Array; memory: NodeMemory | undefined } | undefined;

  constructor(node: ExecCopy, end: CopyEnd, byteOffset: number) {
    this.node = node;
    this.#end = end;
    this.#byteOffset = byteOffset;
  }

  write(value: DeviceBuffer | HostBuffer): void {
    const { node } = this;
    const place = node.copy[this.#end];
    const next = partOf(value, {
      byteOffset: this.#byteOffset,
      byteLength: node.copy.byteLength,
      isAddress: typeof place === "bigint",
    });
    this.#saved = { place, memory: node.memoryAt(this.#end) };
    node.use(this.#end, next, memoryOf(value));
  }

  undo(): void {
    const { place, memory } = this.#saved!;
    this.node.use(this.#end, place, memory);
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
  return buffer instanceof HostBuffer ? buffer.buffer : allocationOf(buffer);
}

/** Returns a part of a buffer as an end of a copy: an address or, for page-locked memory, an array. */
export function partOf(
  buffer: DeviceBuffer | HostBuffer,
  { byteOffset, byteLength, isAddress }: { byteOffset: number; byteLength: number; isAddress: boolean },
): bigint | Uint8Array {
  if (buffer instanceof HostBuffer && !isAddress) return new Uint8Array(buffer.buffer, byteOffset, byteLength);
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
  readonly #places: ReadonlyMap<string, readonly ArgumentPlace[]>;
  readonly #nodes = new Map<bigint, ExecNode>();
  readonly #bound = new Map<string, BoundSlots>();
  /** What the current call has written, and the nodes that it changes. Kept, so that calls allocate nothing. */
  readonly #written: Slot[] = [];
  readonly #changed: ExecNode[] = [];

  constructor(session: Session, source: ParametersSource) {
    this.#session = session;
    this.#source = source;
    const { notes, named } = source;
    this.#places = named.size === 0 || notes === undefined ? new Map() : placesOf(notes, named);
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
      if (slots.length === 0) refuseUnused(argument);
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

  #undo(): void {
    for (const slot of this.#written) slot.undo();
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
    if (this.#source.notes === undefined) refuseUnknown(`update the argument ${shown(name)} of`);
    const bound = { argument, slots: this.#places.get(name)!.flatMap((place) => this.#slotOf(argument, place)) };
    this.#bound.set(name, bound);
    return bound;
  }

  #slotOf(argument: NamedArgument, { node: handle, index, end, byteOffset }: ArgumentPlace): Slot {
    const node = this.#nodeOf(handle)!;
    if (node instanceof ExecCopy) return new EndSlot(node, end!, byteOffset);
    if (node instanceof ExecFill) return new TargetSlot(node, byteOffset);
    const kernel = node as ExecKernel;
    if (!isMemory(argument)) return new ValueSlot(kernel, { argument: argument.name, index: index! });
    const note = this.#source.notes!.get(handle) as KernelNote;
    const { place, offset } = note.addresses.find((address) => address.index === index)!;
    return new AddressSlot(kernel, { index: place, offset, byteOffset });
  }

  #nodeOf(handle: bigint): ExecNode | undefined {
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

function refuseUnknown(action: string): never {
  throw new TypeError(
    `Cannot ${action} the graph: it was updated by a graph that has its nodes in another order, or after its own graph ` +
      "was disposed",
  );
}

function refuseUnused(argument: NamedArgument): never {
  const { name } = argument;
  const why = isMemory(argument)
    ? "no kernel, copy or fill of the capture was given the buffer or a part of it; in a struct, an address is not found"
    : `no launch of the capture was given arguments.${name}, which stands for the value`;
  throw new TypeError(`Cannot update the argument ${shown(name)} of a graph: ${why}`);
}
