import { allocateOnStack, restoreStack, saveStack } from "../call_instructions.ts";
import type { InstructionForm, LoweringTraits } from "../instruction_form.ts";
import { form } from "./row.ts";

/** Control flow, which the compiler handles by the row's `flow`. */
const control: LoweringTraits = { effects: [], runsInGangs: true };

/** Control flow. */
export const controlFlowForms: readonly InstructionForm[] = [
  form("bra.uni? target", "9.7.12.3", { flow: "branch" }, control),
  form("brx.idx.uni? index, targets", "9.7.12.4", { flow: "switch" }, { effects: [] }),
  form("call.uni? [x, y, z, w]", "9.7.12.5", { flow: "call" }, {
    effects: ["reads", "observes", "writes"],
    validity: "emitted",
  }),
  form("ret.uni?", "9.7.12.6", { flow: "return" }, control),
  form("exit", "9.7.12.7", { flow: "exit" }, control),
];

/** The stack. */
export const stackForms: readonly InstructionForm[] = [
  form("stacksave.<type:u32|u64> d", "9.7.17.1", saveStack, { effects: ["allocates"] }),
  form("stackrestore.<type:u32|u64> a", "9.7.17.2", restoreStack, { effects: ["allocates"] }),
  form("alloca.<type:u32|u64> d, size [, alignment]", "9.7.17.3", allocateOnStack, { effects: ["allocates"] }),
];
