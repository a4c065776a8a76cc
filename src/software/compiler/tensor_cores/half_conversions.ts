/**
 * Conversions between f16, as the low bits of an i32, and f32.
 *
 * @module
 */
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";

/** Returns a function that converts an f16 to an f32. The bits of a NaN are unspecified. */
export function fromHalf(functions: KernelFunctions): number {
  return functions.indexOf("from half", () => {
    const f = new FunctionWriter(["i32"], ["f32"]);
    const { code } = f;
    const magnitude = f.local(), value = f.local("f32");
    code.get(0).i32(0x7fff).ops("i32And").set(magnitude);
    code.get(magnitude).i32(0x400).ops("i32LtU").if("f32");
    code.get(magnitude).ops("f32ConvertI32U").f32(2 ** -24).ops("f32Mul").else();
    code.get(magnitude).i32(13).ops("i32Shl");
    code.i32(224 << 23).i32(112 << 23).get(magnitude).i32(0x7bff).ops(
      "i32GtU",
      "select",
      "i32Add",
      "f32ReinterpretI32",
    );
    code.end().set(value);
    code.get(value).ops("f32Neg").get(value).get(0).i32(0x8000).ops("i32And", "select");
    return f.finish();
  });
}

/** Returns a function that converts an f32 to an f16, to nearest even. A NaN becomes 0x7fff. */
export function toHalf(functions: KernelFunctions): number {
  return functions.indexOf("to half", () => {
    const f = new FunctionWriter(["f32"], ["i32"]);
    const { code } = f;
    const magnitude = f.local("f64"), unit = f.local("f64"), rounded = f.local("f32"), bits = f.local();
    code.get(0).get(0).ops("f32Ne").if().i32(0x7fff).ops("return").end();
    code.get(0).ops("f32Abs", "f64PromoteF32").set(magnitude);
    // Adding a number of which the last bit is the last bit of the result rounds.
    code.get(magnitude).ops("i64ReinterpretF64").i64(0x7ff0_0000_0000_0000n).ops("i64And", "f64ReinterpretI64");
    code.f64(2 ** -14).ops("f64Max").f64(1.5 * 2 ** 42).ops("f64Mul").set(unit);
    code.get(magnitude).f64(65536).ops("f64Min").get(unit).ops("f64Add").get(unit).ops("f64Sub", "f32DemoteF64").set(
      rounded,
    );
    code.get(magnitude).f64(65520).ops("f64Ge").if("i32").i32(0x7c00).else();
    code.get(rounded).f32(2 ** -14).ops("f32Lt").if("i32");
    code.get(rounded).f32(2 ** 24).ops("f32Mul", "i32TruncSatF32S").else();
    code.get(rounded).ops("i32ReinterpretF32").i32(13).ops("i32ShrU").i32(112 << 10).ops("i32Sub").end().end().set(
      bits,
    );
    code.get(0).ops("i32ReinterpretF32").i32(16).ops("i32ShrU").i32(0x8000).ops("i32And").get(bits).ops("i32Or");
    return f.finish();
  });
}
