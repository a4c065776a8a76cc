/**
 * Random kernels with accesses to buffers and arrays, compared with an oracle that knows where everything is: which
 * accesses leave their memory, and which of them the device refuses.
 */
import { assert, assertEquals } from "@std/assert";
import { Random } from "../../differential/random.ts";
import { isLong, test } from "../../support/test.ts";
import { kernelOf, reportsOf } from "./programs.ts";

interface Memory {
  readonly space: "global" | "shared" | "local";
  readonly name: string;
  readonly byteLength: number;
}

interface Access {
  readonly memory: Memory;
  readonly offset: number;
  readonly bytes: number;
  /** How the address is computed. */
  readonly form: "constant" | "sum" | "product" | "loop" | "generic";
}

interface Program {
  readonly memories: readonly Memory[];
  readonly accesses: readonly Access[];
}

const sizes = { global: [4, 100, 512, 1000, 1024, 1536], shared: [16, 64, 128, 512], local: [16, 64, 128] } as const;
const forms = ["constant", "sum", "product", "loop", "generic"] as const;

function programOf(seed: number): Program {
  const random = new Random(seed);
  const below = (limit: number) => random.below(limit);
  const memories = (["global", "shared", "local"] as const).flatMap((space) => {
    const choices: readonly number[] = sizes[space];
    return Array.from({ length: 2 + below(3) }, (_, index): Memory => {
      return { space, name: `${space[0]}${index}`, byteLength: choices[below(choices.length)]! };
    });
  });
  const accesses = Array.from({ length: 6 }, (): Access => {
    const memory = memories[below(memories.length)]!;
    const bytes = 2 ** below(5);
    const slots = Math.max(1, Math.floor(memory.byteLength / bytes));
    // One in six is outside, mostly near.
    const slot = below(6) > 0 ? below(slots) : slots + below(below(2) === 0 ? 2 : 80);
    return { memory, bytes, offset: slot * bytes, form: forms[below(forms.length)]! };
  });
  return { memories, accesses };
}

/** The instructions of an access. Its line is that of the last of them. */
function textOf({ memory: { space, name }, offset, bytes, form }: Access): string {
  const generic = form === "generic";
  const base = space === "global" ? `ld.param.u64 %rd1, [${name}];` : `mov.u64 %rd1, ${name};`;
  const convert = space === "global" || !generic ? "" : `cvta.${space}.u64 %rd1, %rd1;`;
  const address = {
    constant: "",
    generic: `add.s64 %rd1, %rd1, ${offset};`,
    sum: `mov.u64 %rd2, ${offset}; add.s64 %rd1, %rd1, %rd2;`,
    product: `mov.u32 %r1, ${offset / bytes}; mul.wide.u32 %rd2, %r1, ${bytes}; add.s64 %rd1, %rd1, %rd2;`,
    // Not unrolled: the pointer advances.
    loop: `mov.u32 %r1, ${offset / bytes}; { L: setp.eq.u32 %p1, %r1, 0; @%p1 bra E; add.s64 %rd1, %rd1, ${bytes};` +
      ` sub.s32 %r1, %r1, 1; bra L; E: }`,
  }[form];
  const at = form === "constant" ? `[%rd1+${offset}]` : "[%rd1]";
  const where = generic ? "" : `.${space}`;
  const store = bytes === 16
    ? `st${where}.v4.u32 ${at}, {%r2, %r2, %r2, %r2};`
    : bytes === 8
    ? `st${where}.u64 ${at}, %rd3;`
    : `st${where}.u${8 * bytes} ${at}, %r2;`;
  // Registers of each access are its own, so that what they hold is known.
  return `  { .reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .pred %p<2>; mov.u32 %r2, 1; mov.u64 %rd3, 1;
  ${base} ${convert} ${address} ${store} }`;
}

function ptxOf({ memories, accesses }: Program): string {
  const global = memories.filter(({ space }) => space === "global");
  const arrays = memories.filter(({ space }) => space !== "global");
  const parameters = global.map(({ name }) => `.param .u64 ${name}`).join(", ");
  const declared = arrays.map(({ space, name, byteLength }) => `  .${space} .align 16 .b8 ${name}[${byteLength}];`);
  return kernelOf(parameters, [...declared, ...accesses.map(textOf)].join("\n"));
}

/** Which accesses are reported, by their numbers, as long as the kernel runs. */
function expected({ memories, accesses }: Program, addresses: ReadonlyMap<string, number>): number[] {
  const found: number[] = [];
  for (const [index, { memory, offset, bytes }] of accesses.entries()) {
    const at = addresses.get(memory.name)! + offset;
    const holds = ({ name, byteLength }: Memory) => {
      const begin = addresses.get(name)!;
      return at >= begin && at + bytes <= begin + byteLength;
    };
    if (holds(memory)) continue;
    found.push(index);
    // An array's bytes, and the gaps between arrays, are there: a buffer's are only its own.
    const others = memories.filter(({ space }) => space === memory.space);
    const end = Math.max(...others.map(({ name, byteLength }) => addresses.get(name)! + byteLength));
    const isThere = memory.space === "global" ? others.some(holds) : at + bytes <= end;
    if (!isThere) break;
  }
  return found;
}

/** Runs a program, and returns the numbers of the accesses that are reported, and those that should be. */
function run(program: Program): { reported: number[]; expected: number[] } {
  const ptx = ptxOf(program);
  const addresses = new Map<string, number>();
  for (const space of ["shared", "local"]) {
    let offset = 0;
    for (const memory of program.memories.filter((memory) => memory.space === space)) {
      addresses.set(memory.name, offset);
      offset += memory.byteLength;
    }
  }
  const reports = reportsOf(ptx, ({ launch, pool, stream }) => {
    const buffers = program.memories.filter(({ space }) => space === "global").map(({ name, byteLength }) => {
      const buffer = pool.allocate(byteLength, stream);
      addresses.set(name, Number(buffer.address));
      return buffer;
    });
    launch({}, ...buffers);
  });
  const lines = ptx.split("\n");
  const stores = lines.flatMap((line, index) => / st[.]/.test(line) ? [index + 1] : []);
  assertEquals(stores.length, program.accesses.length);
  const reported = reports.map(({ accesses }) => stores.indexOf(Number(/\d+/.exec(accesses[0]!.source!)![0])));
  return { reported, expected: expected(program, addresses) };
}

test("random kernels are reported as an oracle says", () => {
  const count = isLong ? 3000 : 60;
  let mistakes = 0, right = 0;
  for (let seed = 0; seed < count; seed++) {
    const program = programOf(seed);
    const { reported, expected } = run(program);
    assertEquals(reported, expected, `seed ${seed}:\n${ptxOf(program)}`);
    mistakes += expected.length;
    if (expected.length === 0) right++;
  }
  assert(mistakes > count / 2 && right > count / 8, `${mistakes} mistakes, ${right} right programs`);
});
