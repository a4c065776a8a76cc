/**
 * Kernels that copy boxes of tensors, for the tests of tensor maps, and what they have to copy.
 *
 * @module
 */

/** The size of the shared memory of the kernels, in bytes. */
export const sharedBytes = 8192;
/** What the shared memory contains before a copy. */
export const freshByte = 0xcc;

/** A box that a kernel copies. In all arrays, dimension 0 varies fastest. */
export interface BoxCopy {
  readonly elementBytes: number;
  readonly shape: readonly number[];
  /** In bytes, from dimension 1 on. */
  readonly strides: readonly number[];
  readonly box: readonly number[];
  readonly elementStrides?: readonly number[] | undefined;
  /** The width of the swizzle in bytes. */
  readonly swizzle?: number;
  readonly at: readonly number[];
}

/** Bytes in memory, and where in the box and in the tensor they are. */
interface CopiedElement {
  /** The offset in shared memory. */
  readonly shared: number;
  /** The offset in the tensor's memory. Undefined if the element is outside of the tensor. */
  readonly global: number | undefined;
}

/** The elements of a box, in the order of the box. */
export function elementsOf(
  { elementBytes, shape, strides, box, elementStrides = box.map(() => 1), swizzle = 0, at }: BoxCopy,
): CopiedElement[] {
  const counts = box.map((size, index) => index === 0 ? size : Math.ceil(size / elementStrides[index]!));
  const total = counts.reduce((product, count) => product * count, 1);
  const rowBytes = box[0]! * elementBytes;
  return Array.from({ length: total }, (_, number) => {
    let rest = number, isInside = true, global = 0;
    counts.forEach((count, index) => {
      const coordinate = at[index]! + rest % count * (index === 0 ? 1 : elementStrides[index]!);
      rest = Math.floor(rest / count);
      isInside &&= coordinate >= 0 && coordinate < shape[index]!;
      global += coordinate * (index === 0 ? elementBytes : strides[index - 1]!);
    });
    const row = Math.floor(number / box[0]!);
    let shared = row * Math.max(rowBytes, swizzle) + number % box[0]! * elementBytes;
    // The pieces of 16 bytes of a row are exchanged by the bits of their address from 128 on.
    if (swizzle > 0) shared ^= (shared >> 7) % (swizzle / 16) << 4;
    return { shared, global: isInside ? global : undefined };
  });
}

/** The shared memory after a box was loaded. */
export function loadedBox(tensor: Uint8Array, copy: BoxCopy, outside: readonly number[]): Uint8Array {
  const loaded = new Uint8Array(sharedBytes).fill(freshByte);
  const { elementBytes } = copy;
  for (const { shared, global } of elementsOf(copy)) {
    loaded.set(global === undefined ? outside : tensor.subarray(global, global + elementBytes), shared);
  }
  return loaded;
}

/** The memory of a tensor after a box of shared memory was stored in it. */
export function storedBox(tensor: Uint8Array, shared: Uint8Array, copy: BoxCopy): Uint8Array {
  const stored = tensor.slice();
  const { elementBytes } = copy;
  for (const { shared: from, global } of elementsOf(copy)) {
    if (global !== undefined) stored.set(shared.subarray(from, from + elementBytes), global);
  }
  return stored;
}

const dimensions = [1, 2, 3, 4, 5] as const;
const coordinates = (count: number) => Array.from({ length: count }, (_, index) => `%c${index}`).join(", ");

function parameters(count: number): string {
  return Array.from({ length: count }, (_, index) => `.param .u32 c${index}`).join(", ");
}

function loadCoordinates(count: number): string {
  return Array.from({ length: count }, (_, index) => `ld.param.u32 %c${index}, [c${index}];`).join(" ");
}

/** The most times that a kernel tests a barrier, so that a mistake does not let it run forever. */
const mostTests = 100_000;

/** Waits for the first phase of the barrier, and branches to a label if it takes too long. */
function waitFor(barrier: string, label: string): string {
  return `
  mov.u32 %r9, 0;
WAIT_${label}:
  mbarrier.try_wait.parity.shared.b64 %p1, [${barrier}], 0;
  @%p1 bra DONE_${label};
  add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, ${mostTests};
  @%p1 bra WAIT_${label};
  trap;
DONE_${label}:`;
}

