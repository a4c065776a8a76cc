/**
 * A device for the compiler's tests: the memory, a table of limits, and kernels run straight from their PTX.
 */
import { addressBase, compilePtx } from "../src/software/compiler/compile.ts";

/** What `device.fault` was told. */
export class Fault extends Error {
  readonly kind: number;
  readonly address: bigint;
  readonly line: number;

  constructor(kind: number, address: bigint, line: number) {
    super(`Fault ${kind} at 0x${address.toString(16)}, line ${line}`);
    this.kind = kind;
    this.address = address;
    this.line = line;
  }
}

const places = { parameters: 0x1_0000, shared: 0x2_0000, local: 0x10_0000, limits: 0x100_0000, heap: 0x1000_0000 };
const memory = new WebAssembly.Memory({ initial: 65536, maximum: 65536, shared: true });
const limits = new Uint16Array(memory.buffer, places.limits, 2 ** 23);
let heapEnd = places.heap;

/** Memory that kernels may access. */
export interface Allocation {
  readonly address: bigint;
  /** The allocation's bytes and no others. */
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** Allocates bytes, zeros, at the start of a granule; the first byte past them is out of bounds. */
export function allocate(byteLength: number): Allocation {
  const begin = heapEnd;
  heapEnd += Math.ceil((byteLength + 1) / 512) * 512;
  for (let offset = begin; offset < heapEnd; offset += 512) {
    limits[offset / 512] = Math.max(0, Math.min(512, begin + byteLength - offset));
  }
  const bytes = new Uint8Array(memory.buffer, begin, byteLength);
  bytes.fill(0);
  return {
    address: addressBase + BigInt(begin),
    bytes,
    view: new DataView(memory.buffer, begin, byteLength),
  };
}

/** How a kernel is run. */
export interface RunOptions {
  readonly grid?: readonly [number, number, number];
  readonly block?: readonly [number, number, number];
  /** Packed, from the first parameter on. */
  readonly parameters?: readonly { readonly type: "u32" | "f32" | "u64"; readonly value: number | bigint }[];
}

/** Compiles PTX and returns a function that runs one of its kernels. */
export function loadKernel(ptx: string, name: string): (options?: RunOptions) => void {
  const { wasm, kernels } = compilePtx(ptx);
  const kernel = kernels.get(name)!;
  const instance = new WebAssembly.Instance(new WebAssembly.Module(wasm), {
    device: {
      memory,
      fault(kind: number, address: bigint, line: number): never {
        throw new Fault(kind, BigInt.asUintN(64, address), line);
      },
    },
  });
  const run = instance.exports[name] as (...args: number[]) => void;
  return ({ grid = [1, 1, 1], block = [1, 1, 1], parameters = [] } = {}) => {
    const view = new DataView(memory.buffer, places.parameters, 0x1_0000);
    parameters.forEach(({ type, value }, index) => {
      const { offset } = kernel.parameters[index]!;
      if (type === "u64") view.setBigUint64(offset, BigInt(value), true);
      else if (type === "u32") view.setUint32(offset, Number(value), true);
      else view.setFloat32(offset, Number(value), true);
    });
    const { parameters: packed, shared, local, limits: table } = places;
    for (let z = 0; z < grid[2]; z++) {
      for (let y = 0; y < grid[1]; y++) run(0, grid[0], y, z, ...grid, ...block, packed, shared, local, table);
    }
  };
}

/** A module around the body of a kernel named `test` whose parameters are `out` and `in`, both addresses. */
export function testModule(body: string): string {
  return `.version 7.0
.target sm_60
.address_size 64
.visible .entry test(.param .u64 out, .param .u64 in) {
  .reg .pred %p<10>;
  .reg .b16 %h<20>;
  .reg .b32 %r<30>;
  .reg .b64 %rd<30>;
  .reg .f32 %f<20>;
  .reg .f64 %fd<20>;
  ld.param.u64 %rd0, [out];
  ld.param.u64 %rd1, [in];
${body}
  ret;
}
`;
}

/** Line of the first line of a body within {@linkcode testModule}. */
export const firstBodyLine = 13;

/** Runs a body once, on `input`, and returns what it wrote to `out`. */
export function runBody(body: string, input: DataView | undefined, outputBytes: number): DataView {
  const source = allocate(input?.byteLength ?? 8);
  if (input !== undefined) source.bytes.set(new Uint8Array(input.buffer, input.byteOffset, input.byteLength));
  const out = allocate(outputBytes);
  loadKernel(testModule(body), "test")({
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
  });
  return out.view;
}
