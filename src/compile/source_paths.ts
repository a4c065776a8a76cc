/**
 * The names of source files in PTX.
 *
 * @module
 */

/** A `.file` directive: its beginning, the path, and the rest of the line. */
const fileDirective = /^(\s*\.file\s+\d+\s+")([^"\n]*)(".*)$/gm;

/**
 * Removes the folder in which the compiler ran from the paths of source files, which compilers put in front of the
 * source's name: PTX then is the same wherever it is compiled.
 */
export function removeWorkingFolder(ptx: string, name: string): string {
  const paths = Array.from(ptx.matchAll(fileDirective), ([, , path]) => path!);
  const source = paths.find((path) => path.endsWith(`/${name}`));
  if (source === undefined) return ptx;
  const folder = source.slice(0, -name.length);
  return ptx.replaceAll(
    fileDirective,
    (_, begin: string, path: string, end: string) =>
      begin + (path.startsWith(folder) ? path.slice(folder.length) : path) + end,
  );
}
