/**
 * Launches instrumented versions of kernels, which record their accesses.
 *
 * A module is loaded with an instrumented version of each kernel in addition to the original one. It has one more
 * parameter: the address of a table of memory ranges. Each range has a bitmap per kind of access, with a bit per byte.
 *
 * @module
 */
import { resolveNearest } from "../../ptx/instructions/find_row.ts";
import { accessOf } from "./thread_state.ts";
import { defaultStream, type Driver, eventFlags, type HostAllocation, type KernelLaunch } from "../../driver.ts";
import { ptxText } from "../../ptx/image_kind.ts";
import type { RangeAccess } from "../order/stream_order.ts";

/** The instrumented version of a kernel, which records the kernel's accesses. */
interface ObservedKernel {
  readonly handle: bigint;
  /**
   * The offset in bytes, in the packed parameters, of the additional parameter of the instrumented version: the address
   * of the table of observed ranges.
   */
  readonly tableOffset: number;
}

/** A range of device memory for which a launch records accesses. */
interface ObservedRange {
  readonly begin: bigint;
  readonly byteLength: number;
  /** The offset in bytes of the range's first bitmap in the memory in which the launch records accesses. */
  readonly offset: number;
}

/** The memory in which one launch records accesses. */
interface Notes {
  readonly device: number;
  /** The address of the device memory that the kernel writes. */
  readonly address: bigint;
  readonly byteLength: number;
  /** Page-locked host memory, which receives a copy of the device memory. */
  readonly host: HostAllocation;
  /** An event, recorded after the copy to the host memory. */
  readonly event: bigint;
}

/** A launch whose recorded accesses have not been processed yet. */
interface PendingNotes {
  readonly notes: Notes;
  readonly ranges: readonly ObservedRange[];
  done(accesses: readonly RangeAccess[]): void;
}

/**
 * The maximum size in bytes of the memory in which a launch records accesses. A launch that needs more runs
 * uninstrumented.
 */
const mostBytes = 2 ** 30;
/** The number of bytes of observed memory that a 32-bit word of a bitmap covers: one per bit. */
const wordBytes = 32;

/** Adds instrumented versions of the kernels to modules, and launches these versions. */
export class InstrumentedLaunches {
  readonly #driver: Driver;
  readonly #modules = new Set<bigint>();
  /** The instrumented versions of kernels, keyed by the handle of the original kernel. */
  readonly #kernels = new Map<bigint, ObservedKernel>();
  /** The launches whose recorded accesses have not been processed yet, in launch order. */
  readonly #pending: PendingNotes[] = [];
  /** The memory of launches whose recorded accesses have been processed. Later launches reuse it. */
  #free: Notes[] = [];

  constructor(driver: Driver) {
    this.#driver = driver;
  }

  /**
   * Returns wrappers of driver calls. They hide the instrumented kernels from the program, and apply the settings of a
   * kernel to its instrumented version as well.
   */
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

  /** Loads a module. If possible, adds instrumented versions of its kernels. */
  readonly moduleLoadData: Driver["moduleLoadData"] = (device, image, options) => {
    const text = ptxText(image);
    const instrumented = text === undefined ? undefined : instrumentedPtx(text);
    if (instrumented !== undefined) {
      try {
        const module = this.#driver.moduleLoadData(device, instrumented, options);
        this.#modules.add(module);
        return module;
      } catch {
        // Load the original PTX instead. If this fails as well, the program gets the error for its own PTX.
      }
    }
    return this.#driver.moduleLoadData(device, image, options);
  };

