/**
 * Runs kernels in OpenCL C on POCL, which compiles them for the processor.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Arrays } from "../software/prepared_workload.ts";
import type { Workload } from "../software/workloads.ts";

const symbols = {
  opencl_open: { parameters: ["buffer", "buffer", "u32"], result: "i32" },
  opencl_kernel: { parameters: ["buffer"], result: "pointer" },
  opencl_copy: { parameters: ["buffer", "u64"], result: "pointer" },
  opencl_read: { parameters: ["pointer", "buffer", "u64"], result: "i32" },
  opencl_pass_buffer: { parameters: ["pointer", "u32", "pointer"], result: "i32" },
  opencl_pass: { parameters: ["pointer", "u32", "buffer", "u32"], result: "i32" },
  opencl_run: { parameters: ["pointer", "u32", "u32", "u32", "u32"], result: "i32" },
} as const;

/** The functions of `host.c`. */
export type OpenCl = Deno.DynamicLibrary<typeof symbols>["symbols"];

/** The types of the numbers among each kernel's arguments, in order. */
const numberTypes: Readonly<Record<string, readonly ("u32" | "u64" | "f32")[]>> = {
  saxpy: ["u32", "f32"],
  fill: ["u64", "u32"],
  matrix_multiply_16: ["u32"],
  matrix_multiply_32: ["u32"],
  block_reduction: ["u32"],
  mandelbrot: ["u32", "u32", "f32", "f32", "f32", "u32"],
  xorshift: ["u32", "u32"],
  sha256: ["u32"],
};

/** Why nothing can be measured here. */
export class MissingError extends Error {}

function cString(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}

function check(error: number, call: string): void {
  if (error !== 0) throw new Error(`Cannot measure POCL: ${call} gives the error ${error} of OpenCL`);
}

/** Compiles the host program and the kernels. Returns the library and POCL's version. */
export function loadOpenCl(): { opencl: OpenCl; version: string } {
  const folder = Deno.makeTempDirSync();
  try {
    const library = `${folder}/host.so`;
    const args = ["-O2", "-shared", "-fPIC", "-o", library, pathOf("host.c"), "-lOpenCL"];
    let compiled: Deno.CommandOutput;
    try {
      compiled = new Deno.Command("gcc", { args }).outputSync();
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) throw new MissingError("there is no gcc");
      throw error;
    }
    if (!compiled.success) {
      throw new MissingError(`gcc cannot compile host.c: ${new TextDecoder().decode(compiled.stderr)}`);
    }
    const opencl = Deno.dlopen(library, symbols).symbols;
    const text = new Uint8Array(65536);
    const error = opencl.opencl_open(cString(readFileSync(pathOf("kernels.cl"), "utf8")), text, text.length);
    const message = new TextDecoder().decode(text.subarray(0, text.indexOf(0)));
    // CL_PLATFORM_NOT_FOUND_KHR and CL_DEVICE_NOT_FOUND
    if (error === -1001 || error === -1) throw new MissingError("OpenCL finds no POCL");
    if (error !== 0) throw new Error(`Cannot compile kernels.cl (error ${error}): ${message}`);
    return { opencl, version: message };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

function pathOf(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

/** Copies the arrays of a workload to POCL's memory, and sets the arguments of its kernel. */
export function prepareOpenCl(opencl: OpenCl, workload: Workload): { run: () => void; read: () => Arrays } {
  const isFused = workload.name.includes("fused");
  const kernel = opencl.opencl_kernel(cString(isFused ? `${workload.kernel}_fused` : workload.kernel));
  if (kernel === null) throw new Error(`Cannot find the kernel ${workload.kernel} in kernels.cl`);
  const arrays = workload.arrays();
  const buffers = new Map(
    Object.entries(arrays).map(([name, array]) => {
      return [name, opencl.opencl_copy(new Uint8Array(array.buffer), BigInt(array.byteLength))];
    }),
  );
  const types = [...numberTypes[workload.kernel]!];
  workload.arguments.forEach((argument, index) => {
    if (typeof argument === "string") {
      check(opencl.opencl_pass_buffer(kernel, index, buffers.get(argument)!), "clSetKernelArg");
      return;
    }
    const type = types.shift()!;
    const value = type === "u64"
      ? new BigUint64Array([BigInt(argument)])
      : type === "u32"
      ? new Uint32Array([argument])
      : new Float32Array([argument]);
    check(opencl.opencl_pass(kernel, index, new Uint8Array(value.buffer), value.byteLength), "clSetKernelArg");
  });
  const [gridX, gridY = 1] = [workload.launch.grid].flat() as number[];
  const [blockX, blockY = 1] = [workload.launch.block].flat() as number[];
  return {
    run: () => check(opencl.opencl_run(kernel, gridX!, gridY, blockX!, blockY), "clEnqueueNDRangeKernel"),
    read: () => {
      for (const [name, array] of Object.entries(arrays)) {
        const bytes = new Uint8Array(array.buffer);
        check(opencl.opencl_read(buffers.get(name)!, bytes, BigInt(bytes.length)), "clEnqueueReadBuffer");
      }
      return arrays;
    },
  };
}
