/**
 * Checks the instructions of a kernel without compiling the kernel: emits each instruction by itself, and discards the
 * code.
 *
 * Whether an instruction can be emitted depends on its form and its operands, but not on the instructions around it. So
 * of the instructions that differ only in their registers' names, one is emitted.
 *
 * @module
 */
import { controlFlow } from "../control_flow/function_flow.ts";
import type { CompiledInstruction, InstructionForm } from "../instructions/instruction_form.ts";
import { reversePostorder } from "../../../ptx/analysis/control_flow_graph.ts";
import type { ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { PtxError } from "../../../ptx/syntax.ts";
import { WarpFunctions } from "../tensor_cores/warp_functions.ts";
import type { ResolvedFunction, ResolvedKernel } from "../typing/resolver.ts";
import { type EmitOptions, FunctionEmitter, type SpaceSizes } from "./function_emitter.ts";

/** Emits the instructions of a module's kernels to find out whether compiling them can fail. */
export class TrialEmission {
  readonly #sizes: SpaceSizes;
  readonly #options: EmitOptions;
  readonly #functions = new WarpFunctions(0);
  /** The instructions that were emitted without an error, described by their operands, by form and modifiers. */
  readonly #emitted = new Map<InstructionForm, Map<CompiledInstruction["choices"], Set<string>>>();
  /** Numbers for the operands that are described by their identity. */
  readonly #numbers = new Map<object, number>();

  /** @param constants the part of the module's image that contains the `.const` variables */
  constructor(constants: SpaceSizes["constants"], options: EmitOptions) {
    this.#options = options;
    this.#sizes = {
      parameters: 0,
      shared: undefined,
      staticShared: 0,
      usesReservedShared: true,
      usesClusterMemory: true,
      local: 0,
      hasFrames: true,
      hasStackPointer: true,
      frameAlignment: 16,
      constants,
    };
  }

  /**
   * Returns whether each instruction of a kernel, and of the functions that it may call, can be emitted. May return
   * false for a kernel that can be compiled, because the control flow never reaches the instruction.
   */
  accepts({ kernel, callees }: ResolvedKernel): boolean {
    const emitter = new FunctionEmitter(this.#sizes, this.#options, { functions: this.#functions });
    try {
      for (const resolved of [kernel, ...callees.values()]) {
        for (const item of resolved.items) if (item.kind === "instruction") this.#try(item, { resolved, emitter });
      }
      return true;
    } catch (error) {
      if (error instanceof PtxError) return false;
      throw error;
    }
  }

  #try(
    instruction: CompiledInstruction,
    { resolved, emitter }: { readonly resolved: ResolvedFunction; readonly emitter: FunctionEmitter },
  ): void {
    const { form, choices, operands, predicate } = instruction;
    let ofForm = this.#emitted.get(form);
    if (ofForm === undefined) this.#emitted.set(form, ofForm = new Map());
    let emitted = ofForm.get(choices);
    if (emitted === undefined) ofForm.set(choices, emitted = new Set());
    let description = predicate === undefined ? "" : "@";
    for (const operand of operands) description += this.#describe(operand);
    if (emitted.has(description)) return;
    const labels = operands.flatMap((operand) => {
      return operand.kind === "label" ? [operand] : operand.kind === "labels" ? operand.labels : [];
    });
    const { entry, suspendPoints } = controlFlow({ ...resolved, items: [instruction, ...labels] });
    emitter.emitSeparately(() => {
      for (const { instructions, terminator } of reversePostorder(entry)) {
        for (const step of instructions) step.emit(emitter);
        if ((terminator.kind === "branch" || terminator.kind === "switch") && "emit" in terminator.on) {
          terminator.on.emit(emitter);
        }
      }
      if (suspendPoints.length > 0) form.suspending?.answer?.(emitter, instruction);
    });
    emitted.add(description);
  }

  /** Returns a string that is the same for all operands with which an instruction can equally be emitted. */
  #describe(operand: ResolvedOperand): string {
    switch (operand.kind) {
      case "register":
        return ` ${operand.type.name}${operand.isElement ? "[]" : ""}`;
      case "integer":
        return ` ${operand.value}`;
      case "float":
        return ` ${operand.precision} ${operand.bits}`;
      case "special":
        return ` ${operand.name}`;
      case "address":
        return ` [${operand.base === undefined ? "" : this.#describe(operand.base)}+${operand.offset}]`;
      case "sum":
        return ` ${this.#describe(operand.variable)}+${operand.offset}${operand.isElement ? "[]" : ""}`;
      case "vector":
        return ` {${this.#describeAll(operand.elements)}}${operand.isWide ? "w" : ""}`;
      case "list":
        return ` (${this.#describeAll(operand.elements)})`;
      case "pair":
        return `${this.#describe(operand.first)}|${this.#describe(operand.second)}`;
      case "not":
        return " !";
      case "sink":
        return " _";
      case "label":
        return " label";
      default:
        return ` #${this.#numberOf(operand)}`;
    }
  }

  #describeAll(operands: readonly ResolvedOperand[]): string {
    return operands.map((operand) => this.#describe(operand)).join("");
  }

  #numberOf(operand: object): number {
    let number = this.#numbers.get(operand);
    if (number === undefined) this.#numbers.set(operand, number = this.#numbers.size);
    return number;
  }
}
