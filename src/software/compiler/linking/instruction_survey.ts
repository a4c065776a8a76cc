/**
 * Lists the instructions of a module, and how the software device supports each of them.
 *
 * @module
 */
import { kernelSignature } from "../../../ptx/kernel_signature.ts";
import { type InstructionSupport, type SurveyedPtx, UnsupportedPtxError } from "../../../ptx/instruction_support.ts";
import { parsePtx } from "../../../ptx/parsing/parser.ts";
import type { FunctionDeclaration, PtxModule } from "../../../ptx/syntax.ts";
import { compilePtx } from "../compile.ts";
import { mayBeContracted } from "../../../ptx/instructions/instruction_traits.ts";
import { instructionSet } from "../instructions/instructions.ts";
import { specialRegister } from "../instructions/special_registers.ts";
import { linkModules } from "./link_ptx.ts";
import { type ModuleScope, moduleScope } from "../typing/module_scope.ts";
import type { ResolvedInstruction, ResolvedOperand, Variable } from "../../../ptx/instructions/resolved_instruction.ts";
import { checkHeader } from "../typing/supported_ptx.ts";
import { instructionsOf, surveyKernel } from "../typing/resolver.ts";

type Place = { readonly line: number; readonly image?: string };
type Without<T> = T extends unknown ? Omit<T, "lines" | "kernels"> : never;
/** The properties of an instruction that do not depend on its position in the PTX. */
type Kind = Without<InstructionSupport>;

interface Use {
  readonly kind: Kind;
  readonly line: number;
}

/** The order in which instructions are listed, by their kind of support: most important for users first. */
const order: readonly InstructionSupport["support"][] = ["unsupported", "approximate", "ignored", "exact"];

/**
 * Lists the instructions that the kernels of a module may execute. The module is given as one PTX text, or as several
 * that are linked. Throws `PtxError` or `LinkError` under the same conditions as the compiler.
 */
export function surveyInstructions(images: readonly SurveyedPtx[]): InstructionSupport[] {
  const { module, placeOf } = parse(images);
  const scope = moduleScope(module, instructionSet);
  const found = new Map<string, { kind: Kind; lines: Set<number>; kernels: Set<string> }>();
  // Some unsupported PTX is detected only while code is emitted, so this compiles the module to collect the errors.
  const { refusals } = compilePtx(module, { gangs: false });
  for (const kernel of module.functions) {
    if (kernel.kind !== "entry" || kernel.body === undefined) continue;
    for (const { kind, line } of usesOf(kernel, { scope, refusal: refusals.get(kernel.name) })) {
      const { image, ...place } = placeOf(line);
      const key = JSON.stringify([kind, image]);
      const entry = found.get(key) ??
        { kind: image === undefined ? kind : { ...kind, image }, lines: new Set<number>(), kernels: new Set<string>() };
      found.set(key, entry);
      entry.lines.add(place.line);
      entry.kernels.add(kernel.name);
    }
  }
  return [...found.values()].map(({ kind, lines, kernels }): InstructionSupport => ({
    ...kind,
    lines: [...lines].sort((a, b) => a - b),
    kernels: [...kernels],
  })).sort((a, b) => order.indexOf(a.support) - order.indexOf(b.support));
}

function parse(images: readonly SurveyedPtx[]): { module: PtxModule; placeOf: (line: number) => Place } {
  const [{ name, ptx }] = images as [SurveyedPtx];
  if (name === undefined) return { module: parsePtx(ptx, checkHeader), placeOf: (line) => ({ line }) };
  const { module, lines } = linkModules(images.map(({ name = "", ptx }) => ({ name, ptx })));
  return { module: { ...module, lineInfo: lines }, placeOf: (line) => lines.placeOf(line) };
}

/**
 * Returns the instructions of a kernel and of the functions that it may call. If a declaration is not supported,
 * returns only that declaration's error.
 *
 * @param options.refusal the compiler's reason for refusing the kernel, if any
 */
function usesOf(
  kernel: FunctionDeclaration,
  { scope, refusal }: { readonly scope: ModuleScope; readonly refusal: UnsupportedPtxError | undefined },
): Iterable<Use> {
  const uses = new Map<string, Use>();
  const add = (kind: Kind, line: number) => uses.set(`${line} ${kind.instruction}`, { kind, line });
  const refuse = (error: UnsupportedPtxError) => void add(kindOfRefusal(error, kernel.name), error.line);
  try {
    const { resolved, unsupported } = surveyKernel(kernel, { parameters: parametersOf(kernel), module: scope });
    for (const body of [resolved.kernel, ...resolved.callees.values()]) {
      for (const instruction of instructionsOf(body)) add(kindOf(instruction), instruction.line);
    }
    unsupported.forEach(refuse);
  } catch (error) {
    if (!(error instanceof UnsupportedPtxError)) throw error;
  }
  if (refusal !== undefined) refuse(refusal);
  return uses.values();
}

function parametersOf(kernel: FunctionDeclaration): Variable[] {
  return kernelSignature(kernel).parameters.map(({ offset, byteLength }, index) => {
    return { kind: "variable", name: kernel.parameters[index]!.name, space: "param", offset, byteLength };
  });
}

function kindOf(instruction: ResolvedInstruction): Kind {
  const { text, form: { section, traits } } = instruction;
  const named = { instruction: text, section };
  const register = instruction.operands.map(unsupportedRegister).find((name) => name !== undefined);
  if (register !== undefined) {
    return { ...named, support: "unsupported", reason: `the special register ${register} is not supported` };
  }
  if (traits.bound !== undefined) return { ...named, support: "approximate", bound: traits.bound };
  if (traits.hasNoEffect) return { ...named, support: "ignored" };
  return { ...named, support: "exact", mayBeFused: mayBeContracted(instruction) };
}

/** If an operand is a special register that the device does not support, returns its name. */
function unsupportedRegister(operand: ResolvedOperand): string | undefined {
  return operand.kind === "special" && specialRegister(operand.name) === undefined ? operand.name : undefined;
}

function kindOfRefusal({ instruction, message }: UnsupportedPtxError, kernel: string): Kind {
  if (instruction !== undefined) {
    const { text, section, reason } = instruction;
    return { instruction: text, section, support: "unsupported", reason };
  }
  // The error concerns a directive, a variable or a size. List the name that the message quotes, or else the name of
  // the kernel.
  const reason = message.replace(/^(?:In .*?: )?Line \d+: /, "");
  return { instruction: /"([^"]*)"/.exec(reason)?.[1] ?? kernel, section: undefined, support: "unsupported", reason };
}
