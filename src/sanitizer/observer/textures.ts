/**
 * Observes CUDA arrays, textures and surfaces. An array has no address: it gets a range of numbers that no memory has,
 * so that copies and launches that use it are compared like those that use other memory.
 *
 * @module
 */
import type { ArrayPlace, Driver, KernelLaunch, PitchedMemory, TextureResource } from "../../driver.ts";
import type { RangeAccess } from "../order/stream_order.ts";
import { accessesOfRows, range, rangesOf } from "./device_memory.ts";
import type { ObservedWork } from "./observed_events.ts";
import type { ObservedHostMemory } from "./host_memory.ts";

/** The first number of arrays. Addresses have at most 48 bits. */
const firstNumber = 2 ** 50;

/** The numbers that stand for an array, or for a level of one. */
interface ArrayRange {
  readonly begin: number;
  readonly byteLength: number;
  readonly rowBytes: number;
  readonly rows: number;
}

/** The size in bytes of a row, and the number of rows and slices, as copies of an array tell it. */
interface CopySize {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
}

/** Observes the calls about arrays, textures and surfaces. */
export class ObservedTextures {
  readonly #work: ObservedWork;
  readonly #hostMemory: ObservedHostMemory;
  readonly #arrays = new Map<bigint, ArrayRange>();
  /** What the kernels access that get a texture or a surface, by its handle. */
  readonly #accesses = new Map<bigint, readonly RangeAccess[]>();
  #next = firstNumber;

  constructor(work: ObservedWork, hostMemory: ObservedHostMemory) {
    this.#work = work;
    this.#hostMemory = hostMemory;
  }

  /**
   * Returns the accesses of a launch by its textures and surfaces.
   *
   * @param onlyReads whether the kernel writes no surface
   */
  accessesOf({ textures = [] }: KernelLaunch, { onlyReads }: { readonly onlyReads: boolean }): RangeAccess[] {
    const accesses = textures.flatMap((handle) => this.#accesses.get(handle) ?? []);
    return onlyReads ? accesses.map((each) => ({ ...each, access: "read" })) : accesses;
  }

  /** Returns the accesses to one end of a copy of an array. */
  accessesOfEnd(access: "read" | "write", end: PitchedMemory | ArrayPlace, size: CopySize): RangeAccess[] {
    if (!("array" in end)) return accessesOfRows(this.#hostMemory, access, end, size);
    const array = this.#arrays.get(end.array);
    if (array === undefined) return [];
    const { begin, rowBytes: pitch, rows } = array;
    const offset = (end.z * rows + end.y) * pitch + end.x;
    return rangesOf(access, { memory: BigInt(begin + offset), pitch, rows }, size);
  }

  /** Returns wrappers of the driver's calls that observe and forward each call. */
  calls(driver: Driver): Partial<Driver> {
    return {
      arrayCreate: (device, descriptor) => {
        const array = driver.arrayCreate(device, descriptor);
        this.#allocate(array, descriptor);
        return array;
      },
      arrayDestroy: (device, array) => {
        driver.arrayDestroy(device, array);
        this.#free(array);
      },
      mipmappedArrayCreate: (device, descriptor, levels) => {
        const array = driver.mipmappedArrayCreate(device, descriptor, levels);
        this.#allocate(array, descriptor, 2);
        return array;
      },
      mipmappedArrayGetLevel: (device, mipmappedArray, index) => {
        const level = driver.mipmappedArrayGetLevel(device, mipmappedArray, index);
        const all = this.#arrays.get(mipmappedArray);
        if (all !== undefined) {
          const rowBytes = Math.max(1, Math.floor(all.rowBytes / 2 ** index));
          const rows = Math.max(1, Math.floor(all.rows / 2 ** index));
          // The levels lie behind each other: each is at most half as large as the one before.
          const skipped = index === 0 ? 0 : all.byteLength * (1 - 2 ** -index);
          const begin = all.begin + Math.floor(skipped);
          this.#arrays.set(level, { begin, byteLength: all.byteLength / 2 ** (index + 1), rowBytes, rows });
        }
        return level;
      },
      mipmappedArrayDestroy: (device, mipmappedArray) => {
        driver.mipmappedArrayDestroy(device, mipmappedArray);
        this.#free(mipmappedArray);
      },
      texObjectCreate: (device, resource, description, view) => {
        const texture = driver.texObjectCreate(device, resource, description, view);
        this.#accesses.set(texture, this.#readBy(resource));
        return texture;
      },
      texObjectDestroy: (device, texture) => {
        driver.texObjectDestroy(device, texture);
        this.#accesses.delete(texture);
      },
      surfObjectCreate: (device, array) => {
        const surface = driver.surfObjectCreate(device, array);
        this.#accesses.set(surface, this.#whole(array, "write"));
        return surface;
      },
      surfObjectDestroy: (device, surface) => {
        driver.surfObjectDestroy(device, surface);
        this.#accesses.delete(surface);
      },
    };
  }

  #allocate(
    array: bigint,
    { width, height, depth, format, channels }: Parameters<Driver["arrayCreate"]>[1],
    factor = 1,
  ): void {
    // Formats below 0x10 have their size in the lowest bits, as floats have; those that are normalized begin at 0xc0.
    const isByte = [0x01, 0x08, 0xc0, 0xc6].includes(format), isWord = [0x03, 0x0a, 0x20].includes(format);
    const rowBytes = width * channels * (isByte ? 1 : isWord ? 4 : 2);
    const rows = Math.max(1, height);
    const byteLength = factor * rowBytes * rows * Math.max(1, depth);
    const begin = this.#next;
    this.#next += Math.ceil(byteLength / 4096) * 4096 + 4096;
    this.#arrays.set(array, { begin, byteLength, rowBytes, rows });
    this.#work.allocated(this.#work.nextOfHost("allocate"), { address: begin, byteLength });
  }

  #free(array: bigint): void {
    const found = this.#arrays.get(array);
    if (found === undefined) return;
    this.#arrays.delete(array);
    this.#work.freed(this.#work.nextOfHost("free"), found.begin);
  }

  #whole(array: bigint, access: "read" | "write"): RangeAccess[] {
    const found = this.#arrays.get(array);
    return found === undefined ? [] : [range(access, BigInt(found.begin), Math.floor(found.byteLength))];
  }

  #readBy(resource: TextureResource): RangeAccess[] {
    if ("array" in resource) return this.#whole(resource.array, "read");
    if ("mipmappedArray" in resource) return this.#whole(resource.mipmappedArray, "read");
    const { address, extent, channels } = resource;
    if (typeof extent === "number") return [range("read", address, extent)];
    const { width, height, pitch } = extent;
    const isByte = [0x01, 0x08].includes(resource.format), isWord = [0x03, 0x0a, 0x20].includes(resource.format);
    const rowBytes = width * channels * (isByte ? 1 : isWord ? 4 : 2);
    return rangesOf("read", { memory: address, pitch, rows: height }, { width: rowBytes, height, depth: 1 });
  }
}
