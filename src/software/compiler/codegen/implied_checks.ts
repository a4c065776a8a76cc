/**
 * Finds the accesses to local and shared memory that earlier bounds checks imply to be valid, as for the elements of
 * several arrays with the same index: if the bytes before and after an access are within bounds, so is the access.
 *
 * Addresses are compared as linear combinations of numbered values, plus a constant. The conclusions hold for 64-bit
 * arithmetic that wraps around, and also for 32-bit arithmetic, because the memory is much smaller than 2^32 bytes. The
 * analysis knows the values of registers that are set in the function's first basic block, and those set since the last
 * block with several predecessors, because these are certain to be set before they are read.
 *
 * @module
 */
import { strideRuleOf, wideningOf } from "../../../ptx/analysis/uniformity.ts";
import type { ImpliedChecks } from "./function_emitter.ts";
import { postorder, predecessors, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import type { CompiledStep, FlowBlock, FunctionFlow } from "../control_flow/function_flow.ts";
import {
  type Register,
  type ResolvedAddress,
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../../ptx/instructions/resolved_instruction.ts";
import { type Definitions, resultsOf, sourcesOf } from "../../../ptx/analysis/definitions_and_uses.ts";

/**
 * A linear combination, modulo 2^`bits`: `constant` plus the sum of the terms. `terms` maps value numbers to factors.
 */
interface Sum {
  readonly terms: ReadonlyMap<number, bigint>;
  readonly constant: bigint;
  readonly bits: 32 | 64;
}

/** The range of bytes that are known to be within bounds, relative to the variable part of an address. */
interface Extent {
  readonly begin: number;
  readonly end: number;
}

/**
 * The maximum absolute value of a constant, in bytes: small enough that adding it to an offset does not wrap around.
 */
const largestConstant = 2n ** 28n;
/**
 * The maximum number of terms in a sum. A longer sum gets a value number of its own, and is treated as a single term.
 */
const mostTerms = 4;

/**
 * Finds the accesses of a function whose bounds checks are implied by earlier bounds checks.
 *
 * @param definitions the instructions that set each register
 */
export function impliedChecks(
  { entry }: FunctionFlow,
  definitions: Definitions,
): ImpliedChecks {
  const blocks = postorder([entry], successors);
  const isConcerned = blocks.some(({ instructions }) =>
    instructions.some(({ instruction }) => instruction !== undefined && accessOf(instruction) !== undefined)
  );
  return isConcerned ? new Search(entry, blocks, definitions).implied : new Set();
}

class Search {
  readonly implied = new Set<ResolvedAddress>();
  readonly #definitions: Definitions;
  readonly #numbers = new Map<string, number>();
  #nextNumber = 0;
  /** The values of registers that are set only once, in the first basic block. Valid after the end of that block. */
  #lasting = new Map<Register, Sum>();
  /** The values of registers on the path to the current basic block. */
  readonly #sums = new ScopedMap<Register, Sum>();
  readonly #extents = new ScopedMap<string, Extent>();

  constructor(
    entry: FlowBlock,
    blocks: readonly FlowBlock[],
    definitions: Definitions,
  ) {
    this.#definitions = definitions;
    const before = predecessors(blocks, successors);
    const follows = (block: FlowBlock) => block !== entry && before.get(block)!.size === 1;
    this.#searchFrom(entry, follows);
    for (const block of blocks) if (block !== entry && !follows(block)) this.#searchFrom(block, follows);
  }

  /** Visits the basic blocks that are reachable from `start` without entering a block that has several predecessors. */
  #searchFrom(start: FlowBlock, follows: (block: FlowBlock) => boolean): void {
    const waiting: (FlowBlock | "leave")[] = [start];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (next === "leave") {
        this.#sums.leave();
        this.#extents.leave();
        continue;
      }
      this.#sums.enter();
      this.#extents.enter();
      next.instructions.forEach((step) => this.#visit(step));
      if (this.#lasting.size === 0) this.#lasting = this.#lastingSums();
      waiting.push("leave", ...new Set(successors(next).filter(follows)));
    }
  }

  /** Returns the current values of the registers that are set only once, without a predicate. */
  #lastingSums(): Map<Register, Sum> {
    return new Map(
      [...this.#sums.entries()].filter(([register]) => {
        const [definition, ...others] = this.#definitions.get(register) ?? [];
        return definition !== undefined && definition.predicate === undefined && others.length === 0;
      }),
    );
  }

  #visit({ instruction, initializes }: CompiledStep): void {
    if (initializes !== undefined) this.#sums.set(initializes, this.#unknown(bitsOf(initializes)));
    if (instruction === undefined) return;
    const access = accessOf(instruction);
    if (access !== undefined) this.#visitAccess(access, instruction.predicate !== undefined);
    const results = resultsOf(instruction);
    const sum = results.length === 1 ? this.#sumOf(instruction, results[0]!) : undefined;
    for (const result of results) this.#sums.set(result, sum ?? this.#unknown(bitsOf(result)));
  }

  #visitAccess({ address, base, space, bytes }: Access, isPredicated: boolean): void {
    const sum = this.#sumIn(base, bitsOf(base));
    if (sum === undefined) return;
    const from = BigInt.asIntN(sum.bits, sum.constant + address.offset);
    if (from < -largestConstant || from > largestConstant) return;
    const key = `${space} ${keyOf(sum)}`;
    const begin = Number(from), end = begin + bytes;
    const known = this.#extents.get(key);
    if (known !== undefined && known.begin <= begin && end <= known.end) {
      this.implied.add(address);
    } else if (!isPredicated) {
      this.#extents.set(key, {
        begin: Math.min(begin, known?.begin ?? begin),
        end: Math.max(end, known?.end ?? end),
      });
    }
  }

  /** Returns the sum that an instruction computes. Undefined if the instruction does not compute a sum. */
  #sumOf(instruction: ResolvedInstruction, result: Register): Sum | undefined {
    const { type, sourceType, choices, predicate } = instruction;
    const stride = strideRuleOf(instruction);
    const bits = bitsOf(result);
    if (stride === undefined || bits === undefined || predicate !== undefined || choices.has("sat")) return undefined;
    if (type.kind === "float" || sourceType.kind === "float") return undefined;
    const widened = wideningOf(instruction);
    let constant = stride(instruction, (operand) => operand?.kind === "integer" ? operand.value : 0n);
    if (constant === undefined) return undefined;
    const terms = new Map<number, bigint>();
    for (const source of new Set(sourcesOf(instruction))) {
      if (source.kind === "integer") continue;
      const factor = stride(instruction, (operand) => operand === source ? 1n : 0n);
      const isWidened = widened?.operands.includes(source) === true;
      const sum = this.#sumIn(source, isWidened ? 32 : bits);
      if (factor === undefined || sum === undefined) return undefined;
      if (isWidened && bits !== 64) return undefined;
      const part = isWidened ? this.#extended(sum, widened.type.kind === "signed") : sum;
      constant += factor * part.constant;
      for (const [term, count] of part.terms) {
        const total = BigInt.asIntN(bits, (terms.get(term) ?? 0n) + factor * count);
        if (total === 0n) terms.delete(term);
        else terms.set(term, total);
      }
    }
    return terms.size > mostTerms ? undefined : { terms, constant: BigInt.asIntN(bits, constant), bits };
  }

  /** Returns the value of an operand. Undefined if the operand is not known to be an integer of `bits` bits. */
  #sumIn(operand: ResolvedOperand, bits: 32 | 64 | undefined): Sum | undefined {
    if (bits === undefined) return undefined;
    switch (operand.kind) {
      case "register": {
        if (bitsOf(operand) !== bits) return undefined;
        let sum = this.#sums.get(operand) ?? this.#lasting.get(operand);
        if (sum === undefined) this.#sums.set(operand, sum = this.#unknown(bits));
        return sum;
      }
      case "variable":
        if (operand.space !== "local" && operand.space !== "shared") return undefined;
        return {
          ...this.#value(`${operand.space} ${operand.isInFrame} ${operand.isInKernelFrame}`, bits),
          constant: BigInt(operand.offset),
        };
      case "sum": {
        const sum = this.#sumIn(operand.variable, bits);
        return sum && { ...sum, constant: sum.constant + operand.offset };
      }
      default:
        return undefined;
    }
  }

  /** Returns the value of a 32-bit sum that is sign-extended or zero-extended to 64 bits, as a single term. */
  #extended(sum: Sum, isSigned: boolean): Sum {
    return this.#value(`${isSigned ? "signed" : "unsigned"} ${sum.constant} ${keyOf(sum)}`, 64);
  }

  #unknown(bits: 32 | 64 | undefined): Sum {
    return { terms: new Map([[this.#nextNumber++, 1n]]), constant: 0n, bits: bits ?? 64 };
  }

  /**
   * Returns a sum that consists of a single term: the value number of the given name and width. Calls with the same
   * arguments return the same value number.
   */
  #value(name: string, bits: 32 | 64): Sum {
    const key = `${bits} ${name}`;
    let number = this.#numbers.get(key);
    if (number === undefined) this.#numbers.set(key, number = this.#nextNumber++);
    return { terms: new Map([[number, 1n]]), constant: 0n, bits };
  }
}

interface Access {
  readonly address: ResolvedAddress;
  readonly base: Register;
  readonly space: "local" | "shared";
  readonly bytes: number;
}

/**
 * Returns the access of a load or store to local or shared memory through a register. Undefined for other instructions.
 */
function accessOf(instruction: ResolvedInstruction): Access | undefined {
  const { form, operands, choices, type } = instruction;
  if (form.traits.accessesType !== true) return undefined;
  const address = operands[form.hasResult ? 1 : 0];
  if (address?.kind !== "address" || address.base?.kind !== "register") return undefined;
  const space = spaceOf(instruction);
  if (space !== "local" && space !== "shared") return undefined;
  return { address, base: address.base, space, bytes: type.bits / 8 * Number(choices.get("vector")?.slice(1) ?? 1) };
}

function keyOf({ terms, bits }: Pick<Sum, "terms" | "bits">): string {
  return `${bits} ${[...terms].map(([term, factor]) => `${term}*${factor}`).sort().join("+")}`;
}

function bitsOf({ type }: Register): 32 | 64 | undefined {
  return type.bits === 32 || type.bits === 64 ? type.bits : undefined;
}

/** A map with nested scopes. Leaving a scope undoes the changes made in it. */
class ScopedMap<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #changes: { readonly key: K; readonly before: V | undefined }[] = [];
  readonly #scopes: number[] = [];

  enter(): void {
    this.#scopes.push(this.#changes.length);
  }

  leave(): void {
    const begin = this.#scopes.pop()!;
    while (this.#changes.length > begin) {
      const { key, before } = this.#changes.pop()!;
      if (before === undefined) this.#entries.delete(key);
      else this.#entries.set(key, before);
    }
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  set(key: K, value: V): void {
    this.#changes.push({ key, before: this.#entries.get(key) });
    this.#entries.set(key, value);
  }

  entries(): Iterable<[K, V]> {
    return this.#entries;
  }
}
