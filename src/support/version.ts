/** The version of poolpass, such as `"0.1.0"`. */
export const version: string = "0.1.0";

/** Formats a version number as `cuDriverGetVersion` returns it: `"13.0"` for 13000. */
export function formatVersion(version: number): string {
  return `${Math.floor(version / 1000)}.${version % 1000 / 10}`;
}
