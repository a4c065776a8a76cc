/**
 * The memory accesses of instructions.
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

/** The spaces that no other kernel accesses, or that are not written while a kernel runs. */
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

/** The access of an instruction to shared memory of its own block. Undefined for other instructions than loads and stores. */
export function sharedAccessOf(step: Step): StepAccess | "unknown" | undefined {
  const { row, modifiers } = step;
  const access = row?.traits.access;
  if (access !== "read" && access !== "write") return undefined;
  return modifiers.includes("shared") || modifiers.includes("shared::cta") ? accessBy(step, access) : undefined;
}

/** Whether an instruction is a barrier: of all threads of a block, or another one. Those of a warp do not count. */
export function barrierOf({ row, operands }: Step): "block" | "other" | undefined {
  const synchronization = row?.traits.synchronization;
  if (synchronization === undefined || synchronization === "lanes") return undefined;
  return synchronization === "block" && operands.length === 1 && operands[0]!.kind === "number" ? "block" : "other";
}

/** Whether a kernel has no barriers, only those of whole blocks, or also others, or lanes that exchange something. */
export function barriersOf({ blocks }: KernelCode): "none" | "block" | "other" {
  let found: "none" | "block" = "none";
  for (const { steps } of blocks) {
    for (const step of steps) {
      const barrier = barrierOf(step);
      if (step.row?.traits.synchronization === "lanes" || barrier === "other") return "other";
      if (barrier === "block") found = "block";
    }
  }
  return found;
}

/**
 * The access of an instruction to global memory. Undefined if there is none, `"unknown"` if it is not known which.
 */
export function accessOf(step: Step): StepAccess | "unknown" | undefined {
  const { row, modifiers, operands } = step;
  const access = row?.traits.access;
  if (access === "shared" || access === "none") return undefined;
  if (access === undefined) {
    return operands.some(({ kind }) => kind === "address") || row?.flow === "call" ? "unknown" : undefined;
  }
  if (modifiers.some((modifier) => ownSpaces.includes(modifier))) return undefined;
  return accessBy(step, access);
}

function accessBy({ modifiers, operands }: Step, known: StepAccess["access"]): StepAccess | "unknown" {
  const address = operands.find((place) => place.kind === "address");
  const bytes = bitsOf(modifiers.findLast((modifier) => /^[busf]\d+(x2)?$|^bf16(x2)?$/.test(modifier)) ?? "") / 8;
  if (address === undefined || bytes === 0) return "unknown";
  const count = Number(/^v([248])$/.exec(modifiers.find((modifier) => /^v[248]$/.test(modifier)) ?? "")?.[1] ?? 1);
  const access = modifiers.some((modifier) => strong.has(modifier)) ? "atomic" : known;
  return { access, address, byteLength: bytes * count };
}

/** Spaces whose memory is always initialized. */
const initializedSpaces = ["param", "param::entry", "const"];

/** Whether a kernel calls nothing, and reads no memory but global and shared memory, its arguments and constants. */
export function readsOnlyKnownMemory({ blocks }: KernelCode): boolean {
  return blocks.every(({ steps }) => steps.every(readsKnownMemory));
}

/** Whether a kernel may read its blocks' shared memory. */
export function readsSharedMemory({ blocks }: KernelCode): boolean {
  return blocks.some(({ steps }) =>
    steps.some((step) => step.row?.traits.access === "read" && sharedAccessOf(step) !== undefined)
  );
}

/** Whether an instruction may access memory at an address. One with an operand that is not known may. */
export function mayAccess({ row, operands }: Step): boolean {
  return row?.traits.access !== "none" && operands.some(({ kind }) => kind === "address" || kind === "unknown");
}

function readsKnownMemory(step: Step): boolean {
  const { row, modifiers } = step;
  if (row?.flow === "call") return false;
  if (!mayAccess(step)) return true;
  const access = row?.traits.access;
  if (access === undefined || access === "shared" || modifiers.includes("async")) return false;
  if (access === "read" && modifiers.some((modifier) => initializedSpaces.includes(modifier))) return true;
  const found = sharedAccessOf(step) ?? accessOf(step);
  return found !== undefined && found !== "unknown";
}
