/** Rounds a value up to a multiple of `multiple`. */
export function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}
