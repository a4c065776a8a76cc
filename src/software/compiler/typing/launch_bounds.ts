import { type FunctionDeclaration, PtxError } from "../../../ptx/syntax.ts";
import type { PtxDialect } from "./supported_ptx.ts";

/** Directives on a kernel that do not change its results: hints for speed, and limits that the caller checks. */
const knownDirectives: ReadonlySet<string> = new Set([
  "maxntid",
  "reqntid",
  "minnctapersm",
  "maxnreg",
  "pragma",
  "maxclusterrank",
  "reqnctapercluster",
  "explicitcluster",
  "blocksareclusters",
]);

/** The blocks and clusters with which a kernel may be launched, as its directives state them. */
export interface LaunchBounds {
  /** The maximum number of threads per block. Undefined if the kernel states no maximum. */
  readonly maxThreadsPerBlock: number | undefined;
  /** The block size that every launch must have, in x, y and z. Undefined if every size is allowed. */
  readonly requiredThreads: readonly [x: number, y: number, z: number] | undefined;
  /** The size of the clusters of a launch in blocks, if the kernel requires one. */
  readonly requiredCluster: readonly [x: number, y: number, z: number] | undefined;
  /** The maximum number of blocks of a cluster, if the kernel limits it. */
  readonly mostClusterBlocks: number | undefined;
  /** Whether the grids of launches are counted in clusters, of which the kernel states the size. */
  readonly blocksAreClusters: boolean;
}

/** Reads the directives of a kernel. Throws `PtxError` if a directive is not valid. */
export function launchBounds({ directives }: FunctionDeclaration, { version }: PtxDialect): LaunchBounds {
  let maxThreadsPerBlock: number | undefined;
  let requiredThreads: LaunchBounds["requiredThreads"];
  let requiredCluster: LaunchBounds["requiredCluster"];
  let mostClusterBlocks: number | undefined;
  let areClusters: number | undefined;
  for (const { name, values, line } of directives) {
    if (name === "blocksareclusters") areClusters = line;
    if (name === "maxnctapersm" && version < 2.1) continue;
    if (!knownDirectives.has(name)) throw new PtxError(line, `cannot use the directive ".${name}": it is not known`);
    if (name === "maxclusterrank") mostClusterBlocks = values[0];
    // A cluster of no blocks is one of which the launch states the size.
    if (name === "reqnctapercluster" && values[0] !== 0) {
      requiredCluster = [values[0] ?? 1, values[1] ?? 1, values[2] ?? 1];
    }
    if (name !== "maxntid" && name !== "reqntid") continue;
    if (values.length < 1 || values.length > 3 || values.includes(0)) {
      throw new PtxError(line, `cannot use the directive ".${name}": one to three numbers above 0 must follow`);
    }
    if (maxThreadsPerBlock !== undefined) {
      throw new PtxError(
        line,
        `cannot use the directive ".${name}": another directive states the threads of a block already`,
      );
    }
    const [x = 1, y = 1, z = 1] = values;
    maxThreadsPerBlock = x * y * z;
    if (name === "reqntid") requiredThreads = [x, y, z];
  }
  if (areClusters !== undefined && (requiredThreads === undefined || requiredCluster === undefined)) {
    throw new PtxError(
      areClusters,
      'cannot use the directive ".blocksareclusters": .reqntid and .reqnctapercluster must stand beside it',
    );
  }
  return {
    maxThreadsPerBlock,
    requiredThreads,
    requiredCluster,
    mostClusterBlocks,
    blocksAreClusters: areClusters !== undefined,
  };
}
