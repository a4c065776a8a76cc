/**
 * Describes the arguments of a launch in the message of a fault.
 *
 * @module
 */
import type { KernelParameter } from "../../../ptx/kernel_signature.ts";
import { addressBase, faultKind } from "../../abi/addresses.ts";
import type { MemoryNames } from "../../memory/named_memory.ts";

/** The maximum number of arguments in a message. */
const maximumListed = 8;

/** The kinds of faults that an argument most often causes. */
const kindsOfArguments: readonly number[] = [
  faultKind.illegalAddress,
  faultKind.misalignedAddress,
  faultKind.stepLimit,
];

/**
 * The arguments of a launch as they follow the fault, such as "; the kernel was launched with (4096, 2.5,
 * 0x7a0000001000 with 4096 bytes from there)". Empty for faults that have to do with other things.
 */
export function describeArguments(
  kind: number,
  parameters: readonly KernelParameter[],
  packed: Uint8Array,
  memoryNames: MemoryNames | undefined,
): string {
  if (parameters.length === 0 || !kindsOfArguments.includes(kind)) return "";
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const listed = parameters.slice(0, maximumListed).map((parameter) => describe(parameter, view, memoryNames));
  if (parameters.length > maximumListed) listed.push("...");
  const isStruct = parameters.some(({ type }) => typeof type === "object");
  const advice = kind === faultKind.stepLimit && isStruct
    ? "; a typed array gives all fields of a struct one type, and struct({ ... }) gives each its own"
    : "";
  return `; the kernel was launched with (${listed.join(", ")})${advice}`;
}

function describe(
  { type, offset, byteLength }: KernelParameter,
  view: DataView,
  names: MemoryNames | undefined,
): string {
  if (typeof type === "object") return `${byteLength} bytes`;
  switch (type) {
    case "f64":
      return String(view.getFloat64(offset, true));
    case "f32":
      return String(Number(view.getFloat32(offset, true).toPrecision(7)));
    case "f16":
      return String(Number(view.getFloat16(offset, true).toPrecision(3)));
  }
  const bits = byteLength * 8;
  const word = bits === 64 ? view.getBigUint64(offset, true) : BigInt(
    bits === 32 ? view.getUint32(offset, true) : bits === 16 ? view.getUint16(offset, true) : view.getUint8(offset),
  );
  if (bits === 64 && word >> 32n === addressBase >> 32n) {
    const bytes = names?.bytesFrom(Number(BigInt.asUintN(32, word)));
    return `0x${word.toString(16)}${
      bytes === undefined ? "" : ` with ${bytes} ${bytes === 1 ? "byte" : "bytes"} from there`
    }`;
  }
  // Compilers declare signed and unsigned integers with the same type.
  const signed = BigInt.asIntN(bits, word);
  if (type.startsWith("s")) return String(signed);
  return signed < 0n ? `${word} or ${signed}` : String(word);
}
