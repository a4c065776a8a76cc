/**
 * What a device makes of asynchronous copies, tensor maps, clusters and barriers, also where the manual does not say.
 *
 * @module
 */
import type { CudaDevice } from "../../../mod.ts";
import { barrierCases } from "./barrier_cases.ts";
import { boxCases } from "./box_cases.ts";
import { bulkCases } from "./bulk_cases.ts";
import { clusterCases } from "./cluster_cases.ts";
import type { Cases } from "./kernel_body.ts";
import { productCases } from "./product_cases.ts";
import { registerCases } from "./register_cases.ts";

/** All cases. */
export const cases: Cases = {
  ...boxCases,
  ...bulkCases,
  ...clusterCases,
  ...barrierCases,
  ...registerCases,
  ...productCases,
};

/** What a case comes to: what it returns, or the code or the name of its error. */
export interface Outcome {
  readonly name: string;
  readonly outcome: string;
  /** The beginning of the error's message. */
  readonly message?: string;
  /** Whether the case has ended the use of the device. */
  readonly isLost?: true;
}

/** Runs a case. */
export function outcomeOf(gpu: CudaDevice, name: string): Outcome {
  try {
    return { name, outcome: cases[name]!(gpu) };
  } catch (error) {
    const { code, name: kind, message } = error as Error & { code?: string };
    const isLost = message.includes("context is lost");
    return { name, outcome: code ?? kind, message: message.slice(0, 400), ...isLost ? { isLost } : {} };
  }
}
