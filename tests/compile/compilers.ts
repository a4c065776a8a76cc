/**
 * The compilers of CUDA C++ that this machine has, for tests.
 *
 * @module
 */
import { Compilers, type CompilerSearch } from "../../src/compile/compilers.ts";
import type { Cuda } from "../../src/objects/cuda.ts";
import { findClang } from "../../ffi/compilers/clang.ts";
import { findNvcc } from "../../ffi/compilers/nvcc.ts";
import { findNvrtc } from "../../ffi/nvrtc.ts";
import { ffiRefusal } from "../../ffi/native/host.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** A compiler under test. */
export interface TestedCompiler {
  readonly name: string;
  /** Why it cannot be used here; undefined if it can. */
  readonly skip: string | undefined;
  readonly search: CompilerSearch;
  /** Whether it is a process, which takes a multiple of the time: most tests are left to the long run. */
  readonly isCommand: boolean;
  /** The flags by which it warns of unused variables; most do without. */
  readonly warningFlags: readonly string[];
}

/** The compilers under test. */
export const testedCompilers: readonly TestedCompiler[] = [
  testedCompiler("nvrtc", () => findNvrtc(undefined)),
  testedCompiler("nvcc", findNvcc, { isCommand: true }),
  testedCompiler("clang", findClang, { isCommand: true, warningFlags: ["-Wunused-variable"] }),
];

function testedCompiler(
  name: string,
  search: CompilerSearch,
  { isCommand = false, warningFlags = [] }: Partial<TestedCompiler> = {},
): TestedCompiler {
  const found = ffiRefusal() === undefined ? search() : { reason: ffiRefusal()! };
  return { name, search, isCommand, warningFlags, skip: "reason" in found ? found.reason : undefined };
}

/** The compiler, as if it were newer than any driver: its PTX would not load there. */
export function newerThanDrivers(search: CompilerSearch): CompilerSearch {
  return () => {
    const compiler = search();
    if ("reason" in compiler) return compiler;
    const { name, build, architectures } = compiler;
    return { name, build, architectures, cudaVersion: 99_000, compile: (input) => compiler.compile(input) };
  };
}

/** How a test of compiling differs. */
export interface CompilingNeeds {
  /** Changes the compiler. */
  readonly adapt?: (search: CompilerSearch) => CompilerSearch;
  /** Whether it is left to the long run with every compiler. */
  readonly long?: boolean;
  /** Whether it runs with all compilers in the short run, too. */
  readonly isShort?: boolean;
  /** Compilers with which CUDA's headers lack what it needs, and what that is. */
  readonly lacking?: Readonly<Record<string, string>>;
}

/** Runs a test with each compiler on each driver. */
export function testCompiling(
  name: string,
  body: (cuda: Cuda, compiler: TestedCompiler) => void | Promise<void>,
  { adapt = (search) => search, long = false, isShort = false, lacking = {} }: CompilingNeeds = {},
): void {
  for (const compiler of testedCompilers) {
    const compiled = `${name}, by ${compiler.name}`;
    const skip = compiler.skip ?? lacking[compiler.name];
    if (skip !== undefined) {
      test(compiled, { skip }, () => {});
      continue;
    }
    const compilers = new Compilers([adapt(compiler.search)]);
    const isLong = long || compiler.isCommand && !isShort;
    testOnEachDriver(compiled, (cuda) => body(cuda, compiler), { compilers, long: isLong });
  }
}
