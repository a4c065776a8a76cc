/**
 * Random programs of products and sums.
 *
 * @module
 */
import { Random } from "../../differential/random.ts";

/** The types whose products and sums may be contracted. */
export const types = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"] as const;

/** One of the types. */
export type FloatType = typeof types[number];

/** What a type's numbers are held in. */
export const registerOf: Readonly<Record<FloatType, { readonly declared: string; readonly bytes: number }>> = {
  f16: { declared: "b16", bytes: 2 },
  f16x2: { declared: "b32", bytes: 4 },
  bf16: { declared: "b16", bytes: 2 },
  bf16x2: { declared: "b32", bytes: 4 },
  f32: { declared: "f32", bytes: 4 },
  f64: { declared: "f64", bytes: 8 },
};

const variables = ["%a", "%b", "%c", "%d", "%e", "%f"];
const dividers = [
  "membar.gl;",
  "bar.sync 0;",
  "div.s32 %n, %n, %m; st.global.u32 [%out+204], %n;",
  "HERE: ",
  "bra.uni HERE; HERE: ",
  "@%p st.global.u32 [%out+200], %n;",
];

/** The body of a random program: it loads six variables, and stores some results. */
export function randomBody(random: Random): string {
  const lines: string[] = [];
  const held = [...variables];
  const unread = new Set<string>();
  let labels = 0;
  const products = new Set<string>();
  const operand = (isTerm: boolean) => {
    const fresh = [...products].filter((register) => unread.has(register));
    const choices = isTerm && fresh.length > 0 && random.percent(40) ? fresh : held.slice(random.percent(60) ? -4 : 0);
    const register = random.pick(choices);
    unread.delete(register);
    return register;
  };
  const length = 3 + random.below(9);
  for (let index = 0; index < length; index++) {
    const operation = random.pick(["mul", "mul", "mul", "mul", "add", "add", "add", "sub", "sub", "neg", "mov"]);
    const isSum = operation === "add" || operation === "sub";
    const rounded = random.percent(6) ? ".rn" : "";
    const operands = operation === "neg" || operation === "mov" ? [operand(false)] : [isSum, isSum].map(operand);
    const isReused = random.percent(15);
    const result = isReused ? random.pick(held) : `%x${index}`;
    if (!held.includes(result)) held.push(result);
    unread.add(result);
    if (operation === "mul") products.add(result);
    else products.delete(result);
    const name = operation === "mov" ? "mov.BITS" : operation === "neg" ? "neg.TYPE" : `${operation}${rounded}.TYPE`;
    lines.push(`${name} ${result}, ${operands.join(", ")};`);
    if (random.percent(5)) lines.push(random.pick(dividers).replaceAll("HERE", `L${labels++}`));
  }
  const stored = [...unread, ...held.filter((register) => !unread.has(register) && random.percent(6))];
  return [
    ...lines,
    ...stored.slice(0, 8).map((register, index) => `st.volatile.global.BITS [%out+${index}*SIZE], ${register};`),
  ]
    .join("\n");
}

/** A kernel with such a body, for a type. */
export function kernelOf(body: string, type: FloatType): string {
  const { declared, bytes } = registerOf[type];
  const bits = `b${8 * bytes}`;
  const written = body.replaceAll("TYPE", type).replaceAll("BITS", bits)
    .replaceAll(/(\d+)\*SIZE/g, (_, count) => String(Number(count) * bytes));
  const loads = variables.map((name, index) => `ld.global.${bits} ${name}, [%in+${index * bytes}];`);
  return `.version 9.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 out, .param .u64 in, .param .u32 n) {
.reg .b64 %out, %in; .reg .b32 %n, %m; .reg .pred %p;
.reg .${declared} ${variables.join(", ")}, %x<20>;
ld.param.u64 %out, [out];
ld.param.u64 %in, [in];
ld.param.u32 %n, [n];
mov.u32 %m, %tid.x;
setp.eq.u32 %p, %n, 7;
${loads.join("\n")}
${written}
ret;
}
`;
}

/** The programs that are compared, the same in every runtime. */
export function programs(count: number): string[] {
  const random = new Random(2026);
  return Array.from({ length: count }, () => randomBody(random));
}
