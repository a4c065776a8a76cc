/**
 * The functions that compiled kernels call: faults, fuel, checks, `printf`, `malloc` and `free`, and `assert`.
 *
 * @module
 */
import { decodePlace, faultKind, shadowOffset, withAccess } from "../abi/addresses.ts";
import { type HostFunctions, originSpaces } from "../abi/host_functions.ts";
import { orderBits } from "../abi/check_state.ts";
import { exchangeWords } from "../abi/textures.ts";
import { tensorOperations } from "../abi/tensor_map.ts";
import type { DeviceHeap, HeapSite } from "../memory/device_heap.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";
import { addressOfOffset, offsetOfAddress } from "../memory/memory_layout.ts";
import { nearestOf } from "../memory/named_memory.ts";
import type { RunningChecks } from "./checks/launch_checks.ts";
import { KernelStop, type StepCounter } from "./faults/kernel_fault.ts";
import { assertionMessage, printFromDevice, type ReadableMemory, UnreadableError } from "./printing/device_print.ts";
import { type OnAccess, SurfaceUnit } from "./textures/surface_unit.ts";
import { TextureUnit } from "./textures/texture_unit.ts";
import { copyTensor } from "./tensor_copies.ts";
import { writeStandardError, writeStandardOutput } from "./printing/standard_output.ts";

/**
 * The host functions that a module's caller supplies. The compiler itself provides the other host functions,
 * `reduceAngle` and `encodeEightBits`.
 */
type SuppliedFunctions = Omit<HostFunctions, "reduceAngle" | "encodeEightBits">;

/** The parts of a device's heap that kernels use. */
export type KernelHeap = Pick<DeviceHeap, "allocate" | "free" | "byteLengthAt" | "ranges">;

/** The parts of the device that a module's host functions use. */
export interface HostFunctionParts {
  readonly linearMemory: Pick<LinearMemory, "memory" | "bytes" | "conditions" | "printLimitAt"> & {
    heapAt(bounds: number): KernelHeap;
  };
  /** The `performance.timeOrigin` from which kernels count the time. By default, that of the calling thread. */
  readonly timeOrigin?: number;
  /** Counts the steps of the running blocks. */
  readonly steps: StepCounter;
  /** The checks of the running launch. Undefined if kernels perform no checks. */
  readonly running?: RunningChecks | undefined;
  /** The range of the module's variables in linear memory. */
  readonly image: { readonly begin: number; readonly byteLength: number };
}

/** Returns the host functions for the kernels of a module. */
export function hostFunctions(parts: HostFunctionParts): SuppliedFunctions {
  return {
    ...faultFunctions(parts),
    ...checkFunctions(parts),
    ...heapFunctions(parts),
    ...printFunctions(parts),
    ...textureFunctions(parts),
    copyTensor: tensorCopyFunction(parts),
  };
}

function faultFunctions(
  { running, steps, linearMemory, timeOrigin = performance.timeOrigin }: HostFunctionParts,
): Pick<HostFunctions, "fault" | "refuel" | "clock" | "setCondition"> {
  const offset = performance.timeOrigin - timeOrigin;
  return {
    fault(kind, address, place, thread) {
      const unsigned = BigInt.asUintN(64, address);
      const offset = kind === faultKind.illegalAddress ? offsetOfAddress(unsigned) : undefined;
      if (offset !== undefined) running?.refuse(offset, place, thread);
      throw new KernelStop({ kind, address: unsigned, place: decodePlace(place), thread });
    },
    refuel: (place, thread) => steps.refuel(place, thread),
    setCondition: (handle, value) => linearMemory.conditions?.table.set(handle, value),
    clock: () => BigInt(Math.round((performance.now() + offset) * 1e6)),
  };
}

/** Returns the host functions for checks. WebAssembly passes offsets above 2 GiB as negative numbers. */
function checkFunctions({ running, image }: HostFunctionParts): Pick<
  HostFunctions,
  | "access"
  | "orderedAccess"
  | "order"
  | "stray"
  | "decideByUninitialized"
  | "loadUninitialized"
  | "storeUninitialized"
  | "mark"
> {
  const { begin, byteLength } = image;
  return {
    access(offset, place, thread) {
      const unsigned = offset >>> 0;
      // Does not report accesses to the module's own variables, because the variables belong to no buffer.
      if (unsigned < begin || unsigned >= begin + byteLength) running?.access(unsigned, place, thread);
      else running?.accessVariable(unsigned);
    },
    orderedAccess: (offset, place, thread, order) => running?.orderedAccess(offset >>> 0, place, thread, order),
    order: (place, thread, order) => running?.order(place, thread, order),
    stray(location, place, thread, space, offset, begin, byteLength) {
      const origin = { space: originSpaces[space]!, offset, begin: begin >>> 0, byteLength: byteLength >>> 0 };
      running?.stray({ begin: location >>> 0, place, thread, origin });
    },
    decideByUninitialized: (decision, place, thread) => running?.initialization?.decide(decision, place, thread),
    loadUninitialized: (offset, place, thread) => running?.initialization?.load(offset >>> 0, place, thread),
    storeUninitialized: (offset, place) => running?.initialization?.store(offset >>> 0, place),
    mark: (mark, thread) => running?.mark(mark, thread),
  };
}

