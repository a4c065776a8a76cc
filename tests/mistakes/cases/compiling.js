import { open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Compiling", import.meta.url);

// What a compiler says is not recorded: it differs by its version.
const source = 'extern "C" __global__ void twice(float* data) { data[threadIdx.x] *= 2; }';

mistake("the path of the source", ({ gpu }) => {
  gpu.compile("./kernels/saxpy.cu");
});

mistake("the bytes of the source", ({ gpu }) => {
  gpu.compile(new TextEncoder().encode(source));
});

mistake("PTX", ({ gpu, saxpyPtx }) => {
  gpu.compile(saxpyPtx);
});

mistake("a promise of the source", ({ gpu }) => {
  gpu.compile(Promise.resolve(source));
});

mistake("nvcc's name of an option", ({ gpu }) => {
  gpu.compile(source, { arch: "sm_90" });
});

mistake("a real architecture", ({ gpu }) => {
  gpu.compile(source, { architecture: "sm_90" });
});

mistake("a compute capability", ({ cuda }) => {
  cuda.compile(source, { architecture: "9.0" });
});

mistake("PTX for no architecture", ({ cuda }) => {
  cuda.compile(source);
});

mistake("flags as a string", ({ gpu }) => {
  gpu.compile(source, { flags: "-O3 -lineinfo" });
});

mistake("defines as flags", ({ gpu }) => {
  gpu.compile(source, { defines: ["BLOCK=256"] });
});

mistake("headers as folders", ({ gpu }) => {
  gpu.compile(source, { headers: ["./include"] });
});

mistake("one name expression", ({ gpu }) => {
  gpu.compile(source, { nameExpressions: "twice<float>" });
});

mistake("a cache that is on", () => {
  open({ compileCache: true });
});
