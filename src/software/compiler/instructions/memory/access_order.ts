/**
 * The orders of accesses and fences. PTX ISA, chapter 8.
 *
 * @module
 */
import { orderBits, orderCountShift } from "../../../abi/check_state.ts";
import type { ResolvedInstruction } from "../../../../ptx/instructions/resolved_instruction.ts";

const wideScopes: readonly (string | undefined)[] = ["gpu", "sys", "gl"];

/**
 * The order of an access.
 *
 * @param isStrong whether it is strong without saying how, as volatile and atomic ones are
 * @param defaults what an instruction means that does not say it: volatile accesses are relaxed in the widest scope
 */
export function accessOrderOf(
  { choices, form }: ResolvedInstruction,
  { isStrong, elements = 1, defaults: { semantics = "relaxed", scope = "sys" } = {} }: {
    readonly isStrong: boolean;
    readonly elements?: number;
    readonly defaults?: { readonly semantics?: string; readonly scope?: string };
  },
): number {
  const count = Math.log2(elements) << orderCountShift;
  if (!isStrong) return count | (form.traits.readsConstants === true ? orderBits.notCoherent : 0);
  const isWide = wideScopes.includes(choices.get("scope") ?? scope);
  return count | orderBits.strong | semanticsOf(choices.get("semantics") ?? semantics) | (isWide ? orderBits.wide : 0);
}

/** The order that a fence gives. Undefined for fences of proxies and for instructions that are not fences. */
export function fenceOrderOf({ choices }: ResolvedInstruction): number | undefined {
  const level = choices.get("level");
  const scope = level ?? choices.get("scope");
  if (scope === undefined) return undefined;
  // `membar` is another name of `fence.sc`.
  const semantics = level === undefined ? choices.get("semantics") ?? "acq_rel" : "sc";
  const isWide = wideScopes.includes(scope);
  return semanticsOf(semantics) | (isWide ? orderBits.wide : 0) | (semantics === "sc" ? orderBits.sequential : 0);
}

function semanticsOf(semantics: string): number {
  const { acquire, release } = orderBits;
  if (semantics === "acquire") return acquire;
  if (semantics === "release") return release;
  return semantics === "relaxed" ? 0 : acquire | release;
}
