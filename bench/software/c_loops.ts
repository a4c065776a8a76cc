/**
 * Compiles the loops in `loops.c` with gcc and loads them into this process, so that the loops and the kernels are
 * timed with the same clock, one right after the other.
 *
 * @module
 */
import { fileURLToPath } from "node:url";

/** Fuses only explicit `fmaf` calls, on all processors. On x86-64, `-ffp-contract=off` changes nothing. */
const commonOptions = ["-O2", "-ffp-contract=off"];

const symbols = {
  saxpy: { parameters: ["u32", "f32", "buffer", "buffer"], result: "void" },
  fill: { parameters: ["buffer", "u64", "u32"], result: "void" },
  matrix_multiply_16: { parameters: ["buffer", "buffer", "buffer", "i32"], result: "void" },
  matrix_multiply_32: { parameters: ["buffer", "buffer", "buffer", "i32"], result: "void" },
  matrix_multiply_half: { parameters: ["buffer", "buffer", "buffer", "i32"], result: "void" },
  matrix_multiply_32_fused: { parameters: ["buffer", "buffer", "buffer", "i32"], result: "void" },
  block_reduction: { parameters: ["buffer", "buffer", "u32", "u32", "u32"], result: "void" },
  mandelbrot: { parameters: ["buffer", "u32", "u32", "f32", "f32", "f32", "u32"], result: "void" },
  xorshift: { parameters: ["buffer", "u32", "u32"], result: "void" },
  sha256: { parameters: ["buffer", "buffer", "u32"], result: "void" },
} as const;

/** The functions of `loops.c`. */
export type CLoops = Deno.DynamicLibrary<typeof symbols>["symbols"];

/** The loaded loops. */
export interface LoadedLoops extends Disposable {
  readonly loops: CLoops;
  /** The compiler's version and options. */
  readonly compiler: string;
}

/**
 * Compiles the loops into a temporary folder, loads them, and deletes the folder.
 *
 * @param options.hasThreads whether the outer loops run on all cores. Default: false
 */
export function loadCLoops({ hasThreads = false }: { hasThreads?: boolean } = {}): LoadedLoops {
  const compilerOptions = hasThreads ? [...commonOptions, "-fopenmp"] : commonOptions;
  const folder = Deno.makeTempDirSync();
  try {
    const library = `${folder}/loops.so`;
    const source = fileURLToPath(new URL("./loops.c", import.meta.url));
    runCompiler([...compilerOptions, "-shared", "-fPIC", "-o", library, source]);
    const opened = Deno.dlopen(library, symbols);
    const version = runCompiler(["--version"]).split("\n", 1)[0]!;
    return {
      loops: opened.symbols,
      compiler: [version, ...compilerOptions].join(" "),
      [Symbol.dispose]: () => opened.close(),
    };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

function runCompiler(args: readonly string[]): string {
  const { success, stdout, stderr } = new Deno.Command("gcc", { args: [...args] }).outputSync();
  if (!success) throw new Error(`Cannot compile loops.c: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}
