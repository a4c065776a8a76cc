/**
 * The rows of instructions on textures and surfaces.
 *
 * @module
 */
import { type InstructionTraits, pure } from "../instruction_traits.ts";
import { onFirstUse, row, type Rows } from "./row.ts";

/** The names of the instruction table's rows for textures and surfaces. */
export type TextureName = "tex" | "tex.f16x2";

const geometry = "<geometry:1d|2d|3d|a1d|a2d|cube|acube>";
const results = "v4.<type:u32|s32|f32|f16>";
const pairs = "v2.<type:f16x2>";
const coordinates = "<from:s32|f32>";

/** The traits of reads of textures, whose memory the kernel must not write. */
const reading: InstructionTraits = {
  ...pure,
  effects: ["reads"],
  access: "none",
  takesCoordinates: true,
  readsConstants: true,
};

export const textureRows: () => Rows<TextureName> = onFirstUse((): Rows<TextureName> => ({
  tex: row(`tex.base?.${geometry}.${results}.${coordinates} d, [t] [, e] [, f]`, "9.7.10.3", reading),
  "tex.f16x2": row(`tex.base?.${geometry}.${pairs}.${coordinates} d, [t] [, e] [, f]`, "9.7.10.3", reading),
}));
