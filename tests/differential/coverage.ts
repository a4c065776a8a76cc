/**
 * Finds which of the software device's instructions the operations and programs cover.
 *
 * @module
 */
import type { InstructionForm } from "../../src/software/compiler/instructions/instruction_form.ts";
import { allInstructions, instructionSet } from "../../src/software/compiler/instructions/instructions.ts";
import { refusedForms } from "../../src/software/compiler/instructions/refused_instructions.ts";
import { matchForm } from "../../src/ptx/instructions/form_syntax.ts";
import { type Exclusion, exclusions } from "./exclusions.ts";
import { operations } from "./operations.ts";
import { randomProgram } from "./program.ts";

/** Enough programs to contain everything that operations do not: branches, barriers, loads and stores. */
const programs = 50;

/**
 * Returns the forms, and the modifiers of forms, that no operation and no program uses and that no exclusion names:
 * `"add.rn.f32 d, a, b"`, or with a modifier `"add.rn.f32 d, a, b: .ftz"`.
 */
export function untriedForms(): string[] {
  const tried = new Map<InstructionForm, Set<string>>();
  for (const instruction of triedInstructions()) {
    for (const { form, choices } of formsOf(instruction)) {
      const seen = tried.get(form) ?? new Set();
      for (const choice of choices) seen.add(choice);
      tried.set(form, seen);
    }
  }
  return allInstructions().flatMap((form) => {
    // Programs are of PTX that no longer has some forms; the compiler's tests compare these with later forms.
    const isOfEarlyPtx = form.traits.removedIn !== undefined || form.traits.ofActiveLanes === true;
    if (isOfEarlyPtx || refusedForms().includes(form) || isExcluded(form, undefined)) return [];
    const seen = tried.get(form);
    if (seen === undefined) return [form.syntax];
    return form.slots.flatMap(({ choices }) => [...choices])
      .filter((choice) => !seen.has(choice) && !isExcluded(form, choice))
      .map((choice) => `${form.syntax}: .${choice}`);
  });
}

/**
 * Returns the opcodes and modifiers of exclusions that no form has: `"brkpt"`, or with a modifier `"set: .gt"`. An
 * exclusion for all instructions has modifiers alone: `": .approx"`.
 */
export function staleExclusions(): string[] {
  const known = allInstructions().filter((form) => !refusedForms().includes(form));
  return exclusions.flatMap(({ opcodes, modifiers = [] }) => {
    const forms = known.filter(({ opcode }) => opcodes === undefined || opcodes.includes(opcode));
    const unknown = (opcodes ?? []).filter((opcode) => !forms.some((form) => form.opcode === opcode));
    const unused = modifiers.filter((modifier) =>
      !forms.some(({ slots }) => slots.some(({ choices }) => choices.has(modifier)))
    );
    return [...unknown, ...unused.map((modifier) => `${(opcodes ?? []).join(", ")}: .${modifier}`)];
  });
}

function isExcluded(form: InstructionForm, choice: string | undefined): boolean {
  return exclusions.some((exclusion) => excludes(exclusion, form, choice));
}

function excludes({ opcodes, modifiers }: Exclusion, form: InstructionForm, choice: string | undefined): boolean {
  if (opcodes !== undefined && !opcodes.includes(form.opcode)) return false;
  if (modifiers === undefined) return true;
  if (choice !== undefined) return modifiers.includes(choice);
  // A form is excluded if it cannot be written without one of the modifiers.
  return form.slots.some((slot) => !slot.optional && [...slot.choices].every((each) => modifiers.includes(each)));
}

function triedInstructions(): Set<string> {
  const written = operations.flatMap(({ text }) => text.split(";").map((instruction) => instruction.trim()));
  for (let seed = 0; seed < programs; seed++) {
    for (const line of randomProgram(seed).text.split("\n")) {
      const instruction = line.trim().replace(/^@!?\w+ /, "");
      if (/^[a-z]\w*(?:\.[\w:]+)*(?: .*)?;$/.test(instruction)) written.push(instruction.slice(0, -1));
    }
  }
  return new Set(written);
}

/** Returns the forms that an instruction may have, and the modifiers that it chooses in each. */
export function formsOf(instruction: string): { form: InstructionForm; choices: Iterable<string> }[] {
  const [head = "", ...rest] = instruction.replace(/^@!?\w+ /, "").split(" ");
  const [opcode = "", ...modifiers] = head.split(".");
  const tail = rest.join(" ").replaceAll(/[[{].*?[\]}]/g, "x").trim();
  const operands = tail === "" ? 0 : tail.split(",").length;
  return (instructionSet.forms.get(opcode) ?? []).flatMap((form) => {
    const match = matchForm(form, modifiers);
    if (!match.matched || operands < form.operands[0] || operands > form.operands[1]) return [];
    return [{ form, choices: match.choices.values() }];
  });
}
