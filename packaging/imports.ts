/**
 * Translates imports of this repository's modules into imports of the package.
 *
 * @module
 */

/** The specifiers by which users import the package: of its main module, and of the folder of its kernels. */
export interface Source {
  readonly main: string;
  readonly kernels: string;
}

/** Replaces relative imports of `mod.ts` and of kernels in a text by the specifiers that users write. */
export function forUsers(
  text: string,
  { main, kernels }: Source = { main: "poolpass", kernels: "poolpass/kernels" },
): string {
  return text
    .replaceAll(/(?<=\bfrom ")(?:\.\.?\/)+mod\.ts(?=")/g, main)
    .replaceAll(/(?<=\bfrom ")(?:\.\.?\/)+kernels\/(\w+)\.ts(?=")/g, `${kernels}/$1.js`);
}
