import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { hexOf, printAs } from "../../support/printing.ts";
import { TypeError } from "../../support/program_errors.ts";
import { refuseConstruction, whatIs } from "../../support/validation.ts";
import type { ActiveCapture } from "./captures.ts";
import type { GraphParts } from "./graph_parts.ts";

/** Options of a condition. */
export interface ConditionOptions {
  /** The value at the beginning of each launch, from 0 to 2 ** 32 - 1. Defaults to none: the last value remains. */
  defaultValue?: number;
}

/** Returns the handle of a condition that a node will test. Throws unless it is one of the graph, and unused. */
export let handleToTest: (condition: GraphCondition, parts: GraphParts) => { handle: bigint; isUsed: boolean };

/** Call when a node tests a condition. */
export let noteTest: (condition: GraphCondition) => void;

/**
 * Returns the handle of a condition for a kernel of its graph.
 *
 * @param where the capture of the launch's stream, or undefined for a node that is added by hand
 */
export let handleForKernel: (
  condition: GraphCondition,
  where: { readonly capture: ActiveCapture | undefined; readonly isNode: boolean },
) => bigint;

const refusalToClone = cloneRefusal("a GraphCondition", openInWorker);

/**
 * A value that a conditional node of a graph tests, and that kernels of the graph set with `cudaGraphSetConditional`.
 * A kernel gets it as an argument, for a parameter of the type `cudaGraphConditionalHandle`. Comes from
 * `CudaGraph.createCondition`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
 */
export class GraphCondition {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The `cudaGraphConditionalHandle`, for kernels that get it within a struct, and for CUDA calls by FFI. */
  readonly unsafeHandle: bigint;
  readonly #parts: GraphParts;
  /** Whether a node tests it. */
  #isUsed = false;

  static {
    handleToTest = (condition, parts) => {
      if (!(condition instanceof GraphCondition)) {
        throw new TypeError(
          `Cannot test ${whatIs(condition, "GraphCondition")}: give a GraphCondition from createCondition`,
        );
      }
      if (!isWithin(parts, condition.#parts)) {
        throw new TypeError(
          "Cannot test a condition of another graph: create it with createCondition of the graph, or of one around it",
        );
      }
      return { handle: condition.unsafeHandle, isUsed: condition.#isUsed };
    };
    noteTest = (condition) => condition.#isUsed = true;
    handleForKernel = (condition, { capture, isNode }) => {
      const { root } = condition.#parts;
      if (isNode ? root.isBuilding : capture !== undefined && root.captures.has(capture)) return condition.unsafeHandle;
      throw new TypeError(
        "Cannot pass a condition to a kernel outside its graph: give it to addKernel of the graph, or to a launch on a " +
          "stream that is captured into the graph",
      );
    };
    printAs(this, "GraphCondition", (condition) => {
      return `GraphCondition { ${hexOf(condition.unsafeHandle)}, ${condition.#isUsed ? "tested" : "not tested yet"} }`;
    }, [
      ["handle", (condition) => condition.unsafeHandle],
      ["isTested", (condition) => condition.#isUsed],
    ]);
  }

  /**
   * Conditions come from `CudaGraph.createCondition`.
   *
   * @ignore
   */
  constructor(
    parts: GraphParts,
    { handle = refuseConstruction("GraphCondition", "CudaGraph.createCondition") }: { handle: bigint } = {} as never,
  ) {
    this.#parts = parts;
    this.unsafeHandle = handle;
  }
}

/** Whether a graph is another one, or the body of a node of it at any depth. */
function isWithin(parts: GraphParts, around: GraphParts): boolean {
  return parts === around || parts.around !== undefined && isWithin(parts.around, around);
}