  /** Registers a kernel of a module, if the module has an instrumented version of the kernel. */
  addKernel(kernel: bigint, module: bigint, name: string): void {
    if (!this.#modules.has(module)) return;
    try {
      const handle = this.#driver.moduleGetFunction(module, `${name}${observedSuffix}`);
      const table = this.#driver.funcGetParamInfo(handle)?.at(-1);
      if (table !== undefined) this.#kernels.set(kernel, { handle, tableOffset: table.offset });
    } catch {
      // Ignore the error: launches then use the original version of the kernel.
    }
  }

  /**
   * Launches the instrumented version of a kernel. Returns false if this is not possible, in which case the caller must
   * launch the original version.
   *
   * @param call launches a kernel with the given parameters
   * @param done called with the launch's accesses when they are known
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
      // The instrumented version may need too many registers, or memory may be exhausted.
      return false;
    }
    const { device, address, host, event } = notes;
    this.#driver.memcpyDtoHAsync(device, new Uint8Array(host.buffer, 0, byteLength), address, launch.stream);
    this.#driver.eventRecord(device, event, launch.stream);
    this.#pending.push({ notes, ranges, done });
    return true;
  }

  /**
   * Processes the recorded accesses of completed launches. If the device was lost, a launch is treated as making no
   * accesses.
   */
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

  /**
   * Returns the allocations that a launch's arguments point to, and the number of bytes needed to record accesses to
   * them.
   */
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
    // Skip the query for arguments that cannot be addresses.
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

  /** Enqueues a copy to the device that writes the table of observed ranges and clears the bitmaps. */
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

/** Returns the size in bytes, rounded up to 64-bit words, of a bitmap with a bit for each of `byteLength` bytes. */
function bitmapBytes(byteLength: number): number {
  return Math.ceil(byteLength / 64) * 8;
}

/** Returns the accesses recorded in a range's bitmaps: one for each contiguous run of accessed bytes. */
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
      // Skip the remaining bits of a word whose bits are all equal.
      if (isWhole && (byte & 31) === 0 && byte + 32 <= byteLength) byte += 31;
    }
  }
  return found;
}

/** The suffix of the names of instrumented kernel versions. */
export const observedSuffix = "__poolpass_observed";
/** The kinds of recorded accesses, in the order of a range's bitmaps. */
export const observedKinds = ["read", "write", "atomic"] as const;
/**
 * The size in bytes of an entry in the table of observed ranges: the address of a range, its length, and the addresses
 * of its three bitmaps. The table begins with the number of entries (8 bytes).
 */
export const tableEntryBytes = 40;

/**
 * The PTX of a function that records an access. Bit i of `%mask` stands for the byte at `%address` + i. Since accesses
 * are aligned, all of these bits are in the same word of a bitmap.
 */
const noteFunction = `
.func poolpass_note(.reg .u64 %table, .reg .u64 %address, .reg .u32 %mask, .reg .u32 %kind)
{
  .reg .b64 %n<8>;
  .reg .b32 %m<4>;
  .reg .pred %q<2>;
  ld.global.u32 %m0, [%table];
  add.u64 %n0, %table, 8;
$next:
  setp.eq.u32 %q0, %m0, 0;
  @%q0 bra $done;
  ld.global.u64 %n1, [%n0];
  ld.global.u64 %n2, [%n0+8];
  sub.u64 %n3, %address, %n1;
  setp.lt.u64 %q1, %n3, %n2;
  @%q1 bra $found;
  add.u64 %n0, %n0, ${tableEntryBytes};
  sub.u32 %m0, %m0, 1;
  bra $next;
$found:
  mul.wide.u32 %n4, %kind, 8;
  add.u64 %n4, %n0, %n4;
  ld.global.u64 %n5, [%n4+16];
  shr.u64 %n6, %n3, 5;
  shl.b64 %n6, %n6, 2;
  add.u64 %n5, %n5, %n6;
  cvt.u32.u64 %m1, %n3;
  and.b32 %m1, %m1, 31;
  shl.b32 %m2, %mask, %m1;
  red.global.or.b32 [%n5], %m2;
$done:
  ret;
}
`;

