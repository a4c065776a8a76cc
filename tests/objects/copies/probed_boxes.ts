/**
 * Copies of boxes whose effects a GPU shows: how tensors, boxes and fields of tensor maps are taken, for
 * `cases.ts`. All arrays are in CUDA's order, in which dimension 0 varies fastest.
 *
 * @module
 */
import type { CudaDevice, TensorMapOptions, TensorMapType } from "../../../mod.ts";

/** A copy of a box between memory whose 16-bit elements are numbered and shared memory. */
export interface ProbedBox {
  readonly shape: readonly number[];
  readonly strides?: readonly number[];
  readonly box?: readonly number[];
  readonly at: readonly number[];
  readonly elementStrides?: readonly number[];
  readonly interleave?: "16B" | "32B";
  readonly swizzle?: "32B" | "64B" | "128B";
  readonly fill?: "nan";
  readonly dtype?: TensorMapType;
  readonly pixels?: {
    readonly lower: readonly number[];
    readonly upper: readonly number[];
    readonly channels: number;
    readonly count: number;
    readonly offsets: readonly number[];
  };
  /** Fields that the kernel sets in the tensor map before the copy, and their values. */
  readonly replaced?: readonly string[];
  /** Whether the kernel sets the fields in global memory. Default: in shared memory. */
  readonly isInGlobal?: true;
  /** Whether the kernel stores a box. Default: it loads one. */
  readonly isStore?: true;
  /** The operation by which the kernel reduces a box that it would store. Default: none. */
  readonly operation?: string;
}

/** The size in bytes of the shared memory that a probe shows. */
export const shownBytes = 8192;
/** The size in bytes of the tensor's memory. */
const memoryBytes = 1 << 17;
/** The bytes that no copy has written. */
const freshWord = 0xcccc;

/** Copies a box, and returns the 16-bit numbers that the copy has written, in runs of 4. */
export function probe(gpu: CudaDevice, box: ProbedBox): string {
  const { replaced = [], isInGlobal = false, at, pixels, isStore = false, operation } = box;
  const pool = gpu.createPool();
  const memory = pool.allocate(memoryBytes);
  const numbers = Uint16Array.from({ length: memoryBytes / 2 }, (_, index) => isStore ? freshWord : index);
  memory.copyFrom(numbers);
  const out = pool.allocate(shownBytes);
  out.copyFrom(numbers.slice(0, shownBytes / 2));
  const module = gpu.loadModule(
    kernelOf({ dimensions: at.length, offsets: pixels?.offsets.length, replaced, isInGlobal, isStore, operation }),
  );
  module.kernel("test").launch(
    { grid: 1, block: 32 },
    gpu.createTensorMap(memory, optionsOf(box)),
    pool.allocate(128),
    out,
    memory,
    ...at,
    ...pixels?.offsets ?? [],
  );
  const written = isStore ? memory.readSync(Uint16Array) : out.readSync(Uint16Array);
  return runsOf(written).join(" ");
}

/** Returns what an array contains, 4 elements each, with where what follows unwritten elements begins. */
function runsOf(words: Uint16Array): string[] {
  const runs: string[] = [];
  let isGap = true;
  for (let at = 0; at < words.length; at += 4) {
    const [first, ...others] = words.subarray(at, at + 4);
    if ([first, ...others].every((word) => word === freshWord)) {
      isGap = true;
      continue;
    }
    if (isGap) runs.push(`@${at}:`);
    isGap = false;
    const isRun = others.every((word, index) => word === first! + index + 1);
    runs.push(
      others.every((word) => word === first) ? `${first}=` : isRun ? `${first}+` : [first, ...others].join("/"),
    );
  }
  return runs;
}

function optionsOf(
  { shape, strides, box, elementStrides, pixels, dtype, interleave, swizzle, fill }: ProbedBox,
): TensorMapOptions {
  return {
    dtype: dtype ?? "uint16",
    ...interleave === undefined ? {} : { interleave },
    ...swizzle === undefined ? {} : { swizzle },
    ...fill === undefined ? {} : { fill },
    shape: shape.toReversed(),
    ...strides === undefined ? {} : { strides: strides.toReversed() },
    ...elementStrides === undefined ? {} : { elementStrides: elementStrides.toReversed() },
    ...pixels === undefined ? { box: box!.toReversed() } : {
      im2col: {
        lowerCorner: pixels.lower.toReversed(),
        upperCorner: pixels.upper.toReversed(),
        channels: pixels.channels,
        pixels: pixels.count,
      },
    },
  };
}

/** Returns the names of a number of registers or parameters. */
function list(count: number, name: (index: number) => string): string[] {
  return Array.from({ length: count }, (_, index) => name(index));
}

/**
 * A kernel whose first lane copies a box. It does not know how many bytes come, so it waits for a time. With replaced
 * fields, the tensor map is made in shared memory, and copied to \`made\`.
 */
