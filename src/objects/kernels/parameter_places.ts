import type { Driver } from "../../driver.ts";
import type { KernelSignature } from "../../ptx/kernel_signature.ts";

/**
 * Returns the signature with the offsets at which the driver reads the parameters of a launch.
 *
 * These are the offsets that the PTX implies, unless a parameter has an alignment over 16 bytes, such as a tensor map.
 * Its address in the constant bank has that alignment then, and the parameters begin at an address of the bank that is
 * only a multiple of 16 bytes: in code for compute capability 9.0, a tensor map that comes first is at offset 48.
 */
export function placedSignature(signature: KernelSignature, kernel: bigint, driver: Driver): KernelSignature {
  const { parameters } = signature;
  if (parameters.every(({ alignment }) => alignment <= 16)) return signature;
  const places = driver.funcGetParamInfo(kernel);
  if (places?.length !== parameters.length) return signature;
  const placed = parameters.map((parameter, index) => ({ ...parameter, offset: places[index]!.offset }));
  const last = placed.at(-1)!;
  return { ...signature, parameters: placed, parameterBytes: last.offset + last.byteLength };
}
