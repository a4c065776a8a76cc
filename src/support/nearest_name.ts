/**
 * Suggestions for mistyped names.
 *
 * @module
 */

/** How many names a message lists at most. */
const maximumListed = 12;
/** Up to as many mistakes, a name is nearer than those that contain it. */
const fewMistakes = 2;
/** The length from which a name that is part of others is taken for one of them: "threshold" for "releaseThreshold". */
const minimumPartLength = 4;
/** More names that contain the given one suggest nothing. */
const maximumContaining = 4;
/** A longer name is no typing mistake, and comparing it takes long. */
const maximumLength = 100;

/**
 * Returns the names that may have been meant: the one that differs only in case and punctuation, otherwise the one with
 * the fewest typing mistakes or those that contain `name` or are contained in it. A typing mistake is a letter too many,
 * too few or wrong, or two letters exchanged; one is allowed for every three letters.
 */
export function nearestNames(name: string, names: Iterable<string>): readonly string[] {
  const given = lettersOf(name);
  if (given === "" || given.length > maximumLength) return [];
  let nearest: string | undefined;
  let least = Infinity;
  const containing: string[] = [];
  for (const candidate of names) {
    const letters = lettersOf(candidate);
    if (letters === given || withSize(letters) === withSize(given)) return [candidate];
    const limit = Math.min(Math.floor(Math.max(given.length, letters.length) / 3), least - 1);
    const mistakes = Math.abs(given.length - letters.length) > limit ? Infinity : mistakesBetween(given, letters);
    if (mistakes <= limit) {
      nearest = candidate;
      least = mistakes;
    }
    const [part, whole] = given.length < letters.length ? [given, letters] : [letters, given];
    if (part.length >= minimumPartLength && whole.includes(part)) containing.push(candidate);
  }
  if (least > fewMistakes && containing.length > 0 && containing.length <= maximumContaining) return containing;
  return nearest === undefined ? [] : [nearest];
}

/**
 * `did you mean "stream"?`, or the names if none is near: `the options are priority, nonBlocking`.
 *
 * @param list What comes before the names: `"the options are"`.
 */
export function suggestName(name: string, names: readonly string[], list: string): string {
  const more = names.length - maximumListed;
  const listed = more > 0 ? `${names.slice(0, maximumListed).join(", ")} and ${more} more` : names.join(", ");
  return question(nearestNames(name, names)) ?? `${list} ${listed}`;
}

/** `; did you mean "cuda"?` for the end of a message that has said what is valid; empty if no name is near. */
export function didYouMean(name: unknown, names: readonly string[]): string {
  const asked = typeof name === "string" ? question(nearestNames(name, names)) : undefined;
  return asked === undefined ? "" : `; ${asked}`;
}

function question(nearest: readonly string[]): string | undefined {
  if (nearest.length === 0) return undefined;
  const quoted = nearest.map((name) => `"${name}"`);
  const last = quoted.pop();
  return `did you mean ${quoted.length === 0 ? last : `${quoted.join(", ")} or ${last}`}?`;
}

/** The letters and digits of a name, without case: "posix-fd" and "posixFd" have the same. */
function lettersOf(name: string): string {
  return name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
}

/** Makes "slotByteLength", "slotBytes" and "slotSize" the same. */
function withSize(letters: string): string {
  return letters.replace(/bytelength|bytes/g, "size");
}

/**
 * The number of letters to insert, delete or replace, and of neighbours to exchange, that turn one word into the other,
 * where no letter is changed twice: the optimal string alignment distance.
 */
function mistakesBetween(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1];
      let least = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + (isSame ? 0 : 1));
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        least = Math.min(least, beforeLast[column - 2]! + 1);
      }
      current.push(least);
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length]!;
}

/** Why the name of a kernel or variable may not be found. */
export const manglingHint = 'C++ mangles names, unless declared extern "C"';

/** Suggests the names that C++ may have made of a name. Undefined if there are none. */
export function suggestMangled(name: string, names: readonly string[]): string | undefined {
  const mangled = mangledFrom(name, names);
  return mangled.length === 0 ? undefined : `did you mean "${mangled.join('" or "')}"? ${manglingHint}`;
}

/** The names that C++ may have made of a name, which may have template arguments: `_Z4cubeIfEvPT_` of `cube<float>`. */
function mangledFrom(name: string, names: readonly string[]): string[] {
  const [identifier = ""] = /[A-Za-z_]\w*(?=$|<)/.exec(name) ?? [];
  const part = `${identifier.length}${identifier}`;
  if (identifier === "") return [];
  return names.filter((each) => each.startsWith(`_Z${part}`) || /^_ZN/.test(each) && each.includes(part)).slice(0, 3);
}
