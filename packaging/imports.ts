/**
 * How code of this repository names the package, and how its users' does.
 *
 * @module
 */

/** Where users have the package from: its main module, and the folder of its kernels. */
export interface Source {
  readonly main: string;
  readonly kernels: string;
}

/** Text whose imports of `mod.ts` and of kernels, from any folder here, are the users' own instead. */
export function forUsers(
  text: string,
  { main, kernels }: Source = { main: "poolpass", kernels: "poolpass/kernels" },
): string {
  return text
    .replaceAll(/(?<=\bfrom ")(?:\.\.?\/)+mod\.ts(?=")/g, main)
    .replaceAll(/(?<=\bfrom ")(?:\.\.?\/)+kernels\/(\w+)\.ts(?=")/g, `${kernels}/$1.js`);
}