function kernelOf({ dimensions, offsets, replaced, isInGlobal, isStore, operation }: {
  dimensions: number;
  offsets: number | undefined;
  replaced: readonly string[];
  isInGlobal: boolean;
  isStore: boolean;
  operation: string | undefined;
}): string {
  const tensor = `[%rd2, {${list(dimensions, (index) => `%c${index}`).join(", ")}}]`;
  const mode = offsets === undefined ? "" : ".im2col";
  const given = offsets === undefined ? "" : `, {${list(offsets, (index) => `%h${index}`).join(", ")}}`;
  const stored = `${operation === undefined ? "" : `.${operation}`}${offsets === undefined ? "" : ".im2col_no_offs"}`;
  const copy = isStore
    ? `cp.${
      operation === undefined ? "" : "reduce."
    }async.bulk.tensor.${dimensions}d.global.shared::cta${stored}.bulk_group
    ${tensor}, [sm];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`
    : `mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 65536;
  cp.async.bulk.tensor.${dimensions}d.shared::cluster.global${mode}.mbarrier::complete_tx::bytes
    [sm], ${tensor}, [bar]${given};
  mov.u32 %r2, 0;
WAIT:
  nanosleep.u32 1000; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 200;
  @%p1 bra WAIT;
  mov.u32 %r2, 0;
STORE:
  add.u32 %r3, %r1, %r2; ld.volatile.shared.u32 %r4, [%r3]; cvt.u64.u32 %rd4, %r2; add.u64 %rd4, %rd1, %rd4;
  st.global.u32 [%rd4], %r4; add.u32 %r2, %r2, 4; setp.lt.u32 %p1, %r2, ${shownBytes};
  @%p1 bra STORE;`;
  const fields = replaced.map((field) => {
    const [name, ...values] = field.split(" ");
    const type = name === "global_address" || name === "global_stride" ? "b64" : "b32";
    const value = name === "global_address" ? "%rd5" : name === "global_stride" ? "%rd6" : values.at(-1)!;
    const set = name === "global_address"
      ? `ld.param.u64 %rd5, [memory]; add.u64 %rd5, %rd5, ${values[0]};`
      : name === "global_stride"
      ? `mov.u64 %rd6, ${values[1]};`
      : "";
    const index = values.length > 1 ? `${values[0]}, ` : "";
    const place = isInGlobal ? "global.b1024." + type + " [%rd3]" : `shared::cta.b1024.${type} [built]`;
    return `${set} @!%p2 tensormap.replace.tile.${name}.${place}, ${index}${value};`;
  });
  const publish = isInGlobal
    ? "fence.proxy.tensormap::generic.release.gpu;"
    : "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [built], 128;";
  const build = replaced.length === 0 ? "" : `
  shl.b32 %r3, %r0, 2; cvt.u64.u32 %rd4, %r3; add.u64 %rd5, %rd2, %rd4; ld.u32 %r4, [%rd5];
  mov.u32 %r5, built; add.u32 %r5, %r5, %r3; st.shared.u32 [%r5], %r4; add.u64 %rd5, %rd3, %rd4; st.global.u32 [%rd5], %r4;
  bar.warp.sync -1;
  ${fields.join("\n  ")}
  bar.warp.sync -1;
  ${publish}
  mov.u64 %rd2, %rd3; fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;`;
  return `.version 8.6
.target sm_90a
.address_size 64
.visible .entry test(.param .align 64 .b8 map[128], .param .u64 made, .param .u64 out, .param .u64 memory${
    list(dimensions, (index) => `, .param .u32 c${index}`).join("")
  }${list(offsets ?? 0, (index) => `, .param .u16 o${index}`).join("")}) {
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b32 %c<6>; .reg .b64 %rd<8>; .reg .b16 %h<4>;
  .shared .align 1024 .b8 sm[8192]; .shared .align 128 .b8 built[128]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd3, [made]; mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;
  ${list(dimensions, (index) => `ld.param.u32 %c${index}, [c${index}];`).join(" ")}
  ${list(offsets ?? 0, (index) => `ld.param.u16 %h${index}, [o${index}];`).join(" ")}
  mov.u32 %r0, %tid.x; setp.ne.u32 %p2, %r0, 0; mov.u32 %r1, sm; mov.u32 %r2, 0;${build}
  @%p2 bra DONE;
FILL:
  add.u32 %r3, %r1, %r2; ${
    isStore
      ? "shr.u32 %r4, %r2, 1; add.u32 %r5, %r4, 1; shl.b32 %r5, %r5, 16; or.b32 %r4, %r4, %r5;"
      : "mov.u32 %r4, 0xcccccccc;"
  }
  st.shared.u32 [%r3], %r4; add.u32 %r2, %r2, 4; setp.lt.u32 %p1, %r2, 8192;
  @%p1 bra FILL;
  fence.proxy.async;
  ${copy}
DONE:
  ret;
}`;
}
