/**
 * The part of an error's message that says which names there are instead of an unknown one.
 *
 * @module
 */
import { nearestNames } from "../../support/validation.ts";

/** The maximum number of names that are compared with a requested name that does not exist. */
const maximumCompared = 1000;
/** The maximum number of names that an error quotes. */
const maximumQuoted = 8;
/** The maximum number of characters of each name that an error quotes. */
const quotedLength = 40;

/**
 * Returns the names that are similar to an unknown name, or the first names if none is similar: `the exporter offers
 * "weights"; is the name right?`.
 *
 * @param names a map with the known names as its keys. Not all of them are compared, because a hostile process may have
 * made many
 * @param list the beginning of the list, such as `"the exporter offers"`
 */
export function knownNames(name: string, names: ReadonlyMap<string, unknown>, list: string): string {
  const known = [...names.keys().take(maximumCompared)];
  const near = nearestNames(name, known);
  if (near.length > 0) return `${list} ${near.map(quoted).join(", ")}; is the name right?`;
  const more = names.size - maximumQuoted;
  return `${list} ${known.slice(0, maximumQuoted).map(quoted).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** Returns a name in quotes, shortened to `quotedLength` characters. */
function quoted(name: string): string {
  return JSON.stringify(name.length > quotedLength ? `${name.slice(0, quotedLength)}...` : name);
}
