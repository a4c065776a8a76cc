/**
 * The code of a kernel as the symbolic run needs it: its control flow, its registers, and the bases of its variables.
 *
 * @module
 */
import { BodyResolver, type OperandContext } from "../../ptx/analysis/body_resolver.ts";
import type { BasicBlock, FlowStep } from "../../ptx/analysis/control_flow_graph.ts";
import { registersOfInstruction } from "../../ptx/analysis/definitions_and_uses.ts";
import { FlowBuilder } from "../../ptx/analysis/flow_builder.ts";
import { FunctionAnalysis } from "../../ptx/analysis/function_analysis.ts";
import { resolveNearest } from "../../ptx/instructions/find_row.ts";
import type { Flow, InstructionRow } from "../../ptx/instructions/instruction_traits.ts";
import { Scope } from "../../ptx/instructions/names.ts";
import type {
  Prototype,
  Register,
  ResolvedForm,
  ResolvedInstruction,
  ResolvedOperand,
  Variable,
} from "../../ptx/instructions/resolved_instruction.ts";
import { scalarTypes } from "../../ptx/instructions/scalar_types.ts";
import { kernelSignature } from "../../ptx/kernel_signature.ts";
import {
  type CallTargets,
  type FunctionDeclaration,
  type Instruction,
  type Operand,
  PtxError,
  type PtxModule,
  type RegisterDeclaration,
  type VariableDeclaration,
} from "../../ptx/syntax.ts";
import { dynamicShared, untrackedBase } from "./domain.ts";

/** A basic block of a kernel. */
export type CodeBlock = BasicBlock<FlowStep>;

/** The code of a kernel. */
export interface KernelCode {
  /** The kernel's control-flow graph and its analyses. A trap ends a basic block, but a call does not. */
  readonly analysis: FunctionAnalysis;
  /** The virtual exit block, at which threads exit. */
  readonly end: CodeBlock;
  /** The index of each of the kernel's registers. */
  readonly registers: ReadonlyMap<Register, number>;
  /**
   * For each variable, the base that stands for the variable's address in affine forms. Undefined for kernel
   * parameters.
   */
  readonly bases: ReadonlyMap<Variable, number>;
  /** The size of each shared variable in bytes, keyed by the variable's base. */
  readonly sharedBytes: ReadonlyMap<number, number>;
}

/**
 * Resolves the definition of a kernel. Accepts unknown instructions.
 *
 * @param module the kernel's module
 * @throws {PtxError} If the kernel uses names in ways that PTX does not allow, or if registers have an unknown type
 */
export function kernelCode(
  kernel: FunctionDeclaration,
  { variables, registers }: Pick<PtxModule, "variables" | "registers">,
): KernelCode {
  const resolver = new KernelResolver(variables);
  const { items, bases, sharedBytes } = resolver;
  resolver.resolve(kernel, registers);
  const builder = new KernelFlowBuilder(items);
  const entry = builder.build();
  const instructions = items.filter((item) => item.kind === "instruction");
  const analysis = new FunctionAnalysis<FlowStep>(entry, instructions);
  return { analysis, end: builder.exiting, registers: numbered(instructions), bases, sharedBytes };
}

/** Resolves the body of a kernel. An operand that cannot be resolved gets the kind `unknown`. */
class KernelResolver extends BodyResolver<InstructionRow> {
  readonly bases = new Map<Variable, number>();
  readonly sharedBytes = new Map<number, number>([[dynamicShared, Infinity]]);
  readonly #ofModule = new Map<string, Variable>();

  constructor(variables: readonly VariableDeclaration[]) {
    super();
    // If a variable is declared several times, use only the last declaration.
    for (const variable of new Map(variables.map((variable) => [variable.name, variable])).values()) {
      const { name, elementCount } = variable;
      this.#ofModule.set(name, this.#place(variable, elementCount === 0 ? dynamicShared : untrackedBase));
    }
  }

