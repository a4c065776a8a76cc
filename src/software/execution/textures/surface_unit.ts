/**
 * Loads, stores and reductions of surfaces for kernels, as an H100 makes them.
 *
 * @module
 */
import { decodeSurfaceOperation, exchangeWords, type SurfaceOperation } from "../../abi/textures.ts";
import type { BoundTexture } from "./bound_texture.ts";
import { truncatedHalf } from "./texel_format.ts";
import type { ChannelFormat } from "./texture_object.ts";

/** Called before an element is accessed, with its offset in linear memory. */
export type OnAccess = (offset: number, access: { bytes: number; operation: "read" | "write" | "atomic" }) => void;

/** Uses surfaces for the kernels of one thread. */
export class SurfaceUnit {
  readonly #bytes: Uint8Array;
  readonly #halves: Uint16Array;
  readonly #words: Int32Array;
  readonly #longs: BigInt64Array;
  readonly #operations = new Map<number, SurfaceOperation>();

  constructor({ buffer }: WebAssembly.Memory) {
    this.#bytes = new Uint8Array(buffer);
    this.#halves = new Uint16Array(buffer);
    this.#words = new Int32Array(buffer);
    this.#longs = new BigInt64Array(buffer);
  }

  /** Carries out an instruction whose operands are in an exchange. Returns why the kernel must stop, if it must. */
  use(surface: BoundTexture, exchange: number, encoded: number, onAccess?: OnAccess): string | undefined {
    let operation = this.#operations.get(encoded);
    if (operation === undefined) this.#operations.set(encoded, operation = decodeSurfaceOperation(encoded));
    const at = exchange / 4;
    const data = at + exchangeWords.data;
    const { use, outside } = operation;
    const isFormatted = use === "storeFormatted" || use === "reduceFormatted";
    const elementBytes = isFormatted ? surface.texelBytes : operation.elementBytes * operation.count;
    const offset = this.#offsetOf(surface, operation, { at, elementBytes, isFormatted });
    if (typeof offset === "string") {
      if (outside === "trap") return offset;
      if (use === "load") this.#words.fill(0, data, data + 8);
      return undefined;
    }
    onAccess?.(offset, {
      bytes: elementBytes,
      operation: use === "load" ? "read" : use.startsWith("store") ? "write" : "atomic",
    });
    if (use === "load") this.#load(offset, operation, data);
    else if (use === "store") this.#store(offset, operation, data);
    else if (use === "storeFormatted") this.#storeFormatted(surface, offset, operation, data);
    else this.#reduce(offset, operation, { data, isSigned: isSignedFor(surface, operation) });
    return undefined;
  }

