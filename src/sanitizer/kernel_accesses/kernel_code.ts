/**
 * Converts the PTX of a kernel to basic blocks of instructions with resolved names.
 *
 * @module
 */
import type { LabelName, Register, Variable } from "../../ptx/instructions/resolved_instruction.ts";
import { type Named, Scope } from "../../ptx/instructions/names.ts";
import type { InstructionRow } from "../../ptx/instructions/instruction_traits.ts";
import { findRow } from "../../ptx/instructions/find_row.ts";
import { immediatePostDominators } from "../../ptx/analysis/control_flow_graph.ts";
import { kernelSignature } from "../../ptx/kernel_signature.ts";
import type { FunctionDeclaration, Instruction, Operand, Statement, VariableDeclaration } from "../../ptx/syntax.ts";
import { dynamicShared, untrackedBase } from "./domain.ts";

/** An operand of an instruction, with its name resolved. */
export type CodeOperand =
  | { readonly kind: "register"; readonly register: number }
  | { readonly kind: "number"; readonly value: number }
  /** The value of a special register, such as `%tid.x`. */
  | { readonly kind: "special"; readonly name: string }
  | { readonly kind: "parameter"; readonly offset: number }
  /** The address of a variable. `base` is the variable's number, as in the base of an affine form. */
  | { readonly kind: "variable"; readonly base: number }
  | { readonly kind: "address"; readonly base: CodeOperand; readonly offset: number }
  | { readonly kind: "list"; readonly elements: readonly CodeOperand[] }
  | { readonly kind: "not"; readonly register: number }
  | { readonly kind: "unknown" };

/** An instruction with its names resolved. */
export interface CodeInstruction {
  /** The instruction's row in the table of PTX instructions. Undefined if the opcode is unknown. */
  readonly row: InstructionRow | undefined;
  readonly modifiers: readonly string[];
  readonly operands: readonly CodeOperand[];
  /** The predicate register that decides whether the instruction is executed. Undefined if it always is. */
  readonly guard: { readonly register: number; readonly isNegated: boolean } | undefined;
  /** The instruction's line number in the PTX. */
  readonly line: number;
}

/** A basic block of the control-flow graph. */
export interface CodeBlock {
  readonly instructions: readonly CodeInstruction[];
  /**
   * The indices of the successor blocks. If the block ends with a guarded branch, the first one is the branch target.
   */
  readonly next: readonly number[];
  /** The guard of the branch at the end of the block. Undefined if there is no guard. */
  readonly guard: CodeInstruction["guard"];
}

/** The control-flow graph of a kernel, with the registers and variables that it uses. */
export interface KernelCode {
  readonly blocks: readonly CodeBlock[];
  /** The index that stands for a block after the last instruction, where a thread ends. */
  readonly end: number;
  /** For each block, the index of its immediate post-dominator. */
  readonly postDominators: readonly number[];
  /** The width of each register in bits; 1 for a predicate. */
  readonly registerBits: readonly number[];
  /** The size of each shared variable in bytes, keyed by the variable's base. */
  readonly sharedBytes: ReadonlyMap<number, number>;
}

/** A label, or an instruction whose names are not resolved yet. */
type Line =
  | LabelName
  | {
    readonly kind: "instruction";
    readonly instruction: Instruction;
    readonly row: InstructionRow | undefined;
    readonly scope: Scope;
  };

/**
 * Builds the control-flow graph of a kernel.
 *
 * @param variables the variables of the kernel's module
 * @throws {PtxError} If a name is declared twice, or registers have an unknown type
 */
export function kernelCode(kernel: FunctionDeclaration, variables: readonly VariableDeclaration[]): KernelCode {
  const flat = new FlatCode(kernel, variables);
  const { blocks, end } = flat.blocks();
  const { registerBits, sharedBytes } = flat;
  const postDominators = immediatePostDominators(blocks.map(({ next }) => next)).map((found) => found ?? end);
  return { blocks, end, postDominators, registerBits, sharedBytes };
}

/** The instructions and labels of a kernel as a flat list, without nested scopes. */
class FlatCode {
  readonly registerBits: number[] = [];
  readonly sharedBytes = new Map<number, number>([[dynamicShared, Infinity]]);
  readonly #lines: Line[] = [];
  readonly #registers = new Map<Register, number>();
  readonly #bases = new Map<Variable, number>();
  readonly #branchTargets = new Map<string, readonly string[]>();