function heapFunctions({ linearMemory, running }: HostFunctionParts): Pick<HostFunctions, "allocate" | "free"> {
  return {
    allocate(size, alignment, place, _thread, bounds) {
      const heap = linearMemory.heapAt(bounds >>> 0);
      const address = allocateOnHeap(heap, { size, alignment, site: running?.siteOf(place) });
      const offset = offsetOfAddress(address);
      if (offset !== undefined) running?.allocated(offset, Number(BigInt.asUintN(64, size)));
      running?.initialization?.allocate(offset, Number(size));
      return address;
    },
    free(address, place, thread, bounds) {
      const heap = linearMemory.heapAt(bounds >>> 0);
      const offset = offsetOfAddress(BigInt.asUintN(64, address));
      if (offset !== undefined) running?.frees(offset, heap.byteLengthAt(offset), place, thread);
      const what = refusalOfFree(heap, BigInt.asUintN(64, address));
      if (what === undefined) return;
      throw new KernelStop({ kind: faultKind.illegalAddress, address, place: decodePlace(place), thread, what });
    },
  };
}

/**
 * Implements a kernel's call of `malloc`. Returns the address, or 0 if the allocation fails. `malloc` passes sizes as
 * unsigned 64-bit numbers.
 */
function allocateOnHeap(
  heap: KernelHeap,
  { size, alignment, site }: { size: bigint; alignment: bigint; site: HeapSite | undefined },
): bigint {
  const [bytes, multiple] = [size, alignment].map((number) => Number(BigInt.asUintN(64, number))) as [number, number];
  const offset = heap.allocate(bytes, multiple, site);
  return offset === undefined ? 0n : addressOfOffset(offset);
}

/** Implements a kernel's call of `free`. Returns a description of the error, or undefined on success. */
function refusalOfFree(heap: KernelHeap, address: bigint): string | undefined {
  if (address === 0n) return undefined;
  const offset = offsetOfAddress(address);
  if (offset !== undefined && heap.free(offset)) return undefined;
  const position = offset === undefined ? undefined : nearestOf({ begin: offset, byteLength: 1 }, heap.ranges());
  return `frees 0x${address.toString(16)}, which malloc in a kernel did not return, or which was freed already` +
    (position === undefined ? "" : `: it is ${position}`);
}

/** What reads the textures, and uses the surfaces, of each linear memory. */
const textureUnits = new WeakMap<WebAssembly.Memory, TextureUnit>();
const surfaceUnits = new WeakMap<WebAssembly.Memory, SurfaceUnit>();

/** The memory order of accesses to surfaces: loads go through the cache of textures. */
const orderOfSurface = {
  read: orderBits.notCoherent,
  write: orderBits.immediate,
  atomic: orderBits.strong | orderBits.wide,
} as const;

function textureFunctions({ linearMemory: { memory, bytes }, running }: HostFunctionParts): Pick<
  HostFunctions,
  "readTexture" | "useSurface" | "queryTexture"
> {
  const unit = () => {
    let unit = textureUnits.get(memory);
    if (unit === undefined) textureUnits.set(memory, unit = new TextureUnit(memory));
    return unit;
  };
  const surfaces = () => {
    let unit = surfaceUnits.get(memory);
    if (unit === undefined) surfaceUnits.set(memory, unit = new SurfaceUnit(memory));
    return unit;
  };
  /** Throws that the handle in an exchange is not that of a texture. */
  const refuse = (exchange: number, place: number, thread: number): never => {
    const address = new DataView(bytes.buffer).getBigUint64(exchange + 4 * exchangeWords.handle, true);
    throw new KernelStop({ kind: faultKind.noTexture, address, place: decodePlace(place), thread });
  };
  return {
    readTexture(exchange, operation, place, thread) {
      const begin = exchange >>> 0;
      if (!unit().read(begin, operation)) refuse(begin, place, thread);
      if (running?.checksRaces !== true) return;
      unit().forEachTexel(begin, (offset, bytes) => {
        const read = withAccess(place, { operation: "read", bytes });
        running.orderedAccess(offset, read, thread, orderBits.texels | orderBits.notCoherent);
      });
    },
    useSurface(exchange, operation, place, thread) {
      const begin = exchange >>> 0;
      const surface = unit().boundAt(begin);
      if (surface === undefined || surface.object.isSurface === 0) return refuse(begin, place, thread);
      const onAccess: OnAccess | undefined = running?.checksRaces !== true ? undefined : (offset, access) => {
        running.orderedAccess(
          offset,
          withAccess(place, access),
          thread,
          orderBits.texels | orderOfSurface[access.operation],
        );
      };
      const what = surfaces().use(surface, begin, operation, onAccess);
      if (what === undefined) return;
      throw new KernelStop({ kind: faultKind.illegalAddress, place: decodePlace(place), thread, what });
    },
    queryTexture(exchange, query, level, place, thread) {
      const begin = exchange >>> 0;
      return unit().query(begin, query, level) ?? refuse(begin, place, thread);
    },
  };
}

