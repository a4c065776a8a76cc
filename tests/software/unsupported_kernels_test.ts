import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { Cuda } from "../../src/objects/cuda.ts";
import type { CudaModule } from "../../src/objects/modules/cuda_module.ts";
import { open } from "../../src/open.ts";
import { parsePtx } from "../../src/ptx/parsing/parser.ts";
import type { Statement } from "../../src/ptx/syntax.ts";
import { CudaError } from "../../src/support/errors.ts";
import { differences, loadProgram, runProgram } from "../corpus/corpus.ts";
import { nvccCorpus, programNames, readPtx } from "../corpus/nvcc/build.ts";
import { randomFor } from "../support/ptx_mutations.ts";
import { someOf, test } from "../support/test.ts";

/** An instruction that the software device does not support. */
const blackwell = "tcgen05.wait::ld.sync.aligned;";

const header = ".version 8.0\n.target sm_80\n.address_size 64\n";

/** A kernel that stores the number that the body leaves in %r. */
function kernel(name: string, body: string): string {
  return `.visible .entry ${name}(.param .u64 out) {
  .reg .b32 %r; .reg .b64 %rd<4>; .reg .f32 %f<5>;
  ld.param.u64 %rd0, [out];
  ${body}
  st.global.u32 [%rd0], %r;
  ret;
}
`;
}

/** The number that a kernel stores, or the error for a kernel that the module does not have. */
function resultOf(module: CudaModule, { cuda, name }: { cuda: Cuda; name: string }): number | CudaError {
  let found;
  try {
    found = module.kernel(name);
  } catch (error) {
    if (error instanceof CudaError) return error;
    throw error;
  }
  using pool = cuda.device(0).createPool();
  using out = pool.allocate(4);
  found.launch({ grid: 1, block: 1 }, out);
  return out.readSync(Uint32Array)[0]!;
}

