import type { CompiledKernel } from "../../../compiler/compile.ts";
import type { LaunchCells } from "../../../memory/check_memory.ts";
import type { Geometry } from "../../modules/kernel_versions.ts";
import type { KernelVariables } from "../variable_names.ts";
import type { Findings } from "../findings.ts";
import { RaceCheck } from "./race_check.ts";
import { RaceFindings } from "./race_findings.ts";
import { Signals } from "./signals.ts";

/** A launch that is checked for races. */
export interface RacingLaunch {
  readonly kernel: { readonly compiled: KernelVariables & Pick<CompiledKernel, "hasReleases"> };
  readonly geometry: Geometry;
  /** The launch record. */
  readonly fields: Int32Array;
}

/** Parameters of the check other than the launch. */
export interface RacePlace {
  /** All of linear memory, and the bounds table of the device. */
  readonly bytes: Uint8Array;
  readonly allocations: Uint32Array;
  /** Receives the findings. */
  readonly findings: Findings;
  readonly sourceOf: (place: number) => string;
  readonly nameOf: (offset: number, bytes: number) => string | undefined;
  readonly memory: LaunchCells;
}

/** Starts the check of a launch. */
export function startRaceCheck(
  { kernel: { compiled }, geometry, fields }: RacingLaunch,
  { bytes, allocations, findings: all, sourceOf, nameOf, memory }: RacePlace,
): RaceCheck {
  const { hasReleases } = compiled;
  const signals = new Signals();
  const findings = new RaceFindings({ findings: all, geometry, sourceOf, nameOf, signals, variables: compiled });
  return new RaceCheck({ geometry, hasReleases, fields, bytes, allocations, findings, signals, memory });
}
