/**
 * Which instructions access memory, and how.
 *
 * @module
 */
import { bitsOf, type Place, type Step } from "./kernel_code.ts";

/** An access of an instruction. */
export interface StepAccess {
  readonly access: "read" | "write" | "atomic";
  readonly address: Place & { kind: "address" };
  readonly byteLength: number;
}

/** The spaces whose memory no other kernel accesses, or which nobody writes while a kernel runs. */
const ownSpaces = [
  "shared",
  "shared::cta",
  "shared::cluster",
  "local",
  "param",
  "param::entry",
  "param::func",
  "const",
];
/** Orders in which other threads may make the same access. */
const strong: ReadonlySet<string> = new Set(["volatile", "relaxed", "acquire", "release", "mmio"]);

/**
 * The access of an instruction to global memory. Undefined if there is none, `"unknown"` if it is not known which.
 */
export function accessOf({ opcode, modifiers, operands }: Step): StepAccess | "unknown" | undefined {
  const known = kinds[opcode];
  const places = operands.filter((place) => place.kind === "address");
  if (known === undefined) {
    return harmless.has(opcode) || places.length === 0 && opcode !== "call" ? undefined : "unknown";
  }
  if (modifiers.some((modifier) => ownSpaces.includes(modifier))) return undefined;
  const [address] = places;
  const bytes = bitsOf(modifiers.findLast((modifier) => /^[busf]\d+(x2)?$|^bf16(x2)?$/.test(modifier)) ?? "") / 8;
  if (address === undefined || bytes === 0) return "unknown";
  const count = Number(/^v([248])$/.exec(modifiers.find((modifier) => /^v[248]$/.test(modifier)) ?? "")?.[1] ?? 1);
  const access = modifiers.some((modifier) => strong.has(modifier)) ? "atomic" : known;
  return { access, address, byteLength: bytes * count };
}

const kinds: Readonly<Record<string, StepAccess["access"]>> = {
  ld: "read",
  ldu: "read",
  st: "write",
  atom: "atomic",
  red: "atomic",
};

/** Instructions with an address that access no global memory. */
const harmless: ReadonlySet<string> = new Set([
  "prefetch",
  "prefetchu",
  "mbarrier",
  "ldmatrix",
  "stmatrix",
  "isspacep",
  "cvta",
  "mov",
]);