  constructor(kernel: FunctionDeclaration, variables: readonly VariableDeclaration[]) {
    const module = new Scope();
    // If a variable is declared several times, use only the last declaration.
    for (const variable of new Map(variables.map((variable) => [variable.name, variable])).values()) {
      module.declare(this.#newVariable(variable, true), variable.line);
    }
    const scope = new Scope(module);
    for (const [index, { offset, byteLength }] of kernelSignature(kernel).parameters.entries()) {
      const { name } = kernel.parameters[index]!;
      scope.declare({ kind: "variable", name, space: "param", offset, byteLength }, kernel.line);
    }
    this.#flatten(kernel.body ?? [], scope);
  }

  #flatten(statements: readonly Statement[], scope: Scope): void {
    for (const statement of statements) {
      switch (statement.kind) {
        case "label": {
          const label: LabelName = { kind: "label", name: statement.name };
          scope.declare(label, statement.line);
          this.#lines.push(label);
          break;
        }
        case "block":
          this.#flatten(statement.statements, new Scope(scope));
          break;
        case "registers":
          scope.declareRegisters(statement);
          break;
        case "variable":
          scope.declare(this.#newVariable(statement, false), statement.line);
          break;
        case "branchTargets":
          this.#branchTargets.set(statement.name, statement.targets);
          break;
        case "instruction":
          this.#lines.push({
            kind: "instruction",
            instruction: statement,
            row: findRow(statement.opcode, statement.modifiers),
            scope,
          });
      }
    }
  }

  #newVariable(declaration: VariableDeclaration, isOfModule: boolean): Variable {
    const { name, space, type, vectorLength, elementCount } = declaration;
    const byteLength = (elementCount ?? 1) * vectorLength * bitsOf(type) / 8;
    const variable: Variable = { kind: "variable", name, space, offset: 0, byteLength };
    this.#bases.set(variable, this.#newBase(declaration, { isOfModule, byteLength }));
    return variable;
  }

  #newBase(
    { space, linkage, elementCount }: VariableDeclaration,
    { isOfModule, byteLength }: { isOfModule: boolean; byteLength: number },
  ): number {
    if (space !== "shared") return untrackedBase;
    if (linkage === "extern") return isOfModule && elementCount === 0 ? dynamicShared : untrackedBase;
    const base = dynamicShared - this.sharedBytes.size;
    this.sharedBytes.set(base, byteLength);
    return base;
  }

  #numberOf(register: Register): number {
    let number = this.#registers.get(register);
    if (number === undefined) this.#registers.set(register, number = this.registerBits.push(register.type.bits) - 1);
    return number;
  }

  blocks(): { blocks: CodeBlock[]; end: number } {
    const starts: { lines: (Line & { kind: "instruction" })[] }[] = [{ lines: [] }];
    const blockOf = new Map<Named | undefined, number>();
    for (const line of this.#lines) {
      if (line.kind === "label") {
        starts.push({ lines: [] });
        blockOf.set(line, starts.length - 1);
      } else {
        starts.at(-1)!.lines.push(line);
        if (endsBlock(line.row)) starts.push({ lines: [] });
      }
    }
    const end = starts.length;
    const blocks = starts.map(({ lines }, index): CodeBlock => {
      const last = lines.at(-1);
      const isEnding = last !== undefined && endsBlock(last.row);
      const instructions = (isEnding ? lines.slice(0, -1) : lines).map((line) => this.#instructionOf(line));
      if (!isEnding) return { instructions, next: [index + 1], guard: undefined };
      const { instruction, row } = last;
      const { guard } = this.#instructionOf(last);
      const targets = this.#targetsOf(last).map((label) => blockOf.get(label) ?? end);
      if (row?.flow !== "branch" && targets.length === 0) targets.push(end);
      return { instructions, next: instruction.predicate === undefined ? targets : [...targets, index + 1], guard };
    });
    return { blocks, end };
  }

  #targetsOf({ instruction: { operands }, row, scope }: Line & { kind: "instruction" }): (Named | undefined)[] {
    if (row?.flow !== "branch" && row?.flow !== "switch") return [];
    const named = operands.at(-1);
    const name = named?.kind === "name" ? named.name : "";
    const names = row.flow === "branch" ? [name] : this.#branchTargets.get(name) ?? [];
    return names.map((each) => scope.find(each));
  }

  #instructionOf({ instruction, row, scope }: Line & { kind: "instruction" }): CodeInstruction {
    const { modifiers, operands, predicate, line } = instruction;
    const named = predicate && scope.find(predicate.name);
    const guard = predicate === undefined
      ? undefined
      : { register: named?.kind === "register" ? this.#numberOf(named) : -1, isNegated: predicate.negated };
    return { row, modifiers, operands: operands.map((operand) => this.#operandOf(operand, scope)), guard, line };
  }

  #operandOf(operand: Operand, scope: Scope): CodeOperand {
    switch (operand.kind) {
      case "integer": {
        const value = Number(BigInt.asIntN(64, operand.value));
        return Number.isSafeInteger(value) ? { kind: "number", value } : unknown;
      }
      case "name": {
        if (operand.negated) return unknown;
        const { name, component } = operand;
        const named = scope.find(name);
        if (named !== undefined) return component === undefined ? this.#namedOperand(named) : unknown;
        const isSpecial = name.startsWith("%") || name === "WARP_SZ";
        return isSpecial ? { kind: "special", name: component === undefined ? name : `${name}.${component}` } : {
          kind: "variable",
          base: untrackedBase,
        };
      }
      case "address": {
        const base: CodeOperand = operand.base === undefined
          ? { kind: "number", value: 0 }
          : this.#operandOf(operand.base, scope);
        const offset = Number(operand.offset);
        return { kind: "address", base: Number.isSafeInteger(offset) ? base : unknown, offset };
      }
      case "vector":
      case "list":
        return { kind: "list", elements: operand.elements.map((element) => this.#operandOf(element, scope)) };
      case "pair":
        return {
          kind: "list",
          elements: [operand.first, operand.second].map((element) => this.#operandOf(element, scope)),
        };
      case "not": {
        const resolved = this.#operandOf(operand.operand, scope);
        return resolved.kind === "register" ? { kind: "not", register: resolved.register } : unknown;
      }
      case "element":
      case "sum": {
        const name = operand.kind === "sum" ? operand.name : operand.array;
        const resolved = this.#operandOf(name, scope);
        return resolved.kind === "variable" ? { ...resolved, base: untrackedBase } : unknown;
      }
      default:
        return unknown;
    }
  }

  #namedOperand(named: Named): CodeOperand {
    switch (named.kind) {
      case "register":
        return { kind: "register", register: this.#numberOf(named) };
      case "vectorRegister":
        return { kind: "list", elements: named.components.map((each) => this.#namedOperand(each)) };
      case "vector":
        return { kind: "list", elements: named.elements.map((each) => this.#namedOperand(each)) };
      case "variable": {
        const base = this.#bases.get(named);
        return base === undefined ? { kind: "parameter", offset: named.offset } : { kind: "variable", base };
      }
      default:
        return { kind: "variable", base: untrackedBase };
    }
  }
}

/** Returns the size in bits of a PTX type, such as 32 for `u32`; 0 if the type is unknown. */
export function bitsOf(type: string): number {
  return type === "pred" ? 1 : Number(/^[a-z]+(\d+)/.exec(type)?.[1] ?? 0) * (type.endsWith("x2") ? 2 : 1);
}

/** Returns whether an instruction ends a basic block. A branch, a return or a trap does, but not a call. */
function endsBlock(row: InstructionRow | undefined): boolean {
  return row?.flow !== undefined && row.flow !== "call" || row?.traits.effects?.includes("traps") === true;
}

const unknown: CodeOperand = { kind: "unknown" };

/**
 * Returns the registers that an instruction may write: those in its first operand, which for a call is the result list.
 */
export function writtenRegisters(instruction: CodeInstruction): readonly number[] {
  return writesFirstOperand(instruction) || instruction.row?.flow === "call"
    ? registersOf(instruction.operands[0])
    : [];
}

/** Returns the registers in an operand, except those in addresses. */
function registersOf(operand: CodeOperand | undefined): readonly number[] {
  if (operand?.kind === "register") return [operand.register];
  return operand?.kind === "list" ? operand.elements.flatMap(registersOf) : [];
}

/**
 * Returns whether an instruction writes to its first operand. Assumes that an instruction with an unknown opcode does.
 */
export function writesFirstOperand({ row }: CodeInstruction): boolean {
  return row === undefined || row.hasResult;
}

/** Returns the registers that an instruction reads, including that of its guard. */
export function readRegisters(instruction: CodeInstruction): number[] {
  const { operands, guard } = instruction;
  const sources = writesFirstOperand(instruction) ? operands.slice(1) : operands;
  const first = operands[0];
  const found = [...sources, ...first?.kind === "address" ? [first] : []].flatMap(registersIn);
  return guard === undefined ? found : [...found, guard.register];
}

/** Returns all registers in an operand, including those in addresses. */
export function registersIn(operand: CodeOperand): number[] {
  switch (operand.kind) {
    case "register":
    case "not":
      return [operand.register];
    case "address":
      return registersIn(operand.base);
    case "list":
      return operand.elements.flatMap(registersIn);
    default:
      return [];
  }
}
