/**
 * Model weights that stay on the GPU: one process loads them from a safetensors file into the memory of a store, and
 * any number of processes map them. The weights remain in the store when the process that loaded them exits.
 *
 * Weights have a name and a revision, which is a digest of their content that is computed on the device. Identical
 * tensors have the same revision, regardless of the files that contain them.
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
export {
  offloadWeights,
  type OffloadWeightsOptions,
  restoreWeights,
  type RestoreWeightsOptions,
  type SavedWeights,
  saveWeights,
  type SaveWeightsOptions,
} from "./src/weights/moved_weights.ts";
export { readSafetensors } from "./safetensors.ts";
