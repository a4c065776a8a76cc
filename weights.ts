/**
 * Weights that stay on the GPU: loaded once from a safetensors file into the memory of a store, and mapped by every
 * process that starts. The store outlives the process that has loaded them.
 *
 * Weights have a name and a revision: a digest of what they are, which the device computes. The same tensors are the same
 * revision, in whichever files they lie.
 *
 * @module
 */
export {
  mapWeights,
  type MapWeightsOptions,
  publishWeights,
  type PublishWeightsOptions,
  Weights,
} from "./src/weights/weights.ts";
export { readSafetensors } from "./safetensors.ts";
