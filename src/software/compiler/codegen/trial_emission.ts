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
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { reversePostorder } from "../../../ptx/analysis/control_flow_graph.ts";
import type { ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { PtxError } from "../../../ptx/syntax.ts";
import { KernelFunctions } from "../webassembly/kernel_functions.ts";
import type { ResolvedFunction, ResolvedKernel } from "../typing/resolver.ts";
import { type EmitOptions, FunctionEmitter, type SpaceSizes } from "./function_emitter.ts";

/** Emits the instructions of a module's kernels to find out whether compiling them can fail. */
export class TrialEmission {
  readonly #sizes: SpaceSizes;
  readonly #options: EmitOptions;
  readonly #functions = new KernelFunctions(0);
  /** The instructions that were emitted without an error, by form, modifiers and operands. */
  readonly #emitted = new OperandTree();

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
    let place = this.#emitted.at(form).at(choices).at(predicate === undefined);
    for (const operand of operands) place = placeOf(operand, place);
    if (place.isEmitted) return;
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
    place.isEmitted = true;
  }
}

/** A tree of the lists of operands with which instructions were emitted. */
class OperandTree {
  isEmitted = false;
  readonly #next = new Map<unknown, OperandTree>();

  at(key: unknown): OperandTree {
    let next = this.#next.get(key);
    if (next === undefined) this.#next.set(key, next = new OperandTree());
    return next;
  }
}

/**
 * Returns the place of an operand that follows those at `place`. Two operands have the same place if an instruction can
 * be emitted with either or with neither of them.
 */
function placeOf(operand: ResolvedOperand, place: OperandTree): OperandTree {
  switch (operand.kind) {
    case "register":
      return operand.isElement ? place.at("element").at(operand.type) : place.at(operand.type);
    case "integer":
      return place.at(operand.value);
    case "float":
      return place.at(operand.precision).at(operand.bits);
    case "special":
      return place.at("special").at(operand.name);
    case "address":
      return (operand.base === undefined ? place.at("[]") : placeOf(operand.base, place.at("["))).at(operand.offset);
    case "sum":
      return place.at(operand.isElement ? "element" : "sum").at(operand.variable).at(operand.offset);
    case "vector":
      return placeOfAll(operand.elements, place.at(operand.isWide ? "wide" : "{")).at("}");
    case "list":
      return placeOfAll(operand.elements, place.at("(")).at(")");
    case "pair":
      return placeOf(operand.second, placeOf(operand.first, place.at("|")));
    case "not":
    case "sink":
    case "label":
      return place.at(operand.kind);
    default:
      return place.at(operand);
  }
}

function placeOfAll(operands: readonly ResolvedOperand[], place: OperandTree): OperandTree {
  return operands.reduce((place, operand) => placeOf(operand, place), place);
}