/** Matches a comment or a string in PTX. */
const commentOrString = /\/\/[^\n]*|\/\*[^]*?\*\/|"[^"\n]*"/g;
/** Matches a kernel definition up to its opening brace, with its name, parameters and directives. */
const entryHead = /(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$%]+)\s*(\([^)]*\))?([^{};]*)\{/g;
/** Matches an instruction with an address operand. Captures the guard, opcode, modifiers, address and offset. */
const instructionWithAddress =
  /(@!?[\w$%]+\s+)?(?<![\w$%.])([a-z]\w*)((?:(?:\.|::)\w+)+)\s+([^;{}\[]*(?:\{[^}]*\}[^;{}\[]*)?\[\s*([\w$%]+)\s*(?:\+\s*(-?\w+))?\s*\][^;]*);/g;

/**
 * Returns PTX to which an instrumented version of each kernel is added. Undefined if the PTX has no kernels, or has
 * debug information, which refers to positions in the source.
 */
export function instrumentedPtx(text: string): string | undefined {
  const plain = text.replaceAll(commentOrString, (found) => found.startsWith('"') ? found : " ");
  if (/\.section\s+\.debug_info/.test(plain)) return undefined;
  const versions: string[] = [];
  for (const match of plain.matchAll(entryHead)) {
    const [whole, name, parameters = "()", directives] = match as unknown as [string, string, string, string];
    const end = endOfBraces(plain, match.index + whole.length);
    if (end === undefined) return undefined;
    const inner = parameters.slice(1, -1).trim();
    const table = `${inner}${inner === "" ? "" : ", "}.param .u64 poolpass_table`;
    const body = observedBody(plain.slice(match.index + whole.length, end));
    versions.push(`.visible .entry ${name}${observedSuffix}(${table})${directives}{\n${body}}\n`);
  }
  return versions.length === 0 ? undefined : `${text}\n${noteFunction}${versions.join("\n")}`;
}

/** Returns the index of the closing brace that matches the opening brace before `begin`. Undefined if there is none. */
function endOfBraces(text: string, begin: number): number | undefined {
  let depth = 1;
  for (let index = begin; index < text.length; index++) {
    const character = text[index];
    if (character === "{") depth++;
    else if (character === "}" && --depth === 0) return index;
  }
  return undefined;
}

function observedBody(body: string): string {
  let count = 0;
  const noted = body.replaceAll(/^\s*\.loc\b[^\n]*$/gm, "").replaceAll(
    instructionWithAddress,
    (whole, guard: string | undefined, opcode: string, modifiers: string, _, base: string, offset = "0") => {
      const note = noteOf({ opcode, modifiers: modifiers.split(/\.(?!:)/).slice(1), base, offset });
      if (note === undefined) return whole;
      if (guard === undefined) return `${note}\n${whole}`;
      const label = `$poolpass_skip_${count++}`;
      const opposite = guard.startsWith("@!") ? `@${guard.slice(2)}` : `@!${guard.slice(1)}`;
      return `${opposite.trim()} bra ${label};\n${note}\n${label}:\n${whole}`;
    },
  );
  return `.reg .b64 %poolpass_table;\nld.param.u64 %poolpass_table, [poolpass_table];\n${noted}`;
}

/**
 * Returns PTX that records the access of an instruction. Undefined if accesses of this kind or to this memory are not
 * recorded.
 */
function noteOf(
  { opcode, modifiers, base, offset }: { opcode: string; modifiers: readonly string[]; base: string; offset: string },
): string | undefined {
  // A base register begins with a percent sign. Any other base names a variable or a parameter.
  if (!base.startsWith("%")) return undefined;
  const resolved = resolveNearest({ kind: "instruction", opcode, modifiers, operands: [], line: 0 });
  const address = { kind: "address", base: undefined, offset: 0n } as const;
  const known = accessOf({ ...resolved, operands: [address], predicate: undefined });
  if (known === undefined || known === "unknown" || known.byteLength > wordBytes) return undefined;
  const mask = 2 ** known.byteLength - 1;
  const kind = observedKinds.indexOf(known.access);
  return `{ .reg .b64 %poolpass_address; .reg .b32 %poolpass_mask, %poolpass_kind;
add.s64 %poolpass_address, ${base}, ${offset};
mov.u32 %poolpass_mask, ${mask}; mov.u32 %poolpass_kind, ${kind};
call poolpass_note, (%poolpass_table, %poolpass_address, %poolpass_mask, %poolpass_kind); }`;
}