  /** Resolves the body of a kernel. */
  resolve(kernel: FunctionDeclaration, registers: readonly RegisterDeclaration[]): void {
    const outer = new Scope();
    for (const declaration of registers) outer.declareRegisters(declaration);
    const scope = new Scope(outer);
    for (const [index, { offset, byteLength }] of kernelSignature(kernel).parameters.entries()) {
      const { name } = kernel.parameters[index]!;
      scope.declare({ kind: "variable", name, space: "param", offset, byteLength }, kernel.line);
    }
    this.statements(kernel.body ?? [], scope);
  }

  protected override resolveForm(instruction: Instruction): ResolvedForm {
    return resolveNearest(instruction);
  }

  protected override operand(operand: Operand, where: OperandContext): ResolvedOperand {
    try {
      return super.operand(operand, where);
    } catch (error) {
      if (error instanceof PtxError) return { kind: "unknown" };
      throw error;
    }
  }

  protected override outerName(name: string): ResolvedOperand {
    if (name.startsWith("%") || name === "WARP_SZ") return { kind: "special", name };
    let variable = this.#ofModule.get(name);
    if (variable === undefined) {
      // The name refers to a function, or is not declared by the module.
      variable = { kind: "variable", name, space: "global", offset: 0, byteLength: 0 };
      this.#ofModule.set(name, variable);
      this.bases.set(variable, untrackedBase);
    }
    return variable;
  }

  protected override prototypeOf({ name, line }: CallTargets): Prototype {
    // Called functions are not analyzed, so their prototype does not matter.
    const declaration = { kind: "callPrototype", name, results: [], parameters: [], directives: [], line } as const;
    return { kind: "prototype", name, declaration };
  }

  protected override placeVariable(declaration: VariableDeclaration): Variable {
    return this.#place(declaration, untrackedBase);
  }

  /** @param external the base to use if the variable is in shared memory but defined in another module */
  #place(declaration: VariableDeclaration, external: number): Variable {
    const { name, space, linkage, type, vectorLength, elementCount } = declaration;
    const scalarBytes = (type === "b128" ? 128 : scalarTypes.get(type)?.bits ?? 0) / 8;
    const byteLength = (elementCount ?? 1) * vectorLength * scalarBytes;
    const elementBytes = elementCount === undefined ? undefined : scalarBytes;
    const variable: Variable = { kind: "variable", name, space, offset: 0, byteLength, elementBytes };
    const base = space !== "shared" ? untrackedBase : linkage === "extern" ? external : this.#newBase(byteLength);
    this.bases.set(variable, base);
    return variable;
  }

  #newBase(byteLength: number): number {
    const base = dynamicShared - this.sharedBytes.size;
    this.sharedBytes.set(base, byteLength);
    return base;
  }

  protected override acceptDirective(): void {}

  protected override leaveOut(error: PtxError): never {
    throw error;
  }
}

/**
 * Divides a kernel into basic blocks. A trap ends a basic block, because the thread ends there. A call does not: called
 * functions are not analyzed, so a call is treated like any other instruction.
 */
class KernelFlowBuilder extends FlowBuilder<InstructionRow, FlowStep> {
  build(): CodeBlock {
    this.returning.terminator = { kind: "jump", target: this.exiting };
    return this.buildBlocks();
  }

  protected override stepOf(instruction: ResolvedInstruction): FlowStep | undefined {
    const { flow, traits } = instruction.form;
    const endsBlock = (flow !== undefined && flow !== "call") || traits.effects?.includes("traps") === true;
    return endsBlock ? undefined : { instruction };
  }

  protected override flowOf({ form }: ResolvedInstruction): Flow {
    return form.flow ?? "exit";
  }

  protected override branchStep(instruction: ResolvedInstruction): FlowStep {
    return { instruction };
  }

  protected override switchStep(instruction: ResolvedInstruction): FlowStep {
    return { instruction };
  }

  protected override leave(_: ResolvedInstruction, next: CodeBlock): CodeBlock {
    return next;
  }
}

/** Assigns an index to each register in the instructions. */
function numbered(instructions: readonly ResolvedInstruction[]): ReadonlyMap<Register, number> {
  const numbers = new Map<Register, number>();
  for (const register of instructions.flatMap(registersOfInstruction)) {
    if (!numbers.has(register)) numbers.set(register, numbers.size);
  }
  return numbers;
}