const declarations = `
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b32 %c<5>; .reg .b64 %rd<8>; .reg .b16 %h<4>;
  .shared .align 1024 .b8 sm[${sharedBytes}]; .shared .align 8 .b64 bar;
  mov.u32 %r1, sm; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;`;

/** A kernel that loads a box, of which `bytes` bytes are copied, and stores the shared memory to \`out\`. */
function loadKernel(count: number, name: string, { mode = "", extra = "", given = "" } = {}): string {
  return `
.visible .entry ${name}(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 bytes, ${
    parameters(count)
  }${given}) {
  ${declarations}
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [out]; cvta.to.global.u64 %rd2, %rd2;
  ld.param.u32 %r2, [bytes]; ${loadCoordinates(count)} mov.u32 %r3, 0; mov.u32 %r4, 0xcccccccc;
FILL:
  add.u32 %r5, %r1, %r3; st.shared.u32 [%r5], %r4; add.u32 %r3, %r3, 4; setp.lt.u32 %p1, %r3, ${sharedBytes};
  @%p1 bra FILL;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r2;
  ${extra.startsWith("ld.param") ? extra : ""}
  cp.async.bulk.tensor.${count}d.shared::cluster.global${mode}.mbarrier::complete_tx::bytes
    [sm], [%rd1, {${coordinates(count)}}], [bar]${extra.startsWith("ld.param") ? ", {" + offsets(count) + "}" : ""};
  ${waitFor("bar", "load")}
  mov.u32 %r3, 0;
STORE:
  add.u32 %r5, %r1, %r3; ld.shared.u32 %r4, [%r5]; cvt.u64.u32 %rd3, %r3; add.u64 %rd3, %rd2, %rd3;
  st.global.u32 [%rd3], %r4; add.u32 %r3, %r3, 4; setp.lt.u32 %p1, %r3, ${sharedBytes};
  @%p1 bra STORE;
  ret;
}`;
}

function offsets(count: number): string {
  return Array.from({ length: count - 2 }, (_, index) => `%h${index}`).join(", ");
}

/** A kernel that loads a box of pixels, in the mode im2col. */
function loadPixelsKernel(count: number): string {
  const indices = Array.from({ length: count - 2 }, (_, index) => index);
  return loadKernel(count, `pixels${count}`, {
    mode: ".im2col",
    extra: indices.map((index) => `ld.param.u16 %h${index}, [o${index}];`).join(" "),
    given: indices.map((index) => `, .param .u16 o${index}`).join(""),
  });
}

/** A kernel that copies \`in\` to shared memory, and stores or reduces a box of it. */
function storeKernel(count: number, name: string, instruction: string): string {
  return `
.visible .entry ${name}(.param .align 64 .b8 map[128], .param .u64 in, ${parameters(count)}) {
  ${declarations}
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [in]; cvta.to.global.u64 %rd2, %rd2;
  ${loadCoordinates(count)}
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], ${sharedBytes};
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], ${sharedBytes}, [bar];
  ${waitFor("bar", "store")}
  ${instruction} [%rd1, {${coordinates(count)}}], [sm];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
  ret;
}`;
}

/** The operations that `cp.reduce.async.bulk.tensor` has. */
export const reductions = ["add", "min", "max", "inc", "dec", "and", "or", "xor"] as const;

/** A module with the kernels \`load1\` to \`load5\`, \`store1\` to \`store5\`, \`pixels3\` to \`pixels5\` and \`reduce_add\` and so on. */
export const tensorKernels: string = `.version 8.0
.target sm_90
.address_size 64
${dimensions.map((count) => loadKernel(count, `load${count}`)).join("\n")}
${dimensions.slice(2).map(loadPixelsKernel).join("\n")}
${
  dimensions.map((count) =>
    storeKernel(count, `store${count}`, `cp.async.bulk.tensor.${count}d.global.shared::cta.tile.bulk_group`)
  ).join("\n")
}
${
  reductions.map((operation) =>
    storeKernel(2, `reduce_${operation}`, `cp.reduce.async.bulk.tensor.2d.global.shared::cta.${operation}.bulk_group`)
  ).join("\n")
}
`;
