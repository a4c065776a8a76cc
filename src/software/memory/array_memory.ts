/**
 * CUDA arrays on the software device: texels in linear memory, in rows without gaps. Kernels reach them by textures and
 * surfaces only, because no bounds table contains them.
 *
 * @module
 */
import { type ArrayDescriptor, arrayFlag, arrayFormat } from "../../driver.ts";
import type { LinearMemory } from "./linear_memory.ts";
import { wholePages } from "./memory_layout.ts";

/** A level of an array. */
export interface ArrayLevel {
  /** The offset in linear memory. */
  readonly begin: number;
  /** The size of a row in bytes. */
  readonly rowBytes: number;
  readonly rows: number;
  /** The number of slices, or of layers. */
  readonly slices: number;
}

/** The size in bytes of a channel of each format. */
const channelBytes: ReadonlyMap<number, number> = new Map([
  [arrayFormat.u8, 1],
  [arrayFormat.s8, 1],
  [arrayFormat.unorm8, 1],
  [arrayFormat.snorm8, 1],
  [arrayFormat.u16, 2],
  [arrayFormat.s16, 2],
  [arrayFormat.f16, 2],
  [arrayFormat.unorm16, 2],
  [arrayFormat.snorm16, 2],
  [arrayFormat.u32, 4],
  [arrayFormat.s32, 4],
  [arrayFormat.f32, 4],
]);

/** Returns the size of a texel in bytes. Undefined for a format that does not exist. */
export function texelBytesOf({ format, channels }: Pick<ArrayDescriptor, "format" | "channels">): number | undefined {
  const bytes = channelBytes.get(format);
  return bytes === undefined ? undefined : bytes * channels;
}

/** Whether the depth of an array counts layers: those of layered arrays, and the faces of cubemaps. */
export function hasLayers({ flags }: Pick<ArrayDescriptor, "flags">): boolean {
  return (flags & (arrayFlag.layered | arrayFlag.cubemap)) !== 0;
}

/** The memory of an array, with all of its levels. */
export class ArrayMemory {
  readonly device: number;
  readonly descriptor: ArrayDescriptor;
  readonly levels: readonly ArrayLevel[];
  readonly begin: number;
  readonly byteLength: number;
  readonly #linearMemory: LinearMemory;

  private constructor(
    linearMemory: LinearMemory,
    { device, descriptor, begin, levels }: Pick<ArrayMemory, "device" | "descriptor" | "begin"> & {
      levels: readonly ArrayLevel[];
    },
  ) {
    this.#linearMemory = linearMemory;
    this.device = device;
    this.descriptor = descriptor;
    this.begin = begin;
    this.byteLength = byteLengthOf(levels);
    this.levels = levels.map((level) => ({ ...level, begin: begin + level.begin }));
  }

  /** Allocates an array. Returns undefined if linear memory is full. */
  static allocate(
    linearMemory: LinearMemory,
    { device, descriptor, levels: count }: { device: number; descriptor: ArrayDescriptor; levels: number },
  ): ArrayMemory | undefined {
    const levels = levelsOf(descriptor, count);
    const begin = linearMemory.reserve(wholePages(byteLengthOf(levels)));
    if (begin === undefined) return undefined;
    return new ArrayMemory(linearMemory, { device, descriptor, begin, levels });
  }

  release(): void {
    this.#linearMemory.discardAndRelease(this.begin, wholePages(this.byteLength), { isShared: false });
  }
}

function byteLengthOf(levels: readonly ArrayLevel[]): number {
  return levels.reduce((sum, { rowBytes, rows, slices }) => sum + rowBytes * rows * slices, 0);
}

/** Returns the levels of an array, from its first byte on. */
function levelsOf(descriptor: ArrayDescriptor, count: number): ArrayLevel[] {
  const { width, height, depth } = descriptor;
  const texelBytes = texelBytesOf(descriptor)!;
  const levels: ArrayLevel[] = [];
  let begin = 0;
  for (let level = 0; level < count; level++) {
    const sizeOf = (extent: number) => Math.max(1, Math.floor(extent / 2 ** level));
    const slices = hasLayers(descriptor) ? depth : sizeOf(depth);
    const found = { begin, rowBytes: sizeOf(width) * texelBytes, rows: sizeOf(height), slices };
    levels.push(found);
    begin += found.rowBytes * found.rows * found.slices;
  }
  return levels;
}
