import type { CompiledKernel } from "../../../compiler/compile.ts";
import type { LaunchCells } from "../../../memory/check_memory.ts";
import type { Geometry } from "../../modules/gang_versions.ts";
import type { KernelVariables } from "../variable_names.ts";
import type { Findings } from "../findings.ts";
import { RaceCheck } from "./race_check.ts";
import { RaceFindings } from "./race_findings.ts";
import { Signals } from "./signals.ts";

/** A launch whose races are looked for. */
export interface RacingLaunch {
  readonly kernel: { readonly compiled: KernelVariables & Pick<CompiledKernel, "hasReleases"> };
  readonly geometry: Geometry;
  /** The launch record. */
  readonly fields: Int32Array;
}

/** What the check takes beside the launch. */
export interface RacePlace {
  /** All of linear memory, and the bounds table of the device. */
  readonly bytes: Uint8Array;
  readonly allocations: Uint32Array;
  /** Gets what is found. */
  readonly findings: Findings;
  readonly sourceOf: (place: number) => string;
  readonly nameOf: (offset: number, bytes: number) => string | undefined;
  readonly memory: LaunchCells;
}

/** Begins to look for races of a launch. */
export function startRaceCheck(
  { kernel: { compiled }, geometry, fields }: RacingLaunch,
  { bytes, allocations, findings: all, sourceOf, nameOf, memory }: RacePlace,
): RaceCheck {
  const { hasReleases } = compiled;
  const signals = new Signals();
  const findings = new RaceFindings({ findings: all, geometry, sourceOf, nameOf, signals, variables: compiled });
  return new RaceCheck({ geometry, hasReleases, fields, bytes, allocations, findings, signals, memory });
}
