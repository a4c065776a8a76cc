/**
 * Which instructions access memory, and how.
 *
 * @module
 */
import { bitsOf, type KernelCode, type Place, type Step } from "./kernel_code.ts";

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

/** The access of an instruction to shared memory of its own block. Undefined for other instructions than `ld` and `st`. */
export function sharedAccessOf(step: Step): StepAccess | "unknown" | undefined {
  const { opcode, modifiers } = step;
  if (opcode !== "ld" && opcode !== "st") return undefined;
  return modifiers.includes("shared") || modifiers.includes("shared::cta") ? accessBy(step, kinds[opcode]!) : undefined;
}

/** Whether an instruction is a barrier: of all threads of a block, or another one. Those of a warp do not count. */
export function barrierOf({ opcode, modifiers, operands }: Step): "block" | "other" | undefined {
  if (opcode !== "bar" && opcode !== "barrier" || modifiers.includes("warp")) return undefined;
  const isSync = modifiers.includes("sync") && modifiers.every((modifier) => ofBlock.has(modifier));
  return isSync && operands.length === 1 && operands[0]!.kind === "number" ? "block" : "other";
}

/** Instructions by which lanes exchange something, or with which threads wait for some others. */
const exchanging: ReadonlySet<string> = new Set([
  "activemask",
  "call",
  "elect",
  "ldmatrix",
  "match",
  "mbarrier",
  "movmatrix",
  "redux",
  "shfl",
  "stmatrix",
  "vote",
]);

/** Whether a kernel has no barriers, only those of whole blocks, or also others, or lanes that exchange something. */
export function barriersOf({ blocks }: KernelCode): "none" | "block" | "other" {
  let found: "none" | "block" = "none";
  for (const { steps } of blocks) {
    for (const step of steps) {
      const isOfWarp = (step.opcode === "bar" || step.opcode === "barrier") && step.modifiers.includes("warp");
      const barrier = barrierOf(step);
      if (exchanging.has(step.opcode) || isOfWarp || barrier === "other") return "other";
      if (barrier === "block") found = "block";
    }
  }
  return found;
}

const ofBlock: ReadonlySet<string> = new Set(["sync", "cta", "aligned"]);

/**
 * The access of an instruction to global memory. Undefined if there is none, `"unknown"` if it is not known which.
 */
export function accessOf(step: Step): StepAccess | "unknown" | undefined {
  const { opcode, modifiers, operands } = step;
  const known = kinds[opcode];
  if (known === undefined) {
    return harmless.has(opcode) || !operands.some(({ kind }) => kind === "address") && opcode !== "call"
      ? undefined
      : "unknown";
  }
  if (modifiers.some((modifier) => ownSpaces.includes(modifier))) return undefined;
  return accessBy(step, known);
}

function accessBy({ modifiers, operands }: Step, known: StepAccess["access"]): StepAccess | "unknown" {
  const address = operands.find((place) => place.kind === "address");
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

/** Instructions with an address that read no memory. */
const readingNothing: ReadonlySet<string> = new Set(["prefetch", "prefetchu", "isspacep", "cvta", "mov"]);
/** Spaces whose memory is always initialized. */
const initializedSpaces = ["param", "param::entry", "const"];

/** Whether a kernel calls nothing, and reads no memory but global and shared memory, its arguments and constants. */
export function readsOnlyKnownMemory({ blocks }: KernelCode): boolean {
  return blocks.every(({ steps }) => steps.every(readsKnownMemory));
}

/** Whether a kernel may read its blocks' shared memory. */
export function readsSharedMemory({ blocks }: KernelCode): boolean {
  return blocks.some(({ steps }) => steps.some((step) => step.opcode === "ld" && sharedAccessOf(step) !== undefined));
}

function readsKnownMemory(step: Step): boolean {
  const { opcode, modifiers, operands } = step;
  if (opcode === "call") return false;
  const hasAddress = operands.some(({ kind }) => kind === "address" || kind === "unknown");
  if (readingNothing.has(opcode) || !hasAddress) return true;
  if (kinds[opcode] === undefined || modifiers.includes("async")) return false;
  if (opcode === "ld" && modifiers.some((modifier) => initializedSpaces.includes(modifier))) return true;
  const access = sharedAccessOf(step) ?? accessOf(step);
  return access !== undefined && access !== "unknown";
}
