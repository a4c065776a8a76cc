/**
 * Workloads that are ready to run on a device.
 *
 * @module
 */
import { createHash } from "node:crypto";
import type { CudaDevice, CudaStream, DeviceBuffer, LaunchOptions } from "../../mod.ts";

/** The arrays of a workload, by name, in the order of their allocation. */
export type Arrays = Readonly<
  Record<string, Float32Array<ArrayBuffer> | Uint32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>>
>;

/** A kernel, its launch and its arguments. */
export interface KernelWorkload<A extends Arrays = Arrays> {
  readonly name: string;
  readonly ptx: string;
  readonly kernel: string;
  readonly launch: LaunchOptions;
  /** Returns new arrays with the contents before the first run, which are the same on every call. */
  arrays(): A;
  /** The kernel's arguments, with arrays by name. */
  readonly arguments: readonly (number | (keyof A & string))[];
}

/** A workload that is ready to run on a device. */
export interface PreparedWorkload extends Disposable {
  readonly stream: CudaStream;
  /** Launches the kernel. */
  launch(): void;
  /** Launches the kernel and waits until it is done. */
  run(): void;
  /** Throws if an array of the device differs in any bit from the host's. */
  assertEqual(arrays: Arrays): void;
  /** Returns a hash of the device's arrays. */
  digest(): string;
}

/** Loads a workload's kernel and copies its arrays to the device. */
export function prepareWorkload(
  device: CudaDevice,
  { ptx, kernel: name, launch, ...workload }: KernelWorkload,
): PreparedWorkload {
  const owned = new DisposableStack();
  try {
    const module = owned.use(device.loadModule(ptx));
    const kernel = module.kernel(name);
    const stream = owned.use(device.createStream());
    const pool = owned.use(device.createPool());
    const buffers = new Map<string, DeviceBuffer>();
    for (const [name, contents] of Object.entries(workload.arrays())) {
      const buffer = owned.use(pool.allocate(contents.byteLength, stream));
      buffer.copyFrom(contents);
      buffers.set(name, buffer);
    }
    const args = workload.arguments.map((argument) => typeof argument === "string" ? buffers.get(argument)! : argument);
    const releaser = owned.move();
    const options = { ...launch, stream };
    return {
      stream,
      launch: () => kernel.launch(options, ...args),
      run() {
        kernel.launch(options, ...args);
        stream.synchronize();
      },
      assertEqual(arrays) {
        for (const [name, expected] of Object.entries(arrays)) {
          const type = (expected.BYTES_PER_ELEMENT === 1 ? Uint8Array : Uint32Array) as typeof Uint32Array;
          const actual = buffers.get(name)!.readSync(type);
          const bits = new type(expected.buffer);
          const index = actual.findIndex((value, index) => value !== bits[index]);
          if (index >= 0) {
            const [found, wanted] = [actual[index]!, bits[index]!].map((value) => `0x${value.toString(16)}`);
            throw new Error(`"${name}" differs at ${index}: the bits are ${found}, and should be ${wanted}`);
          }
        }
      },
      digest() {
        const hash = createHash("sha256");
        for (const buffer of buffers.values()) hash.update(buffer.readSync(Uint8Array));
        return hash.digest("hex");
      },
      [Symbol.dispose]: () => releaser.dispose(),
    };
  } catch (error) {
    owned.dispose();
    throw error;
  }
}
