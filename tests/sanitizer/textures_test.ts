import { assertEquals, assertStringIncludes } from "@std/assert";
import { type CudaArray, type CudaStream, open, type PitchedArray } from "../../mod.ts";
import { readPtx } from "../objects/textures/texture_kernels.ts";
import { test } from "../support/test.ts";

const size = [16, 8] as const;
const texels = Float32Array.from({ length: 128 }, (_, index) => index);

const surfacePtx = (instruction: string) =>
  `.version 8.0
.target sm_70
.address_size 64
.visible .entry use(.param .u64 surface) {
  .reg .b64 %rd<2>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [surface];
  mov.u32 %r1, 0;
  ${instruction}
  ret;
}
`;

/** What the programs use. Each operation runs on a stream. */
interface Use {
  copyInGraph(stream: CudaStream): void;
  copy(stream: CudaStream): void;
  readTexture(stream: CudaStream): void;
  loadSurface(stream: CudaStream): void;
  storeSurface(stream: CudaStream): void;
}

/** Two operations on the same texels, and whether they have to be ordered. */
type Program = readonly [first: keyof Use, second: keyof Use, source: "array" | "rows", isReported: boolean];

const programs: readonly Program[] = [
  ["copy", "readTexture", "array", true],
  ["readTexture", "copy", "array", true],
  ["copy", "readTexture", "rows", true],
  ["readTexture", "copy", "rows", true],
  ["readTexture", "readTexture", "rows", false],
  ["storeSurface", "readTexture", "array", true],
  ["loadSurface", "storeSurface", "array", true],
  ["loadSurface", "readTexture", "array", false],
  ["copyInGraph", "readTexture", "array", true],
  ["loadSurface", "copyInGraph", "array", true],
];

async function reportsOf([first, second, kind]: Program, isOrdered: boolean): Promise<string[]> {
  const reports: string[] = [];
  using cuda = open({
    driver: "software",
    sanitize: ["stream-order"],
    onReport: (report) => void reports.push(report.message),
  });
  const gpu = cuda.device(0);
  using a = gpu.createStream();
  using b = gpu.createStream();
  using pool = gpu.createPool();
  using reader = gpu.loadModule(readPtx([{ name: "read", geometry: "2d" }]));
  using loader = gpu.loadModule(surfacePtx("suld.b.2d.b32.trap %r2, [%rd1, {%r1, %r1}];"));
  using storer = gpu.loadModule(surfacePtx("sust.b.2d.b32.trap [%rd1, {%r1, %r1}], %r1;"));
  using array = gpu.createArray("f32", size, { surface: true });
  using rows = pool.allocatePitched(Float32Array, size, a);
  const source: CudaArray | PitchedArray<Float32Array> = kind === "rows" ? rows : array;
  source.copyFrom(texels, a);
  using texture = gpu.createTexture(source);
  using surface = gpu.createSurface(array);
  using operands = pool.allocateArray(new Float32Array(12), { stream: a });
  using results = pool.allocateArray(Uint32Array, 8, a);
  // Each stream has results of its own.
  const resultsOn = (stream: CudaStream) => stream === a ? results.subarray(0, 4) : results.subarray(4, 8);
  using graph = gpu.createGraph();
  graph.addCopy(texels, array);
  using exec = graph.instantiate();
  gpu.synchronize();
  const one = { grid: 1, block: 1 };
  const use: Use = {
    copyInGraph: (stream) => exec.launch(stream),
    copy: (stream) => source.copyFrom(texels, stream),
    readTexture: (stream) => reader.kernel("read").launch({ ...one, stream }, resultsOn(stream), texture, operands, 1),
    loadSurface: (stream) => loader.kernel("use").launch({ ...one, stream }, surface),
    storeSurface: (stream) => storer.kernel("use").launch({ ...one, stream }, surface),
  };
  use[first](a);
  if (isOrdered) b.wait(a);
  use[second](b);
  await a.finished();
  await b.finished();
  gpu.synchronize();
  return reports;
}

for (const program of programs) {
  const [first, second, source, isReported] = program;
  const what = isReported ? "reports" : "does not report";
  test(`the sanitizer ${what} ${second} beside ${first} of ${source} where nothing orders them`, async () => {
    assertEquals(await reportsOf(program, true), []);
    const reports = await reportsOf(program, false);
    assertEquals(reports.length, isReported ? 1 : 0, reports.join("\n"));
    if (isReported) assertStringIncludes(reports[0]!, "may happen in either order");
  });
}