function printFunctions({ linearMemory }: HostFunctionParts): Pick<HostFunctions, "print" | "failAssertion"> {
  return {
    print(format, values, place, thread, ...spaces) {
      try {
        const call = { format, arguments: values, memory: readableMemory(spaces) };
        return printFromDevice(
          linearMemory.bytes,
          call,
          writeStandardOutput,
          linearMemory.printLimitAt(call.memory.bounds),
        );
      } catch (error) {
        if (!(error instanceof UnreadableError)) throw error;
        const { address, byteLength: bytes } = error;
        const kind = faultKind.illegalAddress;
        throw new KernelStop({ kind, address, place: { ...decodePlace(place), bytes }, thread });
      }
    },
    failAssertion(
      message,
      file,
      sourceLine,
      name,
      blockX,
      blockY,
      blockZ,
      threadX,
      threadY,
      threadZ,
      line,
      ...spaces
    ) {
      const { text, source, what } = assertionMessage(linearMemory.bytes, {
        message,
        file,
        function: name,
        line: sourceLine,
        block: [blockX, blockY, blockZ],
        thread: [threadX, threadY, threadZ],
        memory: readableMemory(spaces),
      });
      writeStandardError(new TextEncoder().encode(`${text}\n`));
      const kind = faultKind.failedAssertion;
      throw new KernelStop({ kind, place: { line }, index: [threadX, threadY, threadZ], source, what });
    },
  };
}

/** Returns the host function for copies of parts of tensors. */
export function tensorCopyFunction(
  { linearMemory: { bytes }, running }: Pick<HostFunctionParts, "running"> & {
    readonly linearMemory: Pick<LinearMemory, "bytes">;
  },
): HostFunctions["copyTensor"] {
  return (map, shared, operation, count, first, second, third, fourth, fifth, offsets, place, thread, ...others) => {
    const [base, table] = others.splice(7).map((number) => number >>> 0) as [number, number];
    const spaces = others as unknown as Spaces;
    const name = tensorOperations[operation]!;
    const isLoad = name === "load";
    const copy = {
      map: BigInt.asUintN(64, map),
      shared: BigInt.asUintN(64, shared),
      operation: name,
      coordinates: [first, second, third, fourth, fifth].slice(0, count),
      offsets: offsets < 0n ? undefined : [0n, 16n, 32n].map((shift) => Number(offsets >> shift & 0xffffn)),
    };
    return copyTensor(copy, {
      bytes,
      memory: readableMemory(spaces),
      cluster: { base, table },
      site: { place: decodePlace(place), thread },
      shadowOffset: running?.initialization === undefined ? undefined : shadowOffset,
      onAccess: running?.needsAccesses !== true ? undefined : (offset, bytes, isShared) => {
        const access = withAccess(place, { operation: isShared === isLoad ? "write" : "read", bytes });
        if (!isShared) running.access(offset, access, thread);
        running.orderedAccess(offset, access, thread, orderBits.proxy);
      },
    });
  };
}

/**
 * The offsets and sizes of the memory that a kernel may read, in the order in which compiled code passes them (see
 * `pushSpaces`).
 */
type Spaces = [
  shared: number,
  sharedBytes: number,
  local: number,
  localBytes: number,
  parameters: number,
  parameterBytes: number,
  bounds: number,
];

/**
 * Converts the arguments that describe the readable memory. WebAssembly passes offsets above 2 GiB as negative numbers.
 */
function readableMemory(spaces: Spaces): ReadableMemory {
  const [shared, sharedBytes, local, localBytes, parameters, parameterBytes, bounds] = spaces.map((number) => {
    return number >>> 0;
  }) as Spaces;
  return {
    shared: { begin: shared, byteLength: sharedBytes },
    local: { begin: local, byteLength: localBytes },
    parameters: { begin: parameters, byteLength: parameterBytes },
    bounds,
  };
}
