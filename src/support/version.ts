/** How people write a number such as `cuDriverGetVersion` gives: 13.0 for 13000. */
export function formatVersion(version: number): string {
  return `${Math.floor(version / 1000)}.${version % 1000 / 10}`;
}
