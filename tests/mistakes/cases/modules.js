import { CudaModule } from "../../../mod.ts";
import { area, mistake, printing } from "../mistake.ts";

area("Modules", import.meta.url);

mistake("CUDA C++ source", ({ gpu }) => {
  gpu.loadModule(`
    extern "C" __global__ void twice(float* data, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) data[i] *= 2;
    }
  `);
});

mistake("CUDA C++ source with an include", ({ gpu }) => {
  gpu.loadModule(`#include <cuda_runtime.h>\n\n__global__ void twice(float* data) { data[threadIdx.x] *= 2; }\n`);
});

mistake("the path of the PTX", ({ gpu }) => {
  gpu.loadModule("kernels/saxpy.ptx");
});

mistake("the path of the source", ({ gpu }) => {
  gpu.loadModule("./kernels/saxpy.cu");
});

mistake("the URL of the PTX", ({ gpu }) => {
  gpu.loadModule(new URL("file:///home/user/demo/saxpy.ptx"));
});

mistake("the PTX's address as text", ({ gpu }) => {
  gpu.loadModule("https://example.com/saxpy.ptx");
});

mistake("a page that says 404", ({ gpu }) => {
  gpu.loadModule("<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n");
});

mistake("a promise of the PTX", ({ gpu, saxpyPtx }) => {
  const readTextFile = () => Promise.resolve(saxpyPtx);
  gpu.loadModule(readTextFile("saxpy.ptx"));
});

mistake("no PTX", ({ gpu }) => {
  gpu.loadModule();
});

mistake("an empty file", ({ gpu }) => {
  gpu.loadModule("");
});

mistake("PTX as JSON", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(JSON.stringify(saxpyPtx));
});

mistake("a program of the host", ({ gpu }) => {
  gpu.loadModule(new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
});

mistake("bytes that mean nothing", ({ gpu }) => {
  gpu.loadModule(new Uint8Array(64).fill(0xab));
});

mistake("LLVM IR", ({ gpu }) => {
  gpu.loadModule('target triple = "nvptx64-nvidia-cuda"\n\ndefine void @twice(ptr %data) {\n  ret void\n}\n');
});

mistake("WGSL", ({ gpu }) => {
  gpu.loadModule("@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3u) {}\n");
});

mistake("PTX that ends in the middle", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx.slice(0, 900));
});

mistake("PTX with a missing semicolon", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx.replace("ntid.x;", "ntid.x"));
});

mistake("PTX with a misspelt instruction", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx.replace("mul.rn.f32", "mull.rn.f32"));
});

mistake("PTX with an undeclared register", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx.replace("mov.u32 \t%r1", "mov.u32 \t%q1"));
});

mistake("PTX of a newer version", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx.replace(".version 7.0", ".version 99.0"));
});

mistake("PTX for a newer device", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx.replace("sm_60", "sm_999"));
});

mistake("PTX without its header", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx.slice(saxpyPtx.indexOf(".visible")));
});

printing("a module with one kernel that cannot run", ({ gpu, multicastPtx }) => {
  const module = gpu.loadModule(multicastPtx);
  console.log(module.kernel("brighten").name); // which reduces nothing
});

mistake("the kernel that cannot run", ({ gpu, multicastPtx }) => {
  const module = gpu.loadModule(multicastPtx);
  module.kernel("accumulate");
});

mistake("a kernel with a texture reference", ({ gpu, saxpyPtx }) => {
  const module = gpu.loadModule(
    saxpyPtx.replace(".visible .entry", ".global .texref image;\n.visible .entry")
      .replace("ret;", "{ .reg .f32 %t<5>; tex.1d.v4.f32.f32 {%t0, %t1, %t2, %t3}, [image, {%t4}]; } ret;"),
  );
  module.kernel("saxpy");
});

mistake("a path and a name, as for CuPy's RawModule", ({ gpu }) => {
  gpu.loadModule({ path: "saxpy.ptx" });
});

mistake("new CudaModule", ({ saxpyPtx }) => {
  new CudaModule(saxpyPtx);
});

mistake("a misspelt kernel", ({ module }) => {
  module.kernel("sxapy");
});

mistake("a kernel with other capitals", ({ module }) => {
  module.kernel("Saxpy");
});

mistake("no kernel name", ({ module }) => {
  module.kernel();
});

mistake("a kernel that is not extern C", ({ userModule }) => {
  userModule.kernel("half_of");
});

mistake("a template's instance by its C++ name", ({ userModule }) => {
  userModule.kernel("cube<float>");
});

mistake("a parameter list as the second argument", ({ module }) => {
  module.kernel("saxpy", ["u32", "f32", "u64", "u64"]);
});

mistake("parameters that differ from the PTX", ({ module }) => {
  module.kernel("saxpy", { parameters: ["s32", "f64", "u64", "u64"] });
});

mistake("parameters by their C++ names", ({ module }) => {
  module.kernel("saxpy", { parameters: ["unsigned int", "float", "float*", "float*"] });
});

mistake("a misspelt global", ({ userModule }) => {
  userModule.getGlobal("tabel");
});

mistake("a kernel as a global", ({ userModule }) => {
  userModule.getGlobal("scale");
});

mistake("nvcc's name of an option of the JIT", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx, { maxrregcount: 32 });
});

mistake("an optimization level as for a compiler", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx, { optimizationLevel: "-O3" });
});

mistake("a limit of registers that is too high", ({ gpu, saxpyPtx }) => {
  gpu.loadModule(saxpyPtx, { maxRegisters: 512 });
});

mistake("one image linked, not in an array", ({ gpu, saxpyPtx }) => {
  gpu.link(saxpyPtx);
});

mistake("images linked as separate arguments", ({ gpu, saxpyPtx, userPtx }) => {
  gpu.link(saxpyPtx, userPtx);
});

mistake("paths linked", ({ gpu }) => {
  gpu.link(["a.ptx", "b.ptx"]);
});

mistake("modules linked that are loaded already", ({ gpu, module, userModule }) => {
  gpu.link([module, userModule]);
});

mistake("an image linked twice", ({ gpu, saxpyPtx }) => {
  gpu.link([saxpyPtx, saxpyPtx]);
});

mistake("an image linked without the one that defines its function", ({ gpu, saxpyPtx }) => {
  const head = saxpyPtx.slice(0, saxpyPtx.indexOf(".visible"));
  gpu.link([{ name: "main.ptx", image: `${head}.extern .func step(); .visible .entry run() { call step; ret; }` }]);
});

mistake("a cubin linked on the software device", ({ gpu, saxpyPtx }) => {
  const cubin = new Uint8Array(64);
  cubin.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  cubin[18] = 190;
  gpu.link([saxpyPtx, { name: "steps.cubin", image: cubin }]);
});
