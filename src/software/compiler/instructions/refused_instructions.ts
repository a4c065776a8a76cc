/**
 * Instructions and functions that GPUs support and the software device does not, with the reasons.
 *
 * Rows of supported instructions take precedence: a reason for an opcode is given only if the opcode has no row, and a
 * reason for a modifier only if no row fits. Those rows alone define what is supported; the reasons do not repeat it.
 *
 * @module
 */
import type { RefusalReason } from "../typing/find_form.ts";
import { type InstructionForm, instructionForm } from "./instruction_form.ts";

const needsBlackwell = "it needs a GPU of sm_100 or newer, and this device is one of sm_90";

/** Opcodes that the device does not support at all, with the reasons and the sections of the manual. */
export const refusedOpcodes: ReadonlyMap<string, RefusalReason> = new Map(
  ([
    ["tcgen05", "9.7.16", needsBlackwell],
    ["clusterlaunchcontrol", "9.7.13.17", needsBlackwell],
    ["multimem", "9.7.9.14", "there is no multicast memory"],
  ] as const).flatMap(([opcodes, section, reason]) =>
    opcodes.split(" ").map((opcode) => [opcode, { section, reason }] as const)
  ),
);

/** The manual's sections of instructions that are unsupported only with some modifiers. */
const sections = {
  addc: "9.7.2.2",
  cp: "9.7.9.25.3.1",
  cvt: "9.7.9.21",
  ld: "9.7.9.8",
  madc: "9.7.2.6",
  prefetch: "9.7.9.15",
  red: "9.7.13.6",
  st: "9.7.9.11",
  subc: "9.7.2.4",
} as const;

/**
 * Instructions that are unsupported with one modifier: opcodes, modifiers, the manual's section if it differs from the
 * opcode's, and the reason.
 */
const refusedModifiers = [
  [
    "cp",
    "tile::gather4 tile::scatter4 im2col::w im2col::w::128 cta_group::1 cta_group::2",
    "9.7.9.25.5.2",
    needsBlackwell,
  ],
  ["cp", "cp_mask", "9.7.9.25.4.1", needsBlackwell],
  ["st", "mmio", "9.7.9.12", needsBlackwell],
  ["st", "bulk", "9.7.9.13", needsBlackwell],
  ["red", "mmio", "9.7.13.7", needsBlackwell],
  ["addc subc madc", "u16 s16", undefined, "the manual has no sums of 16 bits with a carry"],
  [
    "cvt",
    "rs e2m1x2 e2m3x2 e3m2x2 ue8m0x2 e4m3x4 e5m2x4 e2m1x4 e2m3x4 e3m2x4",
    undefined,
    needsBlackwell,
  ],
  ["ld st", "v8", undefined, needsBlackwell],
] as const;

/** Instructions that look like valid PTX but that no GPU supports, with the sections of the manual. */
const absent = [
  ["mul.wide.<type:u64|s64> d, a, b", "9.7.1.3"],
  ["mad.wide.<type:u64|s64> d, a, b, c", "9.7.1.4"],
] as const;
const noWideProducts =
  "no GPU has it: a register would need 128 bits; mul.lo gives the lower 64 bits of the product, " +
  "and mul.hi the upper ones";

let forms: readonly InstructionForm[] | undefined;

/**
 * Returns the forms of unsupported instructions. A form for one modifier matches every instruction that has this
 * modifier.
 */
export function refusedForms(): readonly InstructionForm[] {
  return forms ??= [
    ...refusedModifiers.flatMap(([opcodes, modifiers, section, reason]) =>
      opcodes.split(" ").flatMap((opcode) =>
        modifiers.split(" ").map((modifier) =>
          instructionForm(`${opcode}.${modifier}`, section ?? sections[opcode as keyof typeof sections], {
            refusal: reason,
            refusedFor: modifier,
          })
        )
      )
    ),
    ...absent.map(([syntax, section]) =>
      instructionForm(syntax, section, { refusal: noWideProducts, isInvalid: true })
    ),
  ];
}

const noOperators =
  "a GPU has none either: CUDA's headers define new and delete by malloc and free, which the device has";
const noLaunches = "kernels cannot launch kernels: dynamic parallelism is not supported";

/**
 * Functions that modules declare and that GPUs or CUDA's libraries would define: patterns of their names, and the
 * reasons why calls of them are compilation errors.
 */
const refusedFunctions: readonly (readonly [name: RegExp, reason: string])[] = [
  [/^(_Zn[wa]|_Zd[la]Pv)/, noOperators],
  [/^(__)?cuda/, noLaunches],
  [/^__nv_/, "it is part of libdevice, which must be linked into the compiler's output"],
];

/** Returns the reason why the device does not provide a function that a module declares but does not define. */
export function refusalOfFunction(name: string): string {
  const known = refusedFunctions.find(([names]) => names.test(name));
  return known?.[1] ?? "the device has no such function";
}
