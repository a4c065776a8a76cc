/**
 * Kernels that read textures: one read for each thread.
 *
 * @module
 */

/** A kernel that reads a texture. */
export interface ReadKernel {
  readonly name: string;
  readonly geometry: string;
  /** Modifiers between `tex` and the geometry, such as `.level`. */
  readonly modifier?: string;
  readonly result?: "u32" | "s32" | "f32";
  readonly coordinates?: "f32" | "s32";
  readonly offsets?: readonly number[];
  /** The channel of a gather: the instruction is then `tld4`. */
  readonly gather?: "r" | "g" | "b" | "a";
}

const counts: Readonly<Record<string, number>> = { "1d": 1, "2d": 2, "3d": 3, a1d: 2, a2d: 3, cube: 3, acube: 4 };

/**
 * Returns a module of kernels with the parameters (results, texture, operands, count). Each thread has 12 words of
 * operands: four coordinates of which the first may be a layer, the level, and six gradients. It writes four words.
 */
export function readPtx(kernels: readonly ReadKernel[]): string {
  return `.version 8.0
.target sm_70
.address_size 64
${kernels.map(kernelText).join("")}`;
}

function kernelText(
  { name, geometry, modifier = "", result = "f32", coordinates = "f32", offsets, gather }: ReadKernel,
) {
  const count = counts[geometry]!;
  const isLayered = geometry.startsWith("a");
  const register = coordinates === "f32" ? "%f" : "%r";
  const parts = Array.from(
    { length: count },
    (_, index) => isLayered && index === 0 ? "%r10" : `${register}${10 + index}`,
  );
  if (count === 3) parts.push(parts[2]!);
  const place = `[%rd2, {${parts.join(", ")}}]`;
  const results = result === "f32" ? "{%f1, %f2, %f3, %f4}" : "{%r1, %r2, %r3, %r4}";
  const level = coordinates === "f32" ? "%f14" : "%r14";
  const cube = geometry.endsWith("cube") || geometry === "3d";
  const gradient = (first: number, length: number) =>
    `{${Array.from({ length }, (_, index) => `%f${15 + first + Math.min(index, 2)}`).join(", ")}}`;
  const width = cube ? 4 : count - (isLayered ? 1 : 0);
  const extra = modifier === ".level"
    ? `, ${level}`
    : modifier === ".grad"
    ? `, ${gradient(0, width)}, ${gradient(3, width)}`
    : "";
  const offset = offsets === undefined ? "" : `, {${[...offsets, ...offsets.length === 3 ? [0] : []].join(", ")}}`;
  const read = gather === undefined
    ? `tex${modifier}.${geometry}.v4.${result}.${coordinates} ${results}, ${place}${extra}${offset};`
    : `tld4.${gather}.${geometry}.v4.${result}.f32 ${results}, ${place}${offset};`;
  return `
.visible .entry ${name}(.param .u64 results, .param .u64 texture, .param .u64 operands, .param .u32 count)
{
  .reg .pred %p<2>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %rd<12>;
  mov.u32 %r20, %ctaid.x; mov.u32 %r21, %ntid.x; mov.u32 %r22, %tid.x; mad.lo.s32 %r23, %r20, %r21, %r22;
  ld.param.u32 %r24, [count]; setp.ge.u32 %p1, %r23, %r24; @%p1 ret;
  ld.param.u64 %rd1, [results]; ld.param.u64 %rd2, [texture]; ld.param.u64 %rd3, [operands];
  mul.wide.u32 %rd4, %r23, 48; add.s64 %rd5, %rd3, %rd4;
  ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd5];
  ld.global.u32 %r14, [%rd5+16];
  ${[10, 11, 12, 13, 14].map((index) => `mov.b32 %f${index}, %r${index};`).join(" ")}
  ${[15, 16, 17, 18, 19, 20].map((index, at) => `ld.global.f32 %f${index}, [%rd5+${20 + 4 * at}];`).join(" ")}
  ${read}
  ${result === "f32" ? [1, 2, 3, 4].map((index) => `mov.b32 %r${index}, %f${index};`).join(" ") : ""}
  mul.wide.u32 %rd6, %r23, 16; add.s64 %rd7, %rd1, %rd6;
  st.global.v4.u32 [%rd7], {%r1, %r2, %r3, %r4};
  ret;
}
`;
}
