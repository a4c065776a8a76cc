/**
 * Headers from strings, for compilers that read headers from files.
 *
 * @module
 */

/** Comments and literals, in which nothing is an include, and then includes with their names. */
const includes = new RegExp(
  [
    /\/\/(?:\\\r?\n|[^\n])*/,
    /\/\*[^]*?(?:\*\/|$)/,
    /\b(?:u8|[uUL])?R"(?<delimiter>[^()\\\s]{0,16})\([^]*?\)\k<delimiter>"/,
    /"(?:\\[^]|[^"\\\n])*"/,
    /(?<!\w)'(?:\\[^]|[^'\\\n])*'/,
    /(?<before>#[ \t]*include[ \t]*|\b__has_include[ \t]*\([ \t]*)(?:"(?<quoted>[^"\n]+)"|<(?<angled>[^>\n]+)>)/,
  ].map(({ source }) => source).join("|"),
  "g",
);

/**
 * Replaces the names in `#include` and `__has_include` by the paths of the files that have the headers. Names that a
 * macro expands to are not found.
 */
export function replaceIncludes(text: string, paths: ReadonlyMap<string, string>): string {
  if (paths.size === 0) return text;
  return text.replaceAll(includes, (match, ...rest) => {
    const { before, quoted, angled } = rest.at(-1) as Record<string, string | undefined>;
    const path = before === undefined ? undefined : paths.get(quoted ?? angled!);
    return path === undefined ? match : `${before}"${path}"`;
  });
}

/** A text whose lines the compiler counts from here, by a name. */
export function named(text: string, name: string): string {
  const literal = name.replaceAll(/["\\]/g, "\\$&").replaceAll("\n", "\\n");
  return `#line 1 "${literal}"\n${text}`;
}
