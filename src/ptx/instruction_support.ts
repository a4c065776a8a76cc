/**
 * What the software device makes of the instructions of a module, as `CudaModule.instructionSupport` reports it, and
 * the error for PTX that it does not support.
 *
 * @module
 */
import { PtxError } from "./syntax.ts";

/** Where the kernels of a module have an instruction. */
export interface InstructionUse {
  /** The instruction with its modifiers, such as `sin.approx.ftz.f32`; the name alone if it is not an instruction. */
  readonly instruction: string;
  /** The section of the PTX ISA manual, version 9.0. Undefined if it is no instruction, or its section is not known. */
  readonly section: string | undefined;
  /** The lines of the PTX that have it, ascending from 1. */
  readonly lines: readonly number[];
  /** The kernels that have it, themselves or in functions that they may call. */
  readonly kernels: readonly string[];
  /** The name of the PTX that the lines belong to, if the module was linked. */
  readonly image?: string;
}

/** An instruction whose result has the same bits on the software device and on a GPU. */
export interface ExactInstruction extends InstructionUse {
  /** Both compute the bits that the manual defines. */
  readonly support: "exact";
  /**
   * Whether a GPU's driver may fuse it with another instruction, and then rounds once instead of twice: it has no
   * rounding modifier. The software device fuses by the rule of ptxas 13.0, as far as that is known.
   */
  readonly mayBeFused: boolean;
}

/** An instruction whose result the PTX manual defines within a bound only. */
export interface ApproximateInstruction extends InstructionUse {
  /** Results may differ within the bound. */
  readonly support: "approximate";
  /** How far a result may be from the exact one, as the manual states it: `2^-22.9 relative`. */
  readonly bound: string;
}

/** A hint, such as `prefetch`, which changes no result, and which the software device ignores. */
export interface IgnoredInstruction extends InstructionUse {
  /** It does nothing. */
  readonly support: "ignored";
}

/**
 * An instruction that the software device does not run. It refuses the kernels that contain it, even if they never
 * execute it.
 */
export interface UnsupportedInstruction extends InstructionUse {
  /** The kernels are refused. */
  readonly support: "unsupported";
  /** Why, such as `there are no tensor cores`. */
  readonly reason: string;
}

/** How the software device supports an instruction of a module. */
export type InstructionSupport =
  | UnsupportedInstruction
  | ApproximateInstruction
  | IgnoredInstruction
  | ExactInstruction;

/** PTX, and the name that messages call it by. A module that was not linked has no name. */
export interface SurveyedPtx {
  readonly name?: string;
  readonly ptx: string;
}

/**
 * PTX that a GPU accepts, or may accept, and that the software device does not run. It concerns the kernels that reach
 * it only: the module's other kernels run. Any other `PtxError` means that a GPU refuses the whole module, too.
 */
export class UnsupportedPtxError extends PtxError {
  /** The refused instruction, if it is one. */
  readonly instruction: RefusedInstruction | undefined;

  constructor(line: number, message: string, instruction?: RefusedInstruction) {
    super(line, message);
    this.instruction = instruction;
  }

  /** The error for an instruction. */
  static ofInstruction(line: number, instruction: RefusedInstruction): UnsupportedPtxError {
    return new UnsupportedPtxError(line, `cannot compile "${instruction.text}": ${instruction.reason}`, instruction);
  }
}

/** An instruction that the device does not run. */
export interface RefusedInstruction {
  /** As it was written: `ld.global.b128`. */
  readonly text: string;
  /** The section of the PTX ISA manual. Undefined if it is not known. */
  readonly section: string | undefined;
  readonly reason: string;
}
