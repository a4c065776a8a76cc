/**
 * Detects features of the WebAssembly engine that the standard leaves open.
 *
 * @module
 */
import { CodeWriter } from "./code_writer.ts";
import { encodeModule, type FunctionDefinition } from "./module_encoder.ts";
import type { ValueType } from "./opcodes.ts";

/**
 * Emits a fused multiply-add of three numbers, each pushed by a function in `operands`. May be used only if
 * {@linkcode hasFusedMultiplyAdd} returns true.
 */
export function writeFusedMultiplyAdd(code: CodeWriter, type: "f32" | "f64", operands: readonly (() => void)[]): void {
  for (const push of operands) {
    push();
    code.simd(type === "f32" ? "f32x4Splat" : "f64x2Splat");
  }
  if (type === "f32") code.simd("f32x4RelaxedMadd").simdLane("f32x4ExtractLane", 0);
  else code.simd("f64x2RelaxedMadd").simdLane("f64x2ExtractLane", 0);
}

let fused: boolean | undefined;

/**
 * Whether the engine's relaxed multiply-add rounds only once. The standard also allows an engine to round the product,
 * or not to implement the instruction. An engine always behaves in the same way, so one test is sufficient.
 */
export function hasFusedMultiplyAdd(): boolean {
  return fused ??= probe();
}

/** Tests the engine's multiply-add with a small WebAssembly module. */
function probe(): boolean {
  const binary = encodeModule({
    memory: { module: "probe", name: "memory", pages: 1 },
    globals: [],
    imports: [],
    functions: [probeFunction("f32"), probeFunction("f64")],
  });
  if (!WebAssembly.validate(binary)) return false;
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(binary), { probe: { memory } });
  const { f32, f64 } = exports as Record<"f32" | "f64", (a: number, b: number, c: number) => number>;
  // The last bit of the product is lost if the product is rounded.
  return f32(1 + 2 ** -12, 1 + 2 ** -12, -(1 + 2 ** -11)) === 2 ** -24 &&
    f64(1 + 2 ** -30, 1 + 2 ** -30, -(1 + 2 ** -29)) === 2 ** -60;
}

function probeFunction(type: "f32" | "f64"): FunctionDefinition {
  const code = new CodeWriter();
  writeFusedMultiplyAdd(code, type, [0, 1, 2].map((parameter) => () => code.get(parameter)));
  const parameters: ValueType[] = [type, type, type];
  return { type: { parameters, results: [type] }, locals: [], code: code.finish(), exportName: type };
}

let relaxed: boolean | undefined;

/**
 * Whether the engine has relaxed conversions from f32 to i32 and relaxed selections of bytes, which are faster. For
 * operands in range, they give the same results.
 */
export function hasRelaxedVectors(): boolean {
  const code = new CodeWriter();
  code.f32(0).simd("f32x4Splat", "i32x4RelaxedTruncF32x4S");
  code.i32(0).simd("i32x4Splat", "i8x16RelaxedSwizzle").ops("drop");
  return relaxed ??= WebAssembly.validate(encodeModule({
    memory: { module: "probe", name: "memory", pages: 1 },
    globals: [],
    imports: [],
    functions: [{ type: { parameters: [], results: [] }, locals: [], code: code.finish() }],
  }));
}
