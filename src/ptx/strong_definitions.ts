import { parsePtx } from "./parsing/parser.ts";
import { PtxError } from "./syntax.ts";

/** The names that a PTX module defines for all others, and that no other may define. Empty if it cannot be parsed. */
export function strongDefinitions(ptx: string): readonly string[] {
  try {
    const { functions, variables } = parsePtx(ptx);
    const defined = functions.filter(({ linkage, body }) => linkage === "visible" && body !== undefined);
    return [...defined, ...variables.filter(({ linkage }) => linkage === "visible")].map(({ name }) => name);
  } catch (error) {
    if (error instanceof PtxError) return [];
    throw error;
  }
}
