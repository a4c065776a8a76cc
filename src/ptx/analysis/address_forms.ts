/**
 * Analyzes the addresses that a function accesses: the variables or parameters they are derived from, and how they
 * differ from lane to lane.
 *
 * @module
 */
import type { FunctionAnalysis } from "./function_analysis.ts";
import { mayHave } from "../instructions/instruction_traits.ts";
import { findUniformity, type Stride, strideRuleOf, type Uniformity } from "./uniformity.ts";
import { AddressRoots, nameOf, parameterOf, type Roots } from "./address_roots.ts";
import { type Definitions, sourcesOf } from "./definitions_and_uses.ts";
import {
  type Register,
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
  type Variable,
} from "../instructions/resolved_instruction.ts";

/**
 * A term of a {@linkcode LinearForm}: a register, or the name of a constant, which is a special register, the address
 * of a variable, or a kernel parameter.
 */
export type LinearTerm = Register | string;

/** A linear combination of terms: `constant` plus each term times its factor. */
export interface LinearForm {
  readonly constant: bigint;
  readonly terms: ReadonlyMap<LinearTerm, bigint>;
}

/**
 * The strides of a value: how much it changes when a thread's index along x, y or z, or its lane number, increases by
 * 1.
 */
export type LaneStrides = readonly [x: Stride, y: Stride, z: Stride, lane: Stride];

const uniformStrides: LaneStrides = [0n, 0n, 0n, 0n];
const varyingStrides: LaneStrides = [undefined, undefined, undefined, undefined];
const axes = ["%tid.x", "%tid.y", "%tid.z", "%laneid"] as const;
/** Special registers that have the same value in all lanes of a warp. */
const uniformSpecial = /^%(ntid|ctaid|nctaid)\.[xyz]$|^%(warpid|nwarpid|smid|nsmid|gridid)$|^WARP_SZ$|_smem_size$/;

/**
 * The maximum number of terms in a register's linear form. A register whose linear form would have more terms is
 * treated as a single term, to bound the analysis time.
 */
const mostTerms = 16;
/**
 * The maximum number of instructions to expand while computing how much a register's definition changes the register in
 * each loop iteration.
 */
const mostUnfolded = 256;

/** The size of a thread block, in threads. */
export type BlockSize = readonly [x: number, y: number, z: number];

/** Assumptions about a launch. */
export interface LaunchRules {
  /**
   * The block size. If undefined, the analysis assumes only that the threads of each warp are adjacent along x: blocks
   * are one-dimensional, or their size along x is a multiple of the warp size.
   */
  readonly block: BlockSize | undefined;
  /**
   * The kernel's pointer parameters that may point into the same memory as another parameter, keyed by the parameter's
   * offset in bytes. `memory` is a number that identifies the memory, and `same` is the lowest offset of a parameter
   * with the same value.
   */
  readonly shared: ReadonlyMap<number, { readonly memory: number; readonly same: number }>;
}

/**
 * Computes the linear forms and strides of the addresses in a function, and the variables and parameters (roots) that
 * the addresses are derived from.
 */
export class AddressForms {
  readonly #function: FunctionAnalysis;
  readonly #rules: LaunchRules;
  readonly #definitions: Definitions;
  /** Cache of the instructions inside loops. Undefined until first used. */
  #repeatedOnce: ReadonlySet<ResolvedInstruction> | undefined;
  readonly #forms = new Map<Register | Variable, LinearForm>();
  readonly #roots: AddressRoots;
  readonly #steps = new Map<Register, bigint | undefined>();
  readonly #multiples = new Map<LinearTerm, bigint>();
  /** Cache of the uniformity analyses, one for each of `axes`. Undefined until first used. */
  #uniformitiesOnce: readonly Uniformity[] | undefined;
  #unfolded = 0;

  constructor(analysis: FunctionAnalysis, rules: LaunchRules) {
    this.#function = analysis;
    this.#rules = rules;
    this.#definitions = analysis.definitions;
    this.#roots = new AddressRoots(this.#definitions, (offset) => this.#nameOfParameter(offset));
  }

