/**
 * The state of the threads of a launch, and the prepared code that they run.
 *
 * @module
 */
import { loopsOf } from "../../ptx/analysis/control_flow_graph.ts";
import { liveRegisters, type RegisterUse } from "../../ptx/analysis/definitions_and_uses.ts";
import type { AffineForm } from "./affine_form.ts";
import type { Condition, Domain } from "./domain.ts";
import { type Block, type KernelCode, overwrites, readBy, type Step, written } from "./kernel_code.ts";
import { barriersOf, type StepAccess } from "./memory_step.ts";
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
