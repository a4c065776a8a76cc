/**
 * The types in which `CudaModule.instructionSupport` reports how the software device supports a module's instructions,
 * and the error for unsupported PTX.
 *
 * @module
 */
import { PtxError } from "./syntax.ts";

/** The uses of an instruction in the kernels of a module. */
export interface InstructionUse {
  /**
   * The instruction with its modifiers, such as `sin.approx.ftz.f32`. For an entry of another kind, such as a special
   * register, its name.
   */
  readonly instruction: string;
  /**
   * The section of the PTX ISA manual, version 9.0. Undefined if the entry is not an instruction, or the section is
   * unknown.
   */
  readonly section: string | undefined;
  /** The lines of the PTX that contain the instruction, counted from 1, in ascending order. */
  readonly lines: readonly number[];
  /** The kernels that contain the instruction, directly or in functions that they may call. */
  readonly kernels: readonly string[];
  /** If the module was linked, the name of the PTX image that `lines` refer to. */
  readonly image?: string;
}

/** An instruction whose result has the same bits on the software device and on a GPU. */
export interface ExactInstruction extends InstructionUse {
  /** The software device and a GPU both compute the bits that the manual defines. */
  readonly support: "exact";
  /**
   * Whether a GPU's driver may fuse the instruction with another one into an instruction that rounds once instead of
   * twice. True if the instruction has no rounding modifier. The software device follows the fusion rules of ptxas
   * 13.0, as far as these rules are known.
   */
  readonly mayBeFused: boolean;
}

/** An instruction for which the PTX manual states an error bound instead of defining every bit of the result. */
export interface ApproximateInstruction extends InstructionUse {
  /** The results of the software device and of a GPU may differ, but are both within the error bound. */
  readonly support: "approximate";
  /** The maximum error of a result that the manual states, such as `2^-22.9 relative`. */
  readonly bound: string;
}

/** A hint, such as `prefetch`, which changes no result, and which the software device ignores. */
export interface IgnoredInstruction extends InstructionUse {
  /** The software device executes the instruction without any effect. */
  readonly support: "ignored";
}

/**
 * An instruction that the software device does not support. A kernel that contains the instruction cannot be launched,
 * even if the kernel never executes it.
 */
export interface UnsupportedInstruction extends InstructionUse {
  /** Kernels that contain the instruction cannot be launched. */
  readonly support: "unsupported";
  /** The reason why the instruction is not supported, such as `there are no tensor cores`. */
  readonly reason: string;
}

/** How the software device supports an instruction of a module. */
export type InstructionSupport =
  | UnsupportedInstruction
  | ApproximateInstruction
  | IgnoredInstruction
  | ExactInstruction;

/** PTX text, and the name by which messages refer to it. PTX that is not linked with other images has no name. */
export interface SurveyedPtx {
  readonly name?: string;
  readonly ptx: string;
}

/**
 * Thrown for PTX that a GPU may accept but the software device does not support. Kernels that contain the PTX, directly
 * or in functions that they may call, cannot be launched; the module's other kernels can. Any other `PtxError` means
 * that a GPU would not load the module either.
 */
export class UnsupportedPtxError extends PtxError {
  /** The unsupported instruction. Undefined if the unsupported PTX is not an instruction. */
  readonly instruction: RefusedInstruction | undefined;

  constructor(line: number, message: string, instruction?: RefusedInstruction) {
    super(line, message);
    this.instruction = instruction;
  }

  /** Creates the error for an unsupported instruction. */
  static ofInstruction(line: number, instruction: RefusedInstruction): UnsupportedPtxError {
    return new UnsupportedPtxError(line, `cannot compile "${instruction.text}": ${instruction.reason}`, instruction);
  }
}

/** An instruction that the software device does not support. */
export interface RefusedInstruction {
  /** The instruction as written, such as `ld.global.b128`. */
  readonly text: string;
  /** The section of the PTX ISA manual. Undefined if the section is unknown. */
  readonly section: string | undefined;
  readonly reason: string;
}
