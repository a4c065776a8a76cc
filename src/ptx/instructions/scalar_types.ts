/** The types of a virtual machine that hold those of PTX. */
export type HoldingType = "i32" | "i64" | "f32" | "f64";

/** A PTX type, and the type that holds it. */
export interface ScalarType {
  readonly name: string;
  /** 1 for a predicate. */
  readonly bits: number;
  readonly kind: "bits" | "unsigned" | "signed" | "float" | "predicate";
  /**
   * The type that holds it. Values of less than 32 bits are held in an i32. A register of 8 or 16 bits has zeros above
   * its bits, and a 16-bit float is held as its bits.
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

/** Rounds the bits of a 64-bit float to those of a 32-bit float. */
export function singleBits(doubleBits: bigint): bigint {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, doubleBits);
  view.setFloat32(0, view.getFloat64(0));
  return BigInt(view.getUint32(0));
}

/** The type with that name, which must exist. */
export function typeNamed(name: string): ScalarType {
  return scalarTypes.get(name)!;
}
