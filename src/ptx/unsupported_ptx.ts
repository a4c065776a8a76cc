import { PtxError } from "./syntax.ts";

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
