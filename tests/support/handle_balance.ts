import type { Driver, HostAllocation } from "../../src/driver.ts";

/** For each kind of handle, the calls that open one, and the calls that release one with the index of its argument. */
const kinds: Readonly<
  Record<string, { readonly opens: readonly string[]; readonly releases: Record<string, number> }>
> = {
  stream: { opens: ["streamCreateWithPriority"], releases: { streamDestroy: 1 } },
  event: { opens: ["eventCreateWithFlags", "ipcOpenEventHandle"], releases: { eventDestroy: 1 } },
  pool: { opens: ["memPoolCreate", "memPoolImportFromShareableHandle"], releases: { memPoolDestroy: 0 } },
  "pool memory": { opens: ["mallocFromPoolAsync"], releases: { freeAsync: 1 } },
  memory: { opens: ["malloc", "ipcOpenMemHandle"], releases: { free: 1, ipcCloseMemHandle: 1 } },
  module: { opens: ["moduleLoadData", "linkModules"], releases: { moduleUnload: 1 } },
  "host memory": { opens: ["hostAlloc"], releases: { freeHost: 0 } },
  "registered memory": { opens: ["hostRegister"], releases: { hostUnregister: 0 } },
};

/** A driver that counts what is opened through it and not released. */
export interface CountingDriver {
  readonly driver: Driver;
  /** The calls so far, by name. */
  readonly calls: readonly string[];
  /** How many handles of each kind are open. Kinds without any are left out. */
  readonly open: Readonly<Record<string, number>>;
}

/** Counts the handles that are opened through a driver. `overrides` replaces members of the driver. */
export function countHandles(driver: Driver, overrides: Partial<Driver> = {}): CountingDriver {
  const calls: string[] = [];
  const open = new Map<string, number>();
  const keyOf = (kind: string, handle: unknown) =>
    `${kind} ${typeof handle === "object" ? (handle as HostAllocation).address : handle}`;
  const add = (kind: string, handle: unknown, count: number): void => {
    const key = keyOf(kind, handle);
    open.set(key, (open.get(key) ?? 0) + count);
  };
  const counting = new Proxy(driver, {
    get(target, name) {
      if (Object.hasOwn(overrides, name)) return Reflect.get(overrides, name);
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...given: unknown[]) => {
        const result: unknown = value.apply(target, given);
        calls.push(String(name));
        for (const [kind, { opens, releases }] of Object.entries(kinds)) {
          if (opens.includes(String(name))) add(kind, result, 1);
          // However often memory is imported, the first free unmaps it.
          if (kind === "pool memory" && name === "memPoolImportPointer") open.set(keyOf(kind, result), 1);
          const index = releases[String(name)];
          if (index !== undefined) add(kind, given[index], -1);
        }
        return result;
      };
    },
  });
  return {
    driver: counting,
    calls,
    get open() {
      const counts: Record<string, number> = {};
      for (const [key, count] of open) {
        const kind = key.slice(0, key.lastIndexOf(" "));
        if (count !== 0) counts[kind] = (counts[kind] ?? 0) + count;
      }
      return counts;
    },
  };
}