/** Loads PTX and runs its kernels. Returns what each stored, or the end of the message with which it was refused. */
function resultsOf(ptx: string): Record<string, number | string> {
  using cuda = open({ driver: "software" });
  using module = cuda.device(0).loadModule(ptx);
  return Object.fromEntries(module.kernelNames.map((name) => {
    const result = resultOf(module, { cuda, name });
    if (typeof result === "number") return [name, result];
    assertEquals(result.code, "cudaErrorNotSupported");
    return [name, /Line \d+: .*/.exec(result.message)![0].replace(/ \(the software.*/, "")];
  }));
}

test("a kernel that the software device cannot run is refused by name, line and reason; the others run", () => {
  using cuda = open({ driver: "software" });
  using module = cuda.device(0).loadModule(
    header + ".global .texref image;\n.global .align 4 .u32 seven = 7;\n" +
      kernel("first", "ld.global.u32 %r, [seven];") +
      kernel("inspect", blackwell) +
      kernel("blur", "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [image, {%f4, %f4}];") +
      kernel("last", "mov.u32 %r, 3;"),
  );
  assertEquals(module.kernelNames, ["first", "inspect", "blur", "last"]);
  for (let time = 0; time < 2; time++) {
    const error = assertThrows(() => module.kernel("inspect"), CudaError);
    assertEquals([error.code, error.call], ["cudaErrorNotSupported", "cuModuleGetFunction"]);
    assertStringIncludes(error.message, 'Cannot get the kernel "inspect" of the module on device 0: ');
    assertStringIncludes(
      error.message,
      'Line 16: cannot compile "tcgen05.wait::ld.sync.aligned": it needs a GPU of sm_100 or newer, and this device is one of sm_90 ' +
        "(the software device runs 2 of the module's 4 kernels); run this kernel on a GPU",
    );
    // A texture reference would read nothing on a GPU, either.
    assertStringIncludes(
      assertThrows(() => module.kernel("blur"), CudaError).message,
      'Line 4: cannot declare "image": variables of type ".texref" are not supported ' +
        "(the software device runs 2 of the module's 4 kernels); let it take a texture object, and give it a CudaTexture",
    );
    assertEquals(resultOf(module, { cuda, name: "first" }), 7);
    assertEquals(resultOf(module, { cuda, name: "last" }), 3);
  }
  // The types of parameters do not make it supported.
  assertEquals(
    assertThrows(() => module.kernel("inspect", { parameters: ["u64"] }), CudaError).code,
    "cudaErrorNotSupported",
  );
  assertEquals(module.getGlobal("seven").readSync(Uint32Array), Uint32Array.of(7));
  const error = assertThrows(
    () => module.getGlobal("image"),
    CudaError,
    'variables of type ".texref" are not supported',
  );
  assertEquals(error.code, "cudaErrorNotSupported");
});

test("a module loads even if the software device can run none of its kernels", () => {
  using cuda = open({ driver: "software" });
  using module = cuda.device(0).loadModule(
    `${header}.global .u32 x = 5;\n${kernel("only", blackwell)}`,
  );
  const error = assertThrows(() => module.kernel("only"), CudaError, "Line 8: ");
  assert(!error.message.includes("kernels)"), error.message);
  assertEquals(module.getGlobal("x").readSync(Uint32Array), Uint32Array.of(5));
  assertEquals(assertThrows(() => module.getGlobal("only"), CudaError).code, "cudaErrorInvalidValue");
  assertEquals(
    assertThrows(() => module.kernel("none", { parameters: [] }), CudaError).code,
    "cudaErrorSymbolNotFound",
  );
});

const prototype = "P: .callprototype (.param .b32 _) _ ();";

test("a function that the software device cannot run refuses the kernels that may call it", () => {
  const func = (name: string, body: string) =>
    `.func (.param .b32 r) ${name}() { .reg .b32 %r; .reg .b64 %rd<4>; ${body} st.param.b32 [r], %r; ret; }\n`;
  const reason =
    'Line 4: cannot compile "tcgen05.wait::ld.sync.aligned": it needs a GPU of sm_100 or newer, and this device is one of sm_90';
  assertEquals(
    resultsOf(
      header + func("bad", blackwell) + func("through", "call (%r), bad;") +
        func("good", "mov.u32 %r, 4;") +
        func("round", "call (%r), good; call (%r), round;") + kernel("calls", "call (%r), bad;") +
        kernel("calls_through", "call (%r), through;") + kernel("calls_good", "call (%r), good;") +
        kernel(
          "takes_addresses",
          "mov.u64 %rd1, bad; mov.u64 %rd2, good; setp.ne.u64 %p, %rd1, %rd2; selp.u32 %r, 9, 8, %p;",
        )
          .replace(".reg .b32 %r;", ".reg .b32 %r; .reg .pred %p;") +
        kernel("calls_indirectly", `mov.u64 %rd1, good; ${prototype} call (%r), %rd1, (), P;`),
    ),
    { calls: reason, calls_through: reason, calls_good: 4, takes_addresses: 9, calls_indirectly: reason },
  );
  // A function whose address nobody takes is called by its name only.
  assertEquals(
    resultsOf(
      header + func("bad", blackwell) + func("good", "mov.u32 %r, 4;") +
        ".global .u64 table[1] = {good};\n" +
        kernel("calls", "call (%r), bad;") +
        kernel("calls_indirectly", `ld.global.u64 %rd1, [table]; ${prototype} call (%r), %rd1, (), P;`),
    ),
    { calls: reason, calls_indirectly: 4 },
  );
  assertEquals(
    resultsOf(
      header + func("bad", blackwell) + ".global .u64 table[1] = {bad};\n" +
        kernel("other", "mov.u32 %r, 1;") +
        kernel("calls_indirectly", `ld.global.u64 %rd1, [table]; ${prototype} call (%r), %rd1, (), P;`),
    ),
    { other: 1, calls_indirectly: reason },
  );
});

test("what a module declares and does not define refuses the kernels that use it", () => {
  const results = resultsOf(
    header + ".extern .func (.param .b64 p) mine(.param .b64 n);\n.extern .global .u32 elsewhere;\n" +
      kernel("calls", "call (%rd1), mine, (8);") + kernel("reads", "ld.global.u32 %r, [elsewhere];") +
      kernel("other", "mov.u32 %r, 1;"),
  );
  assertEquals(results.other, 1);
  assertStringIncludes(String(results.calls), "the device has no such function");
  assertStringIncludes(String(results.reads), 'cannot use "elsewhere"');
});

test("registers that are not supported refuse their kernel only", () => {
  for (
    const [bad, reason] of [
      [kernel("bad", blackwell), "it needs a GPU of sm_100"],
      [kernel("bad", ".local .align 131072 .b8 l[64]; mov.u32 %r, l;"), "to more than 65536 bytes"],
      [kernel("bad", "mov.u32 %r, %reserved_smem_offset_2;"), "%reserved_smem_offset_2 is not supported"],
    ] as const
  ) {
    const results = resultsOf(header + bad + kernel("good", "mov.u32 %r, 6;") + ".global .u32 image;\n");
    assertStringIncludes(String(results.bad), reason);
    assertEquals(results.good, 6);
  }
});

test("what is not PTX refuses the module, even behind what is only not supported", () => {
  using cuda = open({ driver: "software" });
  const good = kernel("good", "mov.u32 %r, 6;");
  for (
    const [bad, line] of [
      [kernel("bad", blackwell + " frobnicate.u32 %r;"), 7],
      [kernel("bad", blackwell + "\nmov.u32 %r, %undeclared;"), 8],
      [kernel("bad", "multimem.red.add.u32 [%rd0], %r;\nadd.f33 %r, %r, %r;"), 8],
      [`.func f() { ${blackwell}\nfrobnicate; }\n` + kernel("bad", "call f;"), 5],
      [kernel("bad", blackwell) + kernel("bad", blackwell), 11],
      [kernel("bad", blackwell) + "\n.shared .u32 x; .shared .u32 x;", 12],
      [kernel("bad", "tex.1d.v4.f32.f32 {%f0}, [%rd0, {%f1};"), 7],
    ] as const
  ) {
    for (const ptx of [header + bad + good, header + good.replaceAll("\n", " ") + bad]) {
      const error = assertThrows(() => cuda.device(0).loadModule(ptx), CudaError, `Line ${line}: `, bad);
      assertEquals(error.code, "cudaErrorInvalidPtx");
    }
  }
});

/** Instructions that PTX has and the software device does not. */
const unsupported = [
  blackwell,
  "clusterlaunchcontrol.try_cancel.async.shared::cta.b128 [%any], [%any];",
];

/** The lines on which an instruction begins. */
function instructionLines(statements: readonly Statement[]): number[] {
  return statements.flatMap((statement) => {
    if (statement.kind === "block") return instructionLines(statement.statements);
    return statement.kind === "instruction" ? [statement.line] : [];
  });
}

test("kernels give the same results beside one with an unsupported instruction", async () => {
  // Some of the kernels race on purpose.
  using cuda = open({ driver: "software", sanitize: false });
  const names = programNames(nvccCorpus).filter((name) => {
    return readPtx(nvccCorpus, name, nvccCorpus.variants[0]!).split(".entry").length > 2;
  });
  for (const name of someOf(names, 24)) {
    const random = randomFor(name);
    const ptx = readPtx(nvccCorpus, name, random.pick(nvccCorpus.variants));
    const kernels = parsePtx(ptx).functions.filter(({ kind, body }) => kind === "entry" && body !== undefined);
    const planted = random.pick(kernels);
    const instruction = random.pick(unsupported);
    const line = random.pick(instructionLines(planted.body!));
    const text = ptx.split("\n").toSpliced(line - 1, 0, instruction).join("\n");
    const program = await loadProgram(nvccCorpus, name);
    const others = { ...program, launches: program.launches.filter((launch) => launch.kernel !== planted.name) };
    const expected = await runProgram(cuda, others, ptx);
    assertEquals(differences(expected, await runProgram(cuda, others, text)), [], `${name}: ${planted.name}`);
    using module = cuda.device(0).loadModule(text);
    assertEquals(module.kernelNames, kernels.map((each) => each.name));
    const opcode = instruction.split(/[ ;]/, 1)[0];
    const { message } = assertThrows(() => module.kernel(planted.name), CudaError);
    assertStringIncludes(message, `Cannot get the kernel "${planted.name}" of the module on device 0: `);
    assertStringIncludes(message, `Line ${line}: cannot compile "${opcode}": `);
  }
});
