import type { DeviceArray } from "../../memory/device_array.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import type { HostBuffer } from "../../memory/transfers/host_buffer.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { printAs } from "../../support/printing.ts";
import { refuseConstruction, type TypedArray } from "../../support/validation.ts";
import type { KernelArgument, TextureArgument } from "../kernels/kernel_arguments.ts";
import type { StructValue } from "../structs/struct.ts";
import type { GraphCondition } from "./graph_condition.ts";
import type { ActiveCapture } from "./captures.ts";

/** What a named argument of a graph can be: memory, a number, bigint or boolean, or the value of a struct. */
export type GraphArgumentValue = DeviceBuffer | HostBuffer | number | bigint | boolean | StructValue;

/** The named arguments of a graph. */
export interface GraphArguments {
  /** An argument, by its name. */
  readonly [name: string]: GraphArgumentValue;
}

/**
 * What a capture uses for an argument: memory as it is, and a {@linkcode GraphArgument} for a value, which stands for
 * its later values, too.
 */
export type BoundArgument<T> = T extends DeviceBuffer | HostBuffer ? T : GraphArgument<ArgumentUpdate<T>>;

/**
 * The values that an argument can get after the capture: any number for a number, and arrays of the same elements,
 * whichever memory these are in.
 */
export type ArgumentUpdate<T> = T extends DeviceArray<infer Elements>
  // The type of typed arrays without that of their memory: `Float32Array` for a `Float32Array<ArrayBuffer>`.
  ? DeviceArray<
    TypedArray extends infer All ? All extends TypedArray ? Elements extends All ? All : never : never : never
  >
  : T extends number ? number
  : T extends bigint ? bigint
  : T extends boolean ? boolean
  : T;

/**
 * The arguments of a launch: for each parameter a value or, for a graph, an argument of the graph or a condition.
 * A texture or surface takes the place of its handle.
 */
export type LaunchArguments<Parameters extends readonly KernelArgument[]> = {
  [Index in keyof Parameters]:
    | Parameters[Index]
    | GraphArgument<Exclude<Parameters[Index], { readonly address: bigint }>>
    | (number | bigint extends Parameters[Index] ? GraphCondition | TextureArgument : never);
};

/** Returns the capture that an argument belongs to. */
export let captureOfArgument: (argument: GraphArgument) => ActiveCapture;

const refusalToClone = cloneRefusal("a GraphArgument", openInWorker);

/**
 * A number, bigint, boolean or struct of a graph that can be changed after the capture, with `CudaGraphExec.update`. A
 * launch in the capture takes it in the place of the value. Comes from `GraphCapture.arguments`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
 */
export class GraphArgument<out T = unknown> {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The argument's name. */
  readonly name: string;
  /** The value in the capture. */
  readonly value: T;
  readonly #capture: ActiveCapture;

  static {
    captureOfArgument = (argument) => argument.#capture;
    printAs(this, "GraphArgument", ({ name, value }) => `GraphArgument { ${name}: ${String(value)} }`, [
      "name",
      "value",
    ]);
  }

  /**
   * Arguments come from `GraphCapture.arguments`.
   *
   * @ignore
   */
  constructor(
    { name, value, capture = refuseConstruction("GraphArgument", "GraphCapture.arguments") }: {
      name: string;
      value: T;
      capture: ActiveCapture;
    } = {} as never,
  ) {
    this.name = name;
    this.value = value;
    this.#capture = capture;
  }
}
