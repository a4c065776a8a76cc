/**
 * Launches of kernels that note what they access.
 *
 * @module
 */
import { defaultStream, type Driver, eventFlags, type HostAllocation, type KernelLaunch } from "../../driver.ts";
import { ptxText } from "../../ptx/ptx_text.ts";
import type { RangeAccess } from "../order/stream_order.ts";
import { instrumentedPtx, observedKinds, observedSuffix, tableEntryBytes } from "./instrumented_ptx.ts";

/** The second version of a kernel. */
interface ObservedKernel {
  readonly handle: bigint;
  /** The place of its last parameter, the table, among the packed ones. */
  readonly tableOffset: number;
}

/** A range of memory whose bytes have a bit each, for each kind of access. */
interface ObservedRange {
  readonly begin: bigint;
  readonly byteLength: number;
  /** The offset of its first bitmap in the launch's memory. */
  readonly offset: number;
}

/** Memory on the device for the notes of a launch, and on the host for a copy. */
interface Notes {
  readonly device: number;
  readonly address: bigint;
  readonly byteLength: number;
  readonly host: HostAllocation;
  readonly event: bigint;
}

/** A launch whose notes are on the way. */
interface PendingNotes {
  readonly notes: Notes;
  readonly ranges: readonly ObservedRange[];
  done(accesses: readonly RangeAccess[]): void;
}

/** A launch with more memory than this is not observed. */
const mostBytes = 2 ** 30;
const wordBytes = 32;

/** Loads modules with second versions of their kernels, and launches those. */
export class InstrumentedLaunches {
  readonly #driver: Driver;
  readonly #modules = new Set<bigint>();
  /** By the handles of the first versions. */
  readonly #kernels = new Map<bigint, ObservedKernel>();
  readonly #pending: PendingNotes[] = [];
  #free: Notes[] = [];

  constructor(driver: Driver) {
    this.#driver = driver;
  }

  /** The calls to make instead of the driver's own. */
  calls(): Partial<Driver> {
    const driver = this.#driver;
    return {
      moduleGetFunctionNames: (module) =>
        driver.moduleGetFunctionNames(module)?.filter((name) => !name.endsWith(observedSuffix)),
      funcSetAttribute: (kernel, attribute, value) => {
        driver.funcSetAttribute(kernel, attribute, value);
        const observed = this.#kernels.get(kernel);
        if (observed !== undefined) driver.funcSetAttribute(observed.handle, attribute, value);
      },
      funcSetCacheConfig: (kernel, config) => {
        driver.funcSetCacheConfig(kernel, config);
        const observed = this.#kernels.get(kernel);
        if (observed !== undefined) driver.funcSetCacheConfig(observed.handle, config);
      },
    };
  }

  /** Loads a module, with second versions of its kernels if they can be made. */
  readonly moduleLoadData: Driver["moduleLoadData"] = (device, image, options) => {
    const text = ptxText(image);
    const instrumented = text === undefined ? undefined : instrumentedPtx(text);
    if (instrumented !== undefined) {
      try {
        const module = this.#driver.moduleLoadData(device, instrumented, options);
        this.#modules.add(module);
        return module;
      } catch {
        // The program's own text may load, or its error says what is wrong with it.
      }
    }
    return this.#driver.moduleLoadData(device, image, options);
  };

  /** Records a kernel of a module. */
  addKernel(kernel: bigint, module: bigint, name: string): void {
    if (!this.#modules.has(module)) return;
    try {
      const handle = this.#driver.moduleGetFunction(module, `${name}${observedSuffix}`);
      const table = this.#driver.funcGetParamInfo(handle)?.at(-1);
      if (table !== undefined) this.#kernels.set(kernel, { handle, tableOffset: table.offset });
    } catch {
      // It is launched as it is.
    }
  }

  /**
   * Launches the second version of a kernel. Returns whether it was: else the first one is to be launched.
   *
   * @param call makes the launch
   * @param done gets what was accessed, when it is known
   */
  launch(launch: KernelLaunch, call: (launch: KernelLaunch) => void, done: PendingNotes["done"]): boolean {
    const kernel = this.#kernels.get(launch.kernel);
    if (kernel === undefined) return false;
    const { ranges, byteLength } = this.#rangesOf(launch, kernel);
    if (ranges.length === 0 || byteLength > mostBytes) return false;
    let notes: Notes;
    try {
      notes = this.#take(launch.device, byteLength);
      this.#begin(launch, notes, ranges);
      call(this.#observed(launch, kernel, notes.address));
    } catch {
      // It may need more registers than the first version, or there is no memory left.
      return false;
    }
    const { device, address, host, event } = notes;
    this.#driver.memcpyDtoHAsync(device, new Uint8Array(host.buffer, 0, byteLength), address, launch.stream);
    this.#driver.eventRecord(device, event, launch.stream);
    this.#pending.push({ notes, ranges, done });
    return true;
  }

  /** Looks at the notes of the launches that are done. Those whose device was lost have accessed nothing. */
  settle(): void {
    for (let first = this.#pending[0]; first !== undefined; first = this.#pending[0]) {
      const { notes, ranges, done } = first;
      const state = this.#stateOf(notes);
      if (state === "running") return;
      this.#pending.shift();
      if (state === "done") this.#free.push(notes);
      done(state === "lost" ? [] : ranges.flatMap((range) => accessesIn(range, notes.host.buffer)));
    }
  }

  #stateOf({ event }: Notes): "running" | "done" | "lost" {
    try {
      return this.#driver.eventQuery(event, { peek: true }) ? "done" : "running";
    } catch {
      return "lost";
    }
  }

  /** The memory that the arguments are addresses of, and how many bytes its notes have. */
  #rangesOf({ device, parameters }: KernelLaunch, { tableOffset }: ObservedKernel) {
    const found = new Map<bigint, { begin: bigint; byteLength: number }>();
    const end = Math.min(tableOffset, parameters.byteLength);
    for (let offset = 0; offset + 8 <= end; offset += 8) {
      const { base, byteLength } = this.#allocationAt(device, parameters.getBigUint64(offset, true));
      if (byteLength === 0) continue;
      const begin = base & ~BigInt(wordBytes - 1);
      found.set(begin, { begin, byteLength: Number(base - begin) + byteLength });
    }
    let byteLength = 8 + tableEntryBytes * found.size;
    const ranges = [...found.values()].map((range): ObservedRange => {
      const offset = byteLength;
      byteLength += observedKinds.length * bitmapBytes(range.byteLength);
      return { ...range, offset };
    });
    return { ranges, byteLength };
  }

