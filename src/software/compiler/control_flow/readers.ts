/** Finds who must be examined again when something has changed: for each thing, the readers that read it, in order. */
export function readersOf<Reader, Thing>(
  readers: Iterable<Reader>,
  readBy: (reader: Reader) => Iterable<Thing>,
): ReadonlyMap<Thing, readonly Reader[]> {
  const found = new Map<Thing, Reader[]>();
  for (const reader of readers) {
    for (const thing of readBy(reader)) {
      const others = found.get(thing);
      if (others === undefined) found.set(thing, [reader]);
      else others.push(reader);
    }
  }
  return found;
}
