import { decodeMetadata, type JsonValue } from "../protocol/metadata.ts";
import { maximumDepth } from "./checked_json.ts";
import type { LeftOut } from "./status.ts";

/** The maximum number of offers or entries that a status lists. */
export const maximumRows = 10_000;
/** The maximum number of holders, readers and consumers that it lists. */
export const maximumHolders = 20_000;
/** The maximum number of characters of all metadata that it lists, as JSON. */
export const maximumMetadataLength: number = 2 ** 20;

/** Decides what a status lists, so that whatever there is, it is made and sent in a short time. */
export class ListLimits {
  #rows = maximumRows;
  #holders = maximumHolders;
  #metadata = maximumMetadataLength;
  readonly #leftOut = { rows: 0, holders: 0, metadata: 0 };

  /** How much was not listed. */
  get leftOut(): LeftOut {
    return { ...this.#leftOut };
  }

  /** Whether another row may be listed. */
  takeRow(): boolean {
    if (this.#rows-- > 0) return true;
    this.#leftOut.rows++;
    return false;
  }

  /** The first holders of a row, as many as may be listed. */
  takeHolders<Holder>(holders: readonly Holder[]): readonly Holder[] {
    const taken = holders.length <= this.#holders ? holders : holders.slice(0, this.#holders);
    this.#holders -= taken.length;
    this.#leftOut.holders += holders.length - taken.length;
    return taken;
  }

  /** The metadata of a row, as a property, if there is any and it may be listed. */
  takeMetadata(json: string): { readonly metadata?: JsonValue } {
    if (json === "") return {};
    if (json.length > this.#metadata || depthOf(json) > maximumDepth) {
      this.#leftOut.metadata++;
      return {};
    }
    this.#metadata -= json.length;
    return { metadata: decodeMetadata(json)! };
  }
}

/** How many levels of arrays and objects JSON has. */
function depthOf(json: string): number {
  let [depth, deepest] = [0, 0];
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token === "[" || token === "{") deepest = Math.max(deepest, ++depth);
    else if (token === "]" || token === "}") depth--;
  }
  return deepest;
}
