/**
 * PTX whose kernels note what they access.
 *
 * Each kernel gets a second version beside the first, with one more parameter: the address of a table of memory ranges,
 * each with a bitmap for each kind of access and a bit for each byte.
 *
 * @module
 */
import { findRow } from "../../ptx/instructions/find_row.ts";
import { accessOf } from "./memory_step.ts";
import { bitsOf } from "./kernel_code.ts";

/** What the names of second versions end with. */
export const observedSuffix = "__poolpass_observed";
/** The kinds of accesses, in the order of their bitmaps. */
export const observedKinds = ["read", "write", "atomic"] as const;
/** The bytes of a range in the table, behind the 8 bytes of their number: its begin, its length, and its bitmaps. */
export const tableEntryBytes = 40;

/** Records the bytes of `mask` from an address on. They lie in one word of the bitmap, because accesses are aligned. */
const noteFunction = `
.func poolpass_note(.reg .u64 %table, .reg .u64 %address, .reg .u32 %mask, .reg .u32 %kind)
{
  .reg .b64 %n<8>;
  .reg .b32 %m<4>;
  .reg .pred %q<2>;
  ld.global.u32 %m0, [%table];
  add.u64 %n0, %table, 8;
$next:
  setp.eq.u32 %q0, %m0, 0;
  @%q0 bra $done;
  ld.global.u64 %n1, [%n0];
  ld.global.u64 %n2, [%n0+8];
  sub.u64 %n3, %address, %n1;
  setp.lt.u64 %q1, %n3, %n2;
  @%q1 bra $found;
  add.u64 %n0, %n0, ${tableEntryBytes};
  sub.u32 %m0, %m0, 1;
  bra $next;
$found:
  mul.wide.u32 %n4, %kind, 8;
  add.u64 %n4, %n0, %n4;
  ld.global.u64 %n5, [%n4+16];
  shr.u64 %n6, %n3, 5;
  shl.b64 %n6, %n6, 2;
  add.u64 %n5, %n5, %n6;
  cvt.u32.u64 %m1, %n3;
  and.b32 %m1, %m1, 31;
  shl.b32 %m2, %mask, %m1;
  red.global.or.b32 [%n5], %m2;
$done:
  ret;
}
`;

/** Comments, and strings, in which nothing counts. */
const commentOrString = /\/\/[^\n]*|\/\*[^]*?\*\/|"[^"\n]*"/g;
const entryHead = /(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$%]+)\s*(\([^)]*\))?([^{};]*)\{/g;
const memoryInstruction =
  /(@!?[\w$%]+\s+)?(?<![\w$%.])(ld|ldu|st|atom|red)((?:(?:\.|::)\w+)+)\s+([^;{}\[]*(?:\{[^}]*\}[^;{}\[]*)?\[\s*([\w$%]+)\s*(?:\+\s*(-?\w+))?\s*\][^;]*);/g;

/** The text with second versions of its kernels. Undefined if it has none, or debug information, which names places. */
export function instrumentedPtx(text: string): string | undefined {
  const plain = text.replaceAll(commentOrString, (found) => found.startsWith('"') ? found : " ");
  if (/\.section\s+\.debug_info/.test(plain)) return undefined;
  const versions: string[] = [];
  for (const match of plain.matchAll(entryHead)) {
    const [whole, name, parameters = "()", directives] = match as unknown as [string, string, string, string];
    const end = endOfBraces(plain, match.index + whole.length);
    if (end === undefined) return undefined;
    const inner = parameters.slice(1, -1).trim();
    const table = `${inner}${inner === "" ? "" : ", "}.param .u64 poolpass_table`;
    const body = observedBody(plain.slice(match.index + whole.length, end));
    versions.push(`.visible .entry ${name}${observedSuffix}(${table})${directives}{\n${body}}\n`);
  }
  return versions.length === 0 ? undefined : `${text}\n${noteFunction}${versions.join("\n")}`;
}

/** The index of the brace that closes what was opened before an index. */
function endOfBraces(text: string, begin: number): number | undefined {
  let depth = 1;
  for (let index = begin; index < text.length; index++) {
    const character = text[index];
    if (character === "{") depth++;
    else if (character === "}" && --depth === 0) return index;
  }
  return undefined;
}

function observedBody(body: string): string {
  let count = 0;
  const noted = body.replaceAll(/^\s*\.loc\b[^\n]*$/gm, "").replaceAll(
    memoryInstruction,
    (whole, guard: string | undefined, opcode: string, modifiers: string, _, base: string, offset = "0") => {
      const note = noteOf({ opcode, modifiers: modifiers.split(/\.(?!:)/).slice(1), base, offset });
      if (note === undefined) return whole;
      if (guard === undefined) return `${note}\n${whole}`;
      const label = `$poolpass_skip_${count++}`;
      const opposite = guard.startsWith("@!") ? `@${guard.slice(2)}` : `@!${guard.slice(1)}`;
      return `${opposite.trim()} bra ${label};\n${note}\n${label}:\n${whole}`;
    },
  );
  return `.reg .b64 %poolpass_table;\nld.param.u64 %poolpass_table, [poolpass_table];\n${noted}`;
}

/** Records an access before it is made. Undefined for memory that is not looked at. */
function noteOf(
  { opcode, modifiers, base, offset }: { opcode: string; modifiers: readonly string[]; base: string; offset: string },
): string | undefined {
  // A name without a percent sign is a variable's or a parameter's.
  if (!base.startsWith("%")) return undefined;
  const address = { kind: "address", base: { kind: "unknown" }, offset: 0 } as const;
  const known = accessOf({
    row: findRow(opcode, modifiers),
    modifiers,
    operands: [address],
    guard: undefined,
    line: 0,
  });
  if (known === undefined || known === "unknown" || known.byteLength > bitsOf("b32")) return undefined;
  const mask = 2 ** known.byteLength - 1;
  const kind = observedKinds.indexOf(known.access);
  return `{ .reg .b64 %poolpass_address; .reg .b32 %poolpass_mask, %poolpass_kind;
add.s64 %poolpass_address, ${base}, ${offset};
mov.u32 %poolpass_mask, ${mask}; mov.u32 %poolpass_kind, ${kind};
call poolpass_note, (%poolpass_table, %poolpass_address, %poolpass_mask, %poolpass_kind); }`;
}