  /** Returns the offset of an element in linear memory, or what is said of one outside. */
  #offsetOf(
    { levels: [level], object }: BoundTexture,
    { geometry, outside }: SurfaceOperation,
    { at, elementBytes, isFormatted }: { at: number; elementBytes: number; isFormatted: boolean },
  ): number | string {
    const isLayered = geometry.startsWith("a");
    const count = isLayered ? Number(geometry[1]) : Number(geometry[0]);
    const first = at + exchangeWords.coordinates + (isLayered ? 1 : 0);
    const { width, height, depth, rowBytes, sliceBytes, begin } = level!;
    const texelBytes = rowBytes / width;
    const unit = isFormatted ? texelBytes : 1;
    const places = [0, 0, 0];
    const extents = [rowBytes - elementBytes + 1, height, depth];
    for (let dimension = 0; dimension < count; dimension++) {
      const given = this.#words[first + dimension]! * (dimension === 0 ? unit : 1);
      const extent = extents[dimension]!;
      const isInside = given >= 0 && given < extent;
      if (!isInside && outside !== "clamp") return outsideText(given, { dimension, rowBytes, level: level! });
      places[dimension] = isInside ? given : given < 0 ? 0 : extent - 1;
    }
    let slice = places[2]!;
    if (isLayered) {
      const layer = this.#words[at + exchangeWords.coordinates]! & 0xffff;
      const isInside = layer < object.visibleLayers;
      if (!isInside && outside !== "clamp") {
        return `accesses layer ${layer} of a surface, which has ${object.visibleLayers}`;
      }
      slice = isInside ? layer : object.visibleLayers - 1;
    }
    // Elements are aligned to their size.
    const x = places[0]! - places[0]! % Math.min(elementBytes, texelBytes);
    return begin + slice * sliceBytes + places[1]! * rowBytes + x;
  }

  #load(offset: number, { elementBytes, count }: SurfaceOperation, data: number): void {
    for (let index = 0; index < count; index++) {
      const from = offset + index * elementBytes;
      if (elementBytes === 8) {
        this.#words[data + 2 * index] = this.#words[from / 4]!;
        this.#words[data + 2 * index + 1] = this.#words[from / 4 + 1]!;
      } else {
        this.#words[data + index] = elementBytes === 4
          ? this.#words[from / 4]!
          : elementBytes === 2
          ? this.#halves[from / 2]!
          : this.#bytes[from]!;
      }
    }
  }

  #store(offset: number, { elementBytes, count }: SurfaceOperation, data: number): void {
    for (let index = 0; index < count; index++) {
      const to = offset + index * elementBytes;
      if (elementBytes === 8) {
        this.#words[to / 4] = this.#words[data + 2 * index]!;
        this.#words[to / 4 + 1] = this.#words[data + 2 * index + 1]!;
      } else this.#storeChannel(to, elementBytes, this.#words[data + index]!);
    }
  }

  #storeChannel(offset: number, bytes: number, value: number): void {
    if (bytes === 4) this.#words[offset / 4] = value;
    else if (bytes === 2) this.#halves[offset / 2] = value;
    else this.#bytes[offset] = value;
  }

  /** Stores values of 32 bits in the surface's format: integers are limited to those that it has. */
  #storeFormatted(surface: BoundTexture, offset: number, { count }: SurfaceOperation, data: number): void {
    const { format, channelBytes, object } = surface;
    for (let channel = 0; channel < Math.min(count, object.channels); channel++) {
      const value = this.#words[data + channel]!;
      this.#storeChannel(offset + channel * channelBytes, channelBytes, limited(value, format));
    }
  }

  #reduce(
    offset: number,
    { reduction, elementBytes }: SurfaceOperation,
    { data, isSigned }: { data: number; isSigned: boolean },
  ): void {
    if (elementBytes === 8) {
      const low = BigInt.asUintN(32, BigInt(this.#words[data]!));
      const value = BigInt(this.#words[data + 1]!) << 32n | low;
      if (reduction === "add") return void Atomics.add(this.#longs, offset / 8, value);
      const order = (number: bigint) => isSigned ? number : BigInt.asUintN(64, number);
      replace<bigint>(this.#longs, offset / 8, (old) => isFirst(order(value), order(old), reduction) ? value : old);
      return;
    }
    const value = this.#words[data]!;
    if (reduction === "add") return void Atomics.add(this.#words, offset / 4, value);
    if (reduction === "and") return void Atomics.and(this.#words, offset / 4, value);
    if (reduction === "or") return void Atomics.or(this.#words, offset / 4, value);
    const order = (number: number) => isSigned ? number : number >>> 0;
    replace<number>(this.#words, offset / 4, (old) => isFirst(order(value), order(old), reduction) ? value : old);
  }
}

/** Whether a reduction replaces `b` by `a`. */
function isFirst<T extends number | bigint>(a: T, b: T, reduction: SurfaceOperation["reduction"]): boolean {
  return reduction === "min" ? a < b : a > b;
}

/** Replaces an element atomically. */
function replace<T extends number | bigint>(
  elements: T extends number ? Int32Array : BigInt64Array,
  index: number,
  next: (old: T) => T,
): void {
  const array = elements as Int32Array;
  let old = Atomics.load(array, index);
  for (;;) {
    const found = Atomics.compareExchange(array, index, old, next(old as T) as number);
    if (found === old) return;
    old = found;
  }
}

function isSignedFor({ format }: BoundTexture, { use, isSigned }: SurfaceOperation): boolean {
  return use === "reduceFormatted" ? format.startsWith("s") : isSigned;
}

/** Returns the bits of a channel that a formatted store gives it. */
function limited(value: number, format: ChannelFormat): number {
  if (format === "f16") return truncatedHalf(value >>> 0);
  const bits = Number(format.slice(1));
  if (bits === 32) return value;
  if (format.startsWith("u")) return Math.min(value >>> 0, 2 ** bits - 1);
  return Math.max(-(2 ** (bits - 1)), Math.min(value, 2 ** (bits - 1) - 1));
}

function outsideText(
  given: number,
  { dimension, rowBytes, level }: { dimension: number; rowBytes: number; level: { height: number; depth: number } },
): string {
  if (dimension === 0) return `accesses byte ${given} of a row of a surface, which has ${rowBytes} bytes`;
  const [what, extent] = dimension === 1 ? ["row", level.height] : ["slice", level.depth];
  return `accesses ${what} ${given} of a surface, which has ${extent}`;
}
