/**
 * The PTX versions and targets that the software device accepts: those of CUDA 13.0 for compute capability 9.0.
 *
 * @module
 */
import { PtxError, type PtxHeader } from "../../../ptx/syntax.ts";

/** Thrown if the version of PTX text is not supported. */
export class PtxVersionError extends PtxError {}

const newestVersion = "9.0";

/** The last minor version of each major version of PTX. */
const lastMinorParts: ReadonlyMap<number, number> = new Map([
  [1, 5],
  [2, 3],
  [3, 2],
  [4, 3],
  [5, 1],
  [6, 5],
  [7, 8],
  [8, 8],
  [9, 0],
]);

/** The target architectures, by the PTX version that introduced them. */
const architecturesSince: ReadonlyMap<number, readonly string[]> = new Map([
  [1.0, ["10", "11"]],
  [1.2, ["12", "13"]],
  [2.0, ["20", "21"]],
  [3.0, ["30", "35"]],
  [4.0, ["32", "50"]],
  [4.1, ["37", "52"]],
  [4.2, ["53"]],
  [5.0, ["60", "61", "62"]],
  [5.1, ["70"]],
  [6.1, ["72"]],
  [6.2, ["82"]],
  [6.3, ["75"]],
  [7.0, ["80"]],
  [7.1, ["86"]],
  [7.3, ["88"]],
  [7.4, ["87"]],
  [7.8, ["89", "90"]],
  [8.0, ["90a"]],
]);

/** How the version and the target of a module change the meaning of its instructions. */
export interface PtxDialect {
  /** The version of PTX, such as 7.8. */
  readonly version: number;
  /** Whether all arithmetic on `.f32` flushes subnormal numbers to zero, as on devices before sm_20. */
  readonly flushesSubnormals: boolean;
  /** Whether instructions may exchange values among the lanes of a warp without a mask of the participating lanes. */
  readonly hasWarpsInLockstep: boolean;
  /** Whether the target is sm_90a, which has instructions that sm_90 lacks. */
  readonly isOfSm90a: boolean;
}

/** The dialect of the newest PTX that is supported. */
export const newestDialect: PtxDialect = {
  version: Number(newestVersion),
  flushesSubnormals: false,
  hasWarpsInLockstep: false,
  isOfSm90a: true,
};

/** Returns the dialect of a module with the given header. */
export function dialectOf({ version: { major, minor }, target }: PtxHeader): PtxDialect {
  const architecture = architectureOf(target);
  const version = Number(`${major}.${minor}`);
  return {
    version,
    flushesSubnormals: architecture < 20,
    hasWarpsInLockstep: architecture < 70 || version < 6.4,
    isOfSm90a: target.names[0] === "sm_90a",
  };
}

/** Returns the number of a target's architecture: 90 for sm_90a. */
export function architectureOf({ names }: PtxHeader["target"]): number {
  return Number(/\d+/.exec(names[0]!)?.[0]);
}

/** Options that may follow the architecture of a target. */
const targetOptions: ReadonlySet<string> = new Set(["texmode_unified", "texmode_independent", "debug"]);
/**
 * The option of targets that lack 64-bit floats, which maps 64-bit floats to 32 bits. The option has no effect on a
 * device that supports 64-bit floats, as with `ptxas`.
 */
const mapsDoubles = "map_f64_to_f32";

/**
 * Throws if the device does not support the version or the target in a PTX header.
 *
 * @throws {PtxVersionError} If the version does not exist, or is newer than the supported versions
 * @throws {PtxError} If the device does not support the target, or the PTX version predates it
 */
export function checkHeader({ version: { major, minor, line }, target: { names, line: targetLine } }: PtxHeader): void {
  const text = `${major}.${minor}`;
  if (minor > (lastMinorParts.get(major) ?? -1)) {
    throw new PtxVersionError(line, `cannot compile PTX ${text}: versions up to ${newestVersion} are supported`);
  }
  for (const [index, name] of names.entries()) {
    if (index > 0 && targetOptions.has(name)) continue;
    if (index > 0 && name === mapsDoubles) {
      if (architectureOf({ names, line }) < 13) continue;
      throw new PtxError(
        targetLine,
        `cannot compile for "${names[0]}" with "${mapsDoubles}": only sm_10 to sm_12 have it`,
      );
    }
    const since = firstVersionOf(name);
    if (since === undefined) {
      throw new PtxError(targetLine, `cannot compile for "${name}": the device runs code for sm_90 and older targets`);
    }
    if (since > Number(text)) {
      const known = since.toFixed(1);
      throw new PtxError(
        targetLine,
        `cannot compile for "${name}": PTX ${text} does not support it, PTX ${known} is the first that does`,
      );
    }
  }
}

function firstVersionOf(target: string): number | undefined {
  const architecture = /^(?:sm|compute)_(.*)$/.exec(target)?.[1];
  for (const [version, architectures] of architecturesSince) {
    if (architecture !== undefined && architectures.includes(architecture)) return version;
  }
  return undefined;
}
