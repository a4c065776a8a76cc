/**
 * The compilers of CUDA C++ that this machine has, for tests.
 *
 * @module
 */
import { Compilers, type CompilerSearch } from "../../src/compile/compilers.ts";
import type { Cuda } from "../../src/objects/cuda.ts";
import { findNvrtc } from "../../ffi/nvrtc.ts";
import { ffiRefusal } from "../../ffi/host.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** A compiler under test. */
export interface TestedCompiler {
  readonly name: string;
  /** Why it cannot be used here; undefined if it can. */
  readonly skip: string | undefined;
  readonly search: CompilerSearch;
}

/** The compilers under test. */
export const testedCompilers: readonly TestedCompiler[] = [
  testedCompiler("nvrtc", () => findNvrtc(undefined)),
];

function testedCompiler(name: string, search: CompilerSearch): TestedCompiler {
  const found = ffiRefusal() === undefined ? search() : { reason: ffiRefusal()! };
  return { name, search, skip: "reason" in found ? found.reason : undefined };
}

/** The compiler, as if it were newer than any driver: its PTX would not load there. */
export function newerThanDrivers(search: CompilerSearch): CompilerSearch {
  return () => {
    const compiler = search();
    if ("reason" in compiler) return compiler;
    const { name, architectures } = compiler;
    return { name, architectures, cudaVersion: 99_000, compile: (input) => compiler.compile(input) };
  };
}

/** Runs a test with each compiler on each driver. `adapt` changes the compiler. */
export function testCompiling(
  name: string,
  body: (cuda: Cuda, compiler: TestedCompiler) => void | Promise<void>,
  { adapt = (search) => search, long = false }: {
    adapt?: (search: CompilerSearch) => CompilerSearch;
    long?: boolean;
  } = {},
): void {
  for (const compiler of testedCompilers) {
    const compiled = `${name}, by ${compiler.name}`;
    if (compiler.skip !== undefined) {
      test(compiled, { skip: compiler.skip }, () => {});
      continue;
    }
    const compilers = new Compilers([adapt(compiler.search)]);
    testOnEachDriver(compiled, (cuda) => body(cuda, compiler), { compilers, long });
  }
}
