/**
 * Operands of 16-bit elements that a batch has loaded from shared memory: they are converted from there, without the
 * fragments of the lanes.
 *
 * @module
 */
import { ElementReader, narrowExponents, zeroExponent } from "./formats.ts";
import { type FloatFragments, type OperandFlags, pushFlags } from "./fragments.ts";
import { loadRows, transpose } from "./matrix_loads.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";

/** An operand whose registers a load sets. */
export interface LoadedOperand extends Pick<FloatFragments, "operand" | "count" | "depth"> {
  readonly format: "f16" | "bf16";
  /** Whether the load transposes the matrices. */
  readonly isTransposed: boolean;
}

/** The layouts of the formats: `special` are the bits of an infinity. */
const layouts = {
  f16: { mantissaBits: 10, bias: 15, special: 0x7c00 },
  bf16: { mantissaBits: 7, bias: 127, special: 0x7f80 },
} as const;

/**
 * Returns a function that converts an operand, as `floatReader` does. Its parameters are the workspace, the offset in a
 * lane's memory for fragments of the row that it names, four times the number of the lane that names the first row, and
 * the offset of the operand in linear memory; it returns the operand's flags.
 */
export function loadedReader(functions: KernelFunctions, operand: LoadedOperand): number {
  return functions.indexOf(`read loaded ${JSON.stringify(operand)}`, () => writeLoadedReader(operand));
}

function writeLoadedReader({ operand, format, count, depth, isTransposed }: LoadedOperand): FunctionDefinition {
  const [space, row, firstLane, target] = [0, 1, 2, 3] as const;
  const f = new FunctionWriter(["i32", "i32", "i32", "i32"], ["i32"]);
  const { code } = f;
  const lanes = f.local(), values = f.local(), exponents = f.local(), place = f.local();
  const rows = Array.from({ length: 8 }, () => f.local("v128"));
  const elements = new HalfwordReader(f, format);
  const blocks = count / 8;
  code.get(space).get(firstLane).ops("i32Add").set(lanes);
  f.loop(count * depth / 64, (index) => {
    loadRows(f, rows, { lanes, row, distance: 0 });
    // The elements of B that are adjacent along N follow each other.
    if (isTransposed === (operand === "a")) transpose(f, rows);
    if (operand === "a") {
      code.get(index).i32(blocks - 1).ops("i32And").i32(8 * depth).ops("i32Mul");
      code.get(index).i32(Math.log2(blocks)).ops("i32ShrU").i32(8).ops("i32Mul", "i32Add").set(place);
    } else {
      code.get(index).i32(64).ops("i32Mul").set(place);
    }
    code.get(target).get(place).i32(2).ops("i32Shl", "i32Add").set(values);
    code.get(target).get(place).i32(1).ops("i32Shl", "i32Add").i32(4 * count * depth).ops("i32Add").set(exponents);
    const pitch = operand === "a" ? depth : 8;
    rows.forEach((vector, index) => {
      for (const half of [0, 1] as const) {
        code.get(values);
        elements.pushValues(vector, half);
        code.v128Store(4 * pitch * index + 16 * half);
      }
      code.get(exponents);
      elements.pushExponents(vector);
      code.v128Store(2 * pitch * index);
    });
    code.get(lanes).i32(32).ops("i32Add").set(lanes);
  });
  pushFlags(f, elements, { target, size: count * depth });
  return f.finish();
}

/** Writes the conversion of eight 16-bit elements at once. */
class HalfwordReader implements OperandFlags {
  readonly #f: FunctionWriter;
  readonly #format: "f16" | "bf16";
  readonly #reader: ElementReader;
  readonly #magnitude: number;
  readonly #isZero: number;
  /** The largest magnitude so far, and the smallest other than 0. */
  readonly #largest: number;
  readonly #smallest: number;

  constructor(f: FunctionWriter, format: "f16" | "bf16") {
    this.#f = f;
    this.#format = format;
    this.#reader = new ElementReader(f, format);
    this.#magnitude = f.local("v128");
    this.#isZero = f.local("v128");
    this.#largest = f.local("v128");
    this.#smallest = f.constant(-1);
  }

  /** Writes code that pushes the values of four elements. */
  pushValues(vector: number, half: 0 | 1): void {
    const { code } = this.#f;
    code.i32x4([0, 0, 0, 0]).get(vector).i8x16Shuffle(upperHalves(half));
    if (this.#format === "f16") this.#reader.convertUpper();
  }

  /** Writes code that pushes the exponents of the elements. */
  pushExponents(vector: number): void {
    const { code } = this.#f;
    const { mantissaBits, bias } = layouts[this.#format];
    const magnitude = this.#magnitude, isZero = this.#isZero;
    code.get(vector);
    this.#push(0x7fff);
    code.simd("v128And").tee(magnitude).get(this.#largest).simd("i16x8MaxS").set(this.#largest);
    code.get(magnitude);
    this.#push(0);
    code.simd("i16x8Eq").set(isZero);
    if (this.#format === "bf16") {
      code.get(magnitude).get(isZero).simd("v128Or").get(this.#smallest).simd("i16x8MinU").set(this.#smallest);
    }
    this.#push(zeroExponent);
    code.get(magnitude).i32(mantissaBits).simd("i16x8ShrU");
    this.#push(1);
    code.simd("i16x8MaxS");
    this.#push(bias);
    code.simd("i16x8Sub").get(isZero).simd("v128Bitselect");
  }

  pushIsSpecial(): void {
    this.#f.code.get(this.#largest);
    this.#push(layouts[this.#format].special);
    this.#f.code.simd("i16x8GeS", "v128AnyTrue");
  }

  pushIsWide(): void {
    const { code } = this.#f;
    if (this.#format === "f16") {
      code.i32(0);
      return;
    }
    const { mantissaBits, bias } = layouts.bf16;
    code.get(this.#largest);
    this.#push((bias + narrowExponents.most + 1) << mantissaBits);
    code.simd("i16x8GeS").get(this.#smallest);
    this.#push((bias + narrowExponents.least) << mantissaBits);
    code.simd("i16x8LtU", "v128Or", "v128AnyTrue");
  }

  restoreSpecial(): void {
    this.#reader.restoreSpecial();
  }

  #push(number: number): void {
    this.#f.code.i32(number).simd("i16x8Splat");
  }
}

/** The bytes of a shuffle that moves the elements of a half of the second vector to the upper halves of words. */
function upperHalves(half: 0 | 1): number[] {
  return [0, 1, 2, 3].flatMap((word) => {
    const byte = 8 * half + 2 * word;
    return [byte, byte + 1, 16 + byte, 17 + byte];
  });
}
