/**
 * The rows of instructions on textures and surfaces.
 *
 * @module
 */
import { type InstructionRow, type InstructionTraits, pure } from "../instruction_traits.ts";
import { onFirstUse, row, type Rows } from "./row.ts";

/** The names of the instruction table's rows for textures and surfaces. */
export type TextureName =
  | "tex"
  | "tex.level"
  | "tex.grad"
  | "tld4"
  | "txq"
  | "txq.level"
  | "istypep"
  | "suld"
  | "sust.b"
  | "sust.p"
  | "sured.b"
  | "sured.p"
  | "suq";

const flat = "<geometry:1d|2d|3d|a1d|a2d>";
const cubes = "<geometry:cube|acube>";
const reducedGeometry = "<geometry:1d|2d|3d>";
const results = "v4.<type:u32|s32|f32|f16>";
const pairs = "v2.<type:f16x2>";
const component = "<component:r|g|b|a>";
const vector = "<vector:v2|v4>?";
const outside = "<outside:trap|clamp|zero>";
const element = "<type:b8|b16|b32|b64>";
const textureQueries = "<query:width|height|depth|channel_data_type|channel_order|normalized_coords|array_size|" +
  "num_mipmap_levels|num_samples|force_unnormalized_coords|filter_mode|addr_mode_0|addr_mode_1|addr_mode_2>";
const surfaceQueries = "<query:width|height|depth|channel_data_type|channel_order|array_size|memory_layout>";

/** The traits of reads of textures, whose memory the kernel must not write. */
const reading: InstructionTraits = {
  ...pure,
  effects: ["reads"],
  access: "none",
  takesCoordinates: true,
  readsConstants: true,
};
/** The traits of queries of textures and surfaces. */
const querying: InstructionTraits = { ...pure, access: "none" };
const loading: InstructionTraits = { ...reading, effects: ["reads", "observes", "traps"], readsConstants: false };
const storing: InstructionTraits = { ...pure, effects: ["writes", "traps"], access: "none", takesCoordinates: true };
const reducing: InstructionTraits = {
  ...storing,
  effects: ["reads", "observes", "writes", "traps"],
  isUniform: false,
};

/** How far the level of detail of gradients may be from that of a GPU. */
const levelBound = "the level of detail of gradients is within 2/256 of a GPU's, " +
  "and anisotropic filtering gives texels weights within 2/256 of a GPU's";
const cubeBound =
  "coordinates of cubemaps have a correctly rounded reciprocal in the place of a GPU's approximate one, " +
  "so that their last bits may differ";

function onTextures(
  modifiers: string,
  operands: string,
  traits: InstructionTraits = reading,
): InstructionRow[] {
  return [results, pairs].flatMap((form) => [
    row(`tex.${modifiers}${flat}.${form}.<from:s32|f32> ${operands}`, "9.7.10.3", traits),
    row(`tex.${modifiers}${cubes}.${form}.<from:f32> ${operands}`, "9.7.10.3", { bound: cubeBound, ...traits }),
  ]);
}

/** Returns the instruction table's rows for textures and surfaces. */
export const textureRows: () => Rows<TextureName> = onFirstUse((): Rows<TextureName> => ({
  tex: onTextures("base?.", "d, [t] [, e] [, f]"),
  "tex.level": onTextures("level.", "d, [t], lod [, e] [, f]"),
  "tex.grad": onTextures("grad.", "d, [t], dPdx, dPdy [, e] [, f]", { ...reading, bound: levelBound }),
  tld4: [
    row(`tld4.${component}.<geometry:2d|a2d>.v4.<type:u32|s32|f32>.<from:f32> d, [t] [, e] [, f]`, "9.7.10.4", reading),
    row(`tld4.${component}.${cubes}.v4.<type:u32|s32|f32>.<from:f32> d, [t] [, e] [, f]`, "9.7.10.4", {
      ...reading,
      bound: cubeBound,
    }),
  ],
  txq: row(`txq.${textureQueries}.<type:b32> d, [a]`, "9.7.10.5", querying),
  "txq.level": row(`txq.level.<query:width|height|depth>.<type:b32> d, [a], lod`, "9.7.10.5", querying),
  istypep: row("istypep.<kind:texref|samplerref|surfref> p, a", "9.7.10.6", querying),
  suld: row(
    `suld.b.${flat}.<cache:ca|cg|cs|cv>?.${vector}.${element}.${outside} d, [t]`,
    "9.7.11.1",
    loading,
  ),
  "sust.b": row(
    `sust.b.${flat}.<cache:wb|cg|cs|wt>?.${vector}.${element}.${outside} [t], b`,
    "9.7.11.2",
    storing,
  ),
  "sust.p": row(
    `sust.p.${flat}.<cache:wb|cg|cs|wt>?.${vector}.<type:b32>.${outside} [t], b`,
    "9.7.11.2",
    storing,
  ),
  "sured.b": [
    row(
      `sured.b.<operation:add|min|max>.${reducedGeometry}.<type:u32|s32|u64>.${outside} [t], b`,
      "9.7.11.3",
      reducing,
    ),
    row(`sured.b.<operation:min|max>.${reducedGeometry}.<type:s64>.${outside} [t], b`, "9.7.11.3", reducing),
    row(`sured.b.<operation:and|or>.${reducedGeometry}.<type:b32>.${outside} [t], b`, "9.7.11.3", reducing),
  ],
  "sured.p": [
    row(`sured.p.<operation:add|min|max|and|or>.${reducedGeometry}.<type:b32>.${outside} [t], b`, "9.7.11.3", reducing),
    row(`sured.p.<operation:min|max>.${reducedGeometry}.<type:b64>.${outside} [t], b`, "9.7.11.3", reducing),
  ],
  suq: row(`suq.${surfaceQueries}.<type:b32> d, [a]`, "9.7.11.4", querying),
}));
