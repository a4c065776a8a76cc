/**
 * The state of the threads of a launch, the prepared code that they run, and the memory accesses of its instructions.
 *
 * @module
 */
import { loopsOf } from "../../ptx/analysis/control_flow_graph.ts";
import { liveRegisters, type RegisterUse } from "../../ptx/analysis/definitions_and_uses.ts";
import type { AffineForm, Condition, Domain } from "./domain.ts";
import {
  bitsOf,
  type Block,
  type KernelCode,
  overwrites,
  type Place,
  readBy,
  type Step,
  written,
} from "./kernel_code.ts";
import type { WritesBefore } from "./shared_phases.ts";
import type { Value } from "./values.ts";

/** An access that all threads of a domain make, each once or more. */
export interface CertainAccess {
  readonly step: Step;
  readonly access: StepAccess["access"];
  readonly byteLength: number;
  readonly form: AffineForm;
  readonly domain: Domain;
}

/** The properties of a launch that a kernel's instructions can read. */
export interface LaunchNumbers {
  /** The indices of the dimensions that the threads of a block have. */
  readonly threadDimensions: readonly number[];
  /** The value of a special register. Undefined if it is not affine. */
  special(name: string): AffineForm | undefined;
  /** The value of an integer parameter. Undefined if it is too large. */
  parameter(offset: number, bits: number, isSigned: boolean): number | undefined;
  /** Whether a dimension may be split into two. */
  mayBeSplit(dimension: number): boolean;
}

/** The position of some threads, and the values of their registers. */
export interface ThreadState extends WritesBefore {
  block: number;
  index: number;
  readonly values: Value[];
  domain: Domain;
  /** The phase since the last barrier. */
  phase: number;
  /** For each enclosing loop, by its header: their states at each arrival there. */
  arrivals: ReadonlyMap<number, readonly Arrival[]>;
  /** The last of the conditions under which they stayed in a loop. */
  stays: Stay | undefined;
}

/** The state at the beginning of a loop's iteration. */
export interface Arrival {
  readonly values: readonly Value[];
  readonly domain: Domain;
  readonly stays: Stay | undefined;
}

/** A condition under which threads stay in a loop. */
export interface Stay {
  readonly loop: number;
  readonly condition: Condition;
  readonly truth: boolean;
  readonly previous: Stay | undefined;
}

/** Whether to stop before a block. */
export type Stop = (block: number) => boolean;

/** The analyses of a kernel's code, for all launches. */
export class PreparedCode {
  readonly code: KernelCode;
  readonly loops: ReadonlyMap<number, ReadonlySet<number>>;
  /** The registers that may be read after the beginning of a block before they are written. */
  readonly live: (block: number) => readonly number[];
  readonly barriers: "none" | "block" | "other";

  constructor(code: KernelCode) {
    this.code = code;
    const { blocks, end } = code;
    const next = (block: number) => blocks[block]?.next ?? [];
    this.loops = new Map(loopsOf(0, next).map(({ header, body }) => [header, new Set(body)]));
    const use = (block: number) => block === end ? noUse : useOf(blocks[block]!);
    this.live = liveRegisters<number, number>({ entry: 0, next, use, at: code.postDominators });
    this.barriers = barriersOf(code);
  }

  /** The header of the innermost loop that contains a block. */
  loopAround(block: number): number | undefined {
    let best: number | undefined;
    for (const [loop, body] of this.loops) {
      if (body.has(block) && (best === undefined || body.size < this.loops.get(best)!.size)) best = loop;
    }
    return best;
  }
}

const noUse: RegisterUse<number> = { uses: new Set(), definitions: new Set() };

/** The registers that a block reads before it writes them, and those that it certainly writes. */
function useOf({ steps, guard }: Block): RegisterUse<number> {
  const uses = new Set<number>(), definitions = new Set<number>();
  const read = (register: number) => {
    if (!definitions.has(register)) uses.add(register);
  };
  for (const step of steps) {
    readBy(step).forEach(read);
    // A guarded instruction may leave the register as it was.
    if (step.guard === undefined && overwrites(step)) {
      for (const register of written(step)) definitions.add(register);
    }
  }
  if (guard !== undefined) read(guard.register);
  return { uses, definitions };
}

/** Whether two values are known to be the same. */
export function areEqual(a: Value, b: Value): boolean {
  if (a === b) return true;
  if (a?.kind !== "affine" || b?.kind !== "affine") return false;
  return a.base === b.base && a.constant === b.constant && a.terms.length === b.terms.length &&
    a.terms.every((term, index) => term === b.terms[index]);
}

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
function barriersOf({ blocks }: KernelCode): "none" | "block" | "other" {
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
