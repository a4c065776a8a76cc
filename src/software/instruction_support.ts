import type { InstructionSupport, SurveyedPtx } from "../ptx/instruction_support.ts";
import { surveyInstructions } from "./compiler/linking/instruction_survey.ts";
import { errorOfPtx } from "./execution/modules/loaded_module.ts";

/**
 * How the software device supports the instructions of a module, whichever driver has loaded it.
 *
 * @throws {CudaError} as loading the module on the software device does
 */
export function instructionSupport(images: readonly SurveyedPtx[]): readonly InstructionSupport[] {
  try {
    return surveyInstructions(images);
  } catch (error) {
    throw errorOfPtx(error, "cuModuleLoadDataEx");
  }
}
