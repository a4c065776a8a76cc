/** The WebAssembly value types that represent PTX types. */
export type HoldingType = "i32" | "i64" | "f32" | "f64";

/** A PTX type, and its representation in WebAssembly. */
export interface ScalarType {
  readonly name: string;
  /** The size in bits. 1 for a predicate. */
  readonly bits: number;
  readonly kind: "bits" | "unsigned" | "signed" | "float" | "predicate";
  /**
   * The WebAssembly type that holds the value. Values of less than 32 bits are in an i32: an 8-bit or 16-bit register
   * is zero-extended, and a 16-bit float is represented by its bits.
   */
  readonly value: HoldingType;
}

function scalarType(name: string, kind: ScalarType["kind"], bits: number): ScalarType {
  if (kind === "float" && bits === 64) return { name, kind, bits, value: "f64" };
  if (kind === "float" && name === "f32") return { name, kind, bits, value: "f32" };
  return { name, kind, bits, value: bits === 64 ? "i64" : "i32" };
}

/** Every type of registers and instructions, except 128-bit types, which are pairs of 64 bits. */
export const scalarTypes: ReadonlyMap<string, ScalarType> = new Map(
  [
    scalarType("pred", "predicate", 1),
    ...[8, 16, 32, 64].flatMap((bits) => [
      scalarType(`b${bits}`, "bits", bits),
      scalarType(`u${bits}`, "unsigned", bits),
      scalarType(`s${bits}`, "signed", bits),
    ]),
    scalarType("f16", "float", 16),
    scalarType("bf16", "float", 16),
    scalarType("f16x2", "float", 32),
    scalarType("bf16x2", "float", 32),
    scalarType("f32", "float", 32),
    scalarType("f64", "float", 64),
  ].map((type) => [type.name, type]),
);

/** Converts the bits of a 64-bit float to the bits of the nearest 32-bit float. */
export function singleBits(doubleBits: bigint): bigint {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, doubleBits);
  view.setFloat32(0, view.getFloat64(0));
  return BigInt(view.getUint32(0));
}

/** Returns the type with the given name, which must exist. */
export function typeNamed(name: string): ScalarType {
  return scalarTypes.get(name)!;
}