  get #repeated(): ReadonlySet<ResolvedInstruction> {
    return this.#repeatedOnce ??= instructionsInLoops(this.#function);
  }

  get #uniformities(): readonly Uniformity[] {
    return this.#uniformitiesOnce ??= (this.#rules.block === undefined ? axes.slice(0, 1) : axes).map((axis) => {
      const strideOfSpecial = (name: string) => this.#strideOfSpecial(name, axis);
      const rules = { strideOfSpecial, isVarying: readsPrivateMemory };
      return findUniformity(this.#function.instructions, rules);
    });
  }

  #strideOfSpecial(name: string, axis: typeof axes[number]): Stride {
    if (uniformSpecial.test(name)) return 0n;
    if (name === axis) return 1n;
    const isRow = this.#rules.block === undefined;
    if (isRow && name === "%laneid") return 1n;
    return (axes as readonly string[]).includes(name) ? 0n : undefined;
  }

  /** Returns the strides of a term among lanes that execute the same instruction together. */
  laneStrides(term: LinearTerm): LaneStrides {
    if (typeof term === "string") {
      if (!term.startsWith("%") && term !== "WARP_SZ") return uniformStrides;
      const [x, y, z, lane] = axes.map((axis) => this.#strideOfSpecial(term, axis));
      return this.#rules.block === undefined ? [x, 0n, 0n, 0n] : [x, y, z, lane];
    }
    if (!this.#definitions.has(term)) return varyingStrides;
    const strides = this.#uniformities.map((uniformity) => uniformity.strideOf(term));
    return this.#rules.block === undefined ? [strides[0], 0n, 0n, 0n] : strides as unknown as LaneStrides;
  }

  /** Returns the linear form of an address. */
  formOf({ base, offset }: { readonly base: Register | Variable | undefined; readonly offset: bigint }): LinearForm {
    const form = base === undefined ? noForm : this.#formOf(base);
    return offset === 0n ? form : { constant: form.constant + offset, terms: form.terms };
  }

  #formOf(operand: ResolvedOperand): LinearForm {
    switch (operand.kind) {
      case "integer":
        return constantForm(operand.value >= 1n << 63n ? BigInt.asIntN(64, operand.value) : operand.value);
      case "variable": {
        let form = this.#forms.get(operand);
        if (form === undefined) this.#forms.set(operand, form = termForm(nameOf(operand)));
        return form;
      }
      case "sum":
        return { ...this.#formOf(operand.variable), constant: operand.offset };
      case "special": {
        const dimension = /^%ntid\.([xyz])$/.exec(operand.name)?.[1];
        const { block } = this.#rules;
        if (dimension !== undefined && block !== undefined) {
          return constantForm(BigInt(block["xyz".indexOf(dimension)]!));
        }
        return termForm(operand.name);
      }
      case "register": {
        if (!this.#forms.has(operand)) this.#findForms(operand);
        return this.#forms.get(operand)!;
      }
      default:
        return termForm("%unknown");
    }
  }

  /**
   * Computes the linear forms of a register and of all registers that it depends on, in dependency order. Iterative, so
   * that long chains do not overflow the stack.
   */
  #findForms(register: Register): void {
    const waiting = [register];
    const isEntered = new Set<Register>();
    for (let next = waiting.at(-1); next !== undefined; next = waiting.at(-1)) {
      if (isEntered.has(next)) {
        waiting.pop();
        const form = this.#expand(next);
        if (form.terms.size <= mostTerms) this.#forms.set(next, form);
      } else if (this.#forms.has(next)) {
        waiting.pop();
      } else {
        isEntered.add(next);
        // During the expansion, the register's linear form is the register as a single term, in case it depends on
        // itself.
        this.#forms.set(next, termForm(next));
        const definition = this.#onlyDefinition(next);
        for (const source of definition === undefined ? [] : sourcesOf(definition)) {
          if (source.kind === "register" && !this.#forms.has(source)) waiting.push(source);
        }
      }
    }
  }

  /**
   * Returns the linear form of a register. Only a register that is set once, from registers that are set once, is
   * expanded; the form of any other register consists of the register as a single term.
   */
  #expand(register: Register): LinearForm {
    const definition = this.#onlyDefinition(register);
    if (definition === undefined) return termForm(register);
    const parameter = parameterOf(definition);
    if (parameter !== undefined) return termForm(this.#nameOfParameter(parameter));
    const { form, type, operands } = definition;
    const sources = sourcesOf(definition);
    if (sources.some((source) => source.kind === "register" && (this.#definitions.get(source)?.length ?? 0) !== 1)) {
      return termForm(register);
    }
    if (form.traits.pointer === "converted") return this.#formOf(operands[1]!);
    const rule = strideRuleOf(definition);
    if (rule === undefined || type.kind === "float" || register.type.bits < 32) return termForm(register);
    // Stride rules are linear: with one operand set to 1 and all others to 0, a rule returns that operand's factor.
    const forms = new Map(sources.map((source) => [source, this.#formOf(source)]));
    const isConstant = (operand: ResolvedOperand) => forms.get(operand)?.terms.size === 0;
    const folded = operands.map((operand): ResolvedOperand => {
      return operand.kind === "register" && isConstant(operand) && operand !== register
        ? { kind: "integer", value: forms.get(operand)!.constant }
        : operand;
    });
    const instruction = { ...definition, operands: folded };
    let constant = rule(instruction, (operand) => operand?.kind === "integer" ? operand.value : 0n);
    if (constant === undefined) return termForm(register);
    const terms = new Map<LinearTerm, bigint>();
    for (const [source, { constant: offset, terms: parts }] of forms) {
      if (source.kind === "integer" || (source.kind === "register" && isConstant(source))) continue;
      const factor = rule(instruction, (operand) => operand === source ? 1n : 0n);
      if (factor === undefined) return termForm(register);
      constant += factor * offset;
      for (const [term, count] of parts) addTerm(terms, term, factor * count);
    }
    return { constant: BigInt.asIntN(64, constant), terms };
  }

  #onlyDefinition(register: Register): ResolvedInstruction | undefined {
    const definitions = this.#definitions.get(register);
    const definition = definitions?.length === 1 ? definitions[0] : undefined;
    return definition?.predicate === undefined ? definition : undefined;
  }

  #nameOfParameter(offset: number): string {
    return `param ${this.#rules.shared.get(offset)?.same ?? offset}`;
  }

  /** Returns the variables and parameters that an address may be derived from. */
  rootsOf(base: Register | Variable | undefined): Roots {
    return this.#roots.of(base);
  }

  /**
   * Returns a common divisor of all changes of a term's value between iterations of a loop: 0 if the value never
   * changes. Undefined if the value may change by any amount.
   */
  stepOf(term: LinearTerm): bigint | undefined {
    if (typeof term === "string") return 0n;
    if (this.#steps.has(term)) return this.#steps.get(term);
    this.#steps.set(term, undefined);
    const step = this.#findStep(term);
    this.#steps.set(term, step);
    return step;
  }

  #findStep(register: Register): bigint | undefined {
    const definitions = (this.#definitions.get(register) ?? []).filter((definition) => this.#repeated.has(definition));
    if (definitions.length === 0) return 0n;
    let step = 0n;
    for (const definition of definitions) {
      this.#unfolded = 0;
      const sum = this.#unfold(definition, register);
      if (sum === undefined) return undefined;
      for (const [term, factor] of sum.terms) {
        if (term === register && (this.#definitions.get(register)!.length > 1)) {
          if (factor !== 1n) return undefined;
          continue;
        }
        const change = definitions.length === 1 && this.#definitions.get(register)!.length === 1
          ? this.stepOf(term)
          : this.multipleOf(term);
        if (change === undefined) return undefined;
        step = greatestCommonDivisor(step, factor * change);
      }
      if (this.#definitions.get(register)!.length > 1) {
        if (!sum.terms.has(register)) return undefined;
        step = greatestCommonDivisor(step, sum.constant);
      }
    }
    return step;
  }

  /**
   * Returns the linear form of an instruction's result. Replaces registers that are set once with their own forms; the
   * register `until` and registers that are set several times remain terms.
   */
  #unfold(definition: ResolvedInstruction, until: Register, depth = 0): LinearForm | undefined {
    const rule = strideRuleOf(definition);
    if (
      rule === undefined || definition.predicate !== undefined || definition.type.kind === "float" || depth > 16 ||
      ++this.#unfolded > mostUnfolded
    ) return undefined;
    let constant = rule(definition, (operand) => operand?.kind === "integer" ? operand.value : 0n);
    if (constant === undefined) return undefined;
    const terms = new Map<LinearTerm, bigint>();
    for (const source of new Set(sourcesOf(definition))) {
      if (source.kind === "integer") continue;
      const factor = rule(definition, (operand) => operand === source ? 1n : 0n);
      if (factor === undefined) return undefined;
      const inner = source.kind === "register" && source !== until ? this.#onlyDefinition(source) : undefined;
      const form = (inner === undefined ? undefined : this.#unfold(inner, until, depth + 1)) ??
        (source.kind === "register" ? termForm(source) : this.#formOf(source));
      constant += factor * form.constant;
      for (const [term, count] of form.terms) addTerm(terms, term, factor * count);
    }
    return { constant, terms };
  }

  /** Returns a number that is known to divide a term's value; 1 if no larger divisor is known. */
  multipleOf(term: LinearTerm, depth = 0): bigint {
    if (term === "%ntid.x") return BigInt(this.#rules.block?.[0] ?? 32);
    if (typeof term === "string" || depth > 8) return 1n;
    let multiple = this.#multiples.get(term);
    if (multiple === undefined) this.#multiples.set(term, multiple = this.#findMultiple(term, depth));
    return multiple;
  }

  #findMultiple(term: Register, depth: number): bigint {
    const definition = this.#onlyDefinition(term);
    const rule = definition && strideRuleOf(definition);
    const of = (operand: ResolvedOperand | undefined): bigint => {
      switch (operand?.kind) {
        case "integer":
          return operand.value;
        case "special":
          return this.#dividing(this.#formOf(operand), depth);
        case "register":
          return this.multipleOf(operand, depth + 1);
        default:
          return 1n;
      }
    };
    if (definition === undefined || rule === undefined) return 1n;
    const [, a, b, c] = definition.operands;
    const { arithmetic } = definition.form.traits;
    if (arithmetic === "product") return of(a) * of(b);
    if (arithmetic === "product sum") return greatestCommonDivisor(of(a) * of(b), of(c));
    let multiple = 0n;
    for (const source of sourcesOf(definition)) {
      const factor = rule(definition, (operand) => operand === source ? 1n : 0n);
      if (factor === undefined) return 1n;
      multiple = greatestCommonDivisor(multiple, factor * of(source));
    }
    return multiple;
  }

  #dividing({ constant, terms }: LinearForm, depth: number): bigint {
    let multiple = constant;
    for (const [term, factor] of terms) {
      multiple = greatestCommonDivisor(multiple, factor * this.multipleOf(term, depth + 1));
    }
    return multiple;
  }

  /** Whether an instruction is in a loop. */
  isRepeated(instruction: ResolvedInstruction): boolean {
    return this.#repeated.has(instruction);
  }
}

function instructionsInLoops({ loops }: FunctionAnalysis): ReadonlySet<ResolvedInstruction> {
  const repeated = new Set<ResolvedInstruction>();
  for (const { body } of loops) {
    for (const { instructions } of body) {
      for (const { instruction } of instructions) if (instruction !== undefined) repeated.add(instruction);
    }
  }
  return repeated;
}

/** Whether an instruction may load different values in different lanes even if all lanes use the same address. */
function readsPrivateMemory(instruction: ResolvedInstruction): boolean {
  if (!mayHave(instruction, "reads")) return false;
  const address = instruction.operands.find((operand) => operand.kind === "address");
  if (address?.base?.kind === "variable") return address.base.isInFrame === true;
  const space = spaceOf(instruction);
  return space === "local" || space === "generic" || space === "param";
}

const noForm = constantForm(0n);

function constantForm(constant: bigint): LinearForm {
  return { constant, terms: new Map() };
}

function termForm(term: LinearTerm): LinearForm {
  return { constant: 0n, terms: new Map([[term, 1n]]) };
}

function addTerm(terms: Map<LinearTerm, bigint>, term: LinearTerm, factor: bigint): void {
  const sum = (terms.get(term) ?? 0n) + factor;
  if (sum === 0n) terms.delete(term);
  else terms.set(term, sum);
}

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  let [x, y] = [a < 0n ? -a : a, b < 0n ? -b : b];
  while (y !== 0n) [x, y] = [y, x % y];
  return x;
}