  #allocationAt(device: number, address: bigint): { base: bigint; byteLength: number } {
    const nothing = { base: 0n, byteLength: 0 };
    // Most numbers are no addresses.
    if (address < 2n ** 16n || address >= 2n ** 57n) return nothing;
    try {
      return this.#driver.memGetAddressRange(device, address);
    } catch {
      return nothing;
    }
  }

  #take(device: number, byteLength: number): Notes {
    const known = this.#free.find((notes) => notes.device === device && notes.byteLength >= byteLength);
    if (known !== undefined) {
      this.#free = this.#free.filter((notes) => notes !== known);
      return known;
    }
    const size = 2 ** Math.ceil(Math.log2(Math.max(byteLength, 2 ** 12)));
    const address = this.#driver.malloc(device, size);
    const event = this.#driver.eventCreateWithFlags(device, eventFlags.disableTiming);
    return { device, address, byteLength: size, host: this.#driver.hostAlloc(size), event };
  }

  /** Writes the table, and clears the bitmaps. */
  #begin({ device, stream }: KernelLaunch, { address, host }: Notes, ranges: readonly ObservedRange[]): void {
    const last = ranges.at(-1)!;
    const end = last.offset + observedKinds.length * bitmapBytes(last.byteLength);
    const bytes = new Uint8Array(host.buffer, 0, end).fill(0);
    const view = new DataView(host.buffer);
    view.setUint32(0, ranges.length, true);
    for (const [index, { begin, byteLength, offset }] of ranges.entries()) {
      const entry = 8 + index * tableEntryBytes;
      view.setBigUint64(entry, begin, true);
      view.setBigUint64(entry + 8, BigInt(byteLength), true);
      for (const kind of observedKinds.keys()) {
        const bitmap = address + BigInt(offset + kind * bitmapBytes(byteLength));
        view.setBigUint64(entry + 16 + 8 * kind, bitmap, true);
      }
    }
    this.#driver.memcpyHtoDAsync(device, address, bytes, stream);
  }

  #observed(launch: KernelLaunch, { handle, tableOffset }: ObservedKernel, table: bigint): KernelLaunch {
    const observed = this.#driver.createKernelLaunch(launch.device, handle, tableOffset + 8, launch.buffers);
    const { gridX, gridY, gridZ, blockX, blockY, blockZ, sharedMemoryBytes, stream = defaultStream } = launch;
    Object.assign(observed, { gridX, gridY, gridZ, blockX, blockY, blockZ, sharedMemoryBytes, stream });
    const bytes = (view: DataView, length: number) =>
      new Uint8Array(view.buffer, view.byteOffset, Math.min(length, view.byteLength));
    bytes(observed.parameters, tableOffset).set(bytes(launch.parameters, tableOffset));
    observed.parameters.setBigUint64(tableOffset, table, true);
    return observed;
  }
}

/** A bit for each byte, in whole words of 64 bits. */
function bitmapBytes(byteLength: number): number {
  return Math.ceil(byteLength / 64) * 8;
}

/** The bytes that have a bit. */
function accessesIn({ begin, byteLength, offset }: ObservedRange, buffer: ArrayBuffer): RangeAccess[] {
  const found: RangeAccess[] = [];
  for (const [kind, access] of observedKinds.entries()) {
    const words = new Uint32Array(buffer, offset + kind * bitmapBytes(byteLength), bitmapBytes(byteLength) / 4);
    let start = -1;
    for (let byte = 0; byte <= byteLength; byte++) {
      const word = byte < byteLength ? words[byte >>> 5]! : 0;
      const isWhole = word === 0 || word === 0xffff_ffff;
      const isSet = (word >>> (byte & 31) & 1) === 1;
      if (isSet && start < 0) start = byte;
      if (!isSet && start >= 0) {
        found.push({ address: Number(begin) + start, byteLength: byte - start, access });
        start = -1;
      }
      // The rest of the word is the same.
      if (isWhole && (byte & 31) === 0 && byte + 32 <= byteLength) byte += 31;
    }
  }
  return found;
}
