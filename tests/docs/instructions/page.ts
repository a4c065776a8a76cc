/**
 * The text of `docs/ptx_instructions.md`: every instruction of PTX, and what the software device makes of it, from the
 * compiler's table of instructions.
 *
 * @module
 */
import { readSlots } from "../../../src/ptx/instructions/form_syntax.ts";
import type { InstructionForm } from "../../../src/software/compiler/instructions/instruction_form.ts";
import { allInstructions } from "../../../src/software/compiler/instructions/instructions.ts";
import { refusedOpcodes } from "../../../src/software/compiler/instructions/refused_instructions.ts";
import { manual, type ManualSection } from "./manual.ts";

const head =
  `<!-- Written by \`deno task docs:instructions\` from the compiler's table of instructions: do not edit. -->

# PTX instructions on the software device

This page lists every instruction of PTX ISA 9.0, with its section in the
[manual](https://docs.nvidia.com/cuda/parallel-thread-execution/), and says whether it runs on the
[software device](./software_device.md). \`module.instructionSupport()\` returns the same for one module.

- **runs**: the result has the bits that the manual defines.
- **runs within a bound**: the manual defines a bound for the error of the result. The results of the software device and
  of a GPU are both within the bound, but their bits may differ.
- **no effect**: a hint that changes no result. The software device ignores it.
- **refused**: \`module.kernel(name)\` refuses the kernels that reach the instruction, with the reason.

In the forms, \`[.ftz]\` is optional, and \`.{rn|rz}\` is one of the two. A form that is not listed is refused. The device
has the compute capability 9.0: it loads no module for \`sm_100\` or newer, and has none of the forms that need it. The
manual says which types of a form may be combined, and which operands may be constants.
`;

/** The text of the page, as it is before \`deno fmt\`. */
export function instructionPage(): string {
  const chapters = manual.map(({ section, title, sections }) => {
    return `## ${title} (${section})\n\n${sections.map(textOfSection).join("\n")}\n`;
  });
  return [head, ...chapters].join("\n");
}

/** What the page and the table disagree on: rows that no section has or whose section is
 * marked as refused, and the reverse. */
export function unmatched(): { readonly rows: string[]; readonly opcodes: string[]; readonly sections: string[] } {
  const all = manual.flatMap(({ sections }) => sections);
  const isListed = (opcode: string, section: string) =>
    all.some((each) =>
      each.opcodes.includes(opcode) && (each.section === section || each.section.startsWith(`${section}.`))
    );
  const isRefused = (section: string) =>
    all.some((each) => each.section === section && (each.modifier ?? each.architecture) !== undefined);
  return {
    rows: allInstructions().filter(({ opcode, section, refusal }) => {
      return !isListed(opcode, section) || (refusal === undefined && isRefused(section));
    }).map(({ syntax, section }) => `${syntax}, ${section}`),
    opcodes: [...refusedOpcodes].filter(([opcode, { section }]) => !isListed(opcode, section)).map(([opcode]) =>
      opcode
    ),
    sections: all.filter((each) => linesOfSection(each).length === 0).map(({ section }) => section),
  };
}

function textOfSection(section: ManualSection): string {
  const lines = linesOfSection(section);
  const name = `- \`${section.title.split(", ").join("`, `")}\` (${section.section})`;
  return lines.length === 1 && lines[0]!.forms === "" ? `${name}: ${lines[0]!.what}` : [
    name,
    ...lines.map(({ what, forms, because }) => {
      return `  - ${what}: ${forms}${because === undefined ? "" : `, because ${because}`}`;
    }),
  ].join("\n");
}

/** One line of a section: the forms for which the same is true. */
interface Line {
  readonly what: string;
  /** Empty if it concerns the whole section. */
  readonly forms: string;
  readonly because?: string | undefined;
}

function linesOfSection({ section, opcodes, modifier, architecture }: ManualSection): Line[] {
  if (architecture !== undefined) return [{ what: `refused: it needs \`${architecture}\``, forms: "" }];
  const rows = allInstructions().filter((form) => form.section === section && opcodes.includes(form.opcode));
  if (modifier !== undefined) {
    const { refusal } = allInstructions().find((form) =>
      opcodes.includes(form.opcode) && form.refusedFor === modifier
    )!;
    return [{ what: `refused: ${refusal}`, forms: "" }];
  }
  const byKind = Map.groupBy(
    rows.filter(({ refusedFor }) => !isOfOtherSection(opcodes, refusedFor)),
    (form) => `${kindOf(form)} ${form.refusal}`,
  );
  const lines = [...byKind.values()].map((forms): Line => ({
    what: kindOf(forms[0]!),
    because: forms[0]!.refusal,
    forms: forms.map(({ opcode, syntax, refusedFor, traits }) => {
      if (refusedFor !== undefined) return `\`${opcode}\` with \`.${refusedFor}\``;
      const { removedIn } = traits;
      return `\`${readable(syntax)}\`${removedIn === undefined ? "" : ` before PTX ${removedIn}`}`;
    }).join(", "),
  }));
  const refused = Map.groupBy(opcodes.filter((opcode) => refusedOpcodes.has(opcode)), (opcode) => {
    return refusedOpcodes.get(opcode)!.reason;
  });
  for (const [reason, names] of refused) {
    const isAll = rows.length === 0 && names.length === opcodes.length;
    lines.push(
      isAll
        ? { what: `refused: ${reason}`, forms: "" }
        : { what: "refused", forms: `\`${names.join("`, `")}\``, because: reason },
    );
  }
  return lines;
}

/** Whether a modifier that an opcode is refused for has a section of its own. */
function isOfOtherSection(opcodes: readonly string[], modifier: string | undefined): boolean {
  return modifier !== undefined &&
    manual.some(({ sections }) =>
      sections.some((other) => other.modifier === modifier && other.opcodes.some((opcode) => opcodes.includes(opcode)))
    );
}

function kindOf({ refusal, traits: { bound, hasNoEffect } }: InstructionForm): string {
  if (refusal !== undefined) return "refused";
  if (bound !== undefined) return `runs within a bound (${bound})`;
  return hasNoEffect ? "no effect" : "runs";
}

/** The names of choices, without those in the middle if there are many, as there are shapes of products. */
function shortened(names: readonly string[]): readonly string[] {
  return names.length <= 16 ? names : [...names.slice(0, 2), "...", names.at(-1)!];
}

/** A row's syntax without the names of its choices: `add[.rn|.rz][.ftz].f32 d, a, b`. */
function readable(syntax: string): string {
  const [head = "", ...operands] = syntax.split(" ");
  const slots = readSlots(syntax).map(({ choices, optional }) => {
    const names = shortened([...choices]);
    if (optional) return `[${names.map((name) => `.${name}`).join("|")}]`;
    return names.length === 1 ? `.${names[0]}` : `.{${names.join("|")}}`;
  });
  return [`${/^[a-z0-9]+/.exec(head)![0]}${slots.join("")}`, ...operands].join(" ");
}
