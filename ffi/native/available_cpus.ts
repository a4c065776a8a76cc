/**
 * The number of CPUs that this process may use, with no permission other than the one for FFI.
 *
 * The runtimes' own numbers (`navigator.hardwareConcurrency`) follow the CPU affinity, but treat CPU quotas
 * differently: Deno 2.9 and Bun 1.4 round a quota of 1.5 CPUs down, Node 26 also ignores quotas below one CPU, and
 * those of cgroup v1 where version 2 is mounted as well.
 *
 * @module
 */
import { dlopen } from "./host.ts";
import { closeDescriptor } from "./shim/descriptors.ts";
import { cString, shim, shimRefusal } from "./shim/shim.ts";

const symbols = {
  sched_getaffinity: {
    parameters: ["i32", /* pid_t pid */ "u64", /* size_t cpusetsize */ "buffer" /* cpu_set_t *mask */],
    result: "i32",
  },
} as const;

/** The size of a CPU mask in bytes: Linux supports at most 8192 CPUs. */
const maskByteLength = 1024;
/** The maximum size of a file that is read, in bytes: the list of mounts is the largest. */
const maximumByteLength = 2 ** 20;
const chunkByteLength = 8192;

/** The cgroups of this process that may have a CPU quota. */
interface CpuGroups {
  /** The path in the hierarchy of cgroup v2. */
  readonly unified: string | undefined;
  /** The path in the hierarchy of cgroup v1 that has the controller `cpu`. */
  readonly cpu: string | undefined;
}

/** A mounted hierarchy of cgroups. */
interface CgroupMount {
  readonly version: 1 | 2;
  /** The cgroup that is mounted. */
  readonly root: string;
  readonly mountPoint: string;
}

/**
 * Returns the number of CPUs in the affinity of the calling thread, or the CPU quota of this process, rounded up,
 * whichever is less. On systems other than Linux, or without FFI, returns the runtime's own number.
 */
export function availableCpus(): number {
  if (shimRefusal() !== undefined) return navigator.hardwareConcurrency || 1;
  return Math.min(cpusOfAffinity() ?? navigator.hardwareConcurrency, Math.ceil(cpuQuota()));
}

/** Returns the number of CPUs in the affinity of the calling thread, or undefined if the system does not report it. */
function cpusOfAffinity(): number | undefined {
  const { sched_getaffinity: getAffinity } = dlopen("libc.so.6", symbols).symbols;
  const mask = new Uint8Array(maskByteLength);
  if (getAffinity?.(0, BigInt(mask.byteLength), mask) !== 0) return undefined;
  let count = 0;
  for (let bits of mask) for (; bits !== 0; bits &= bits - 1) count++;
  return count;
}

/**
 * Returns the CPU quota of this process's cgroup, in CPUs: the least of the quotas of the cgroup and its ancestors, of
 * version 1 and version 2. Infinity if there is no quota, or the files of the cgroup cannot be read.
 *
 * @param root a folder that stands for `/`, for tests
 */
export function cpuQuota(root = ""): number {
  const groups = ownCpuGroups(contentOf(`${root}/proc/self/cgroup`));
  let least = Infinity;
  for (const { version, root: mounted, mountPoint } of cgroupMounts(contentOf(`${root}/proc/self/mountinfo`))) {
    const group = version === 2 ? groups.unified : groups.cpu;
    const names = group === undefined ? undefined : namesBelow(group, mounted);
    if (names === undefined) continue;
    for (let depth = names.length; depth >= 0; depth--) {
      const folder = [root + mountPoint, ...names.slice(0, depth)].join("/");
      least = Math.min(least, version === 2 ? unifiedQuota(folder) : quotaOfVersion1(folder));
    }
  }
  return least;
}

/** Parses `/proc/self/cgroup`, with lines such as `4:cpu,cpuacct:/user.slice`, and `0::/user.slice` of version 2. */
function ownCpuGroups(text: string): CpuGroups {
  let unified: string | undefined, cpu: string | undefined;
  for (const line of text.split("\n")) {
    const [, id, controllers, path] = /^(\d+):([^:]*):(\/.*)$/.exec(line) ?? [];
    if (id === "0" && controllers === "") unified = path;
    else if (controllers?.split(",").includes("cpu")) cpu = path;
  }
  return { unified, cpu };
}

/**
 * Parses `/proc/self/mountinfo`, with lines such as
 * `30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate`.
 */
function cgroupMounts(text: string): CgroupMount[] {
  return text.split("\n").flatMap((line) => {
    const [mount = "", fileSystem = ""] = line.split(" - ", 2);
    const [, , , root, mountPoint] = mount.split(" ");
    const [type, , options = ""] = fileSystem.split(" ");
    if (root === undefined || mountPoint === undefined) return [];
    const isOfCpus = type === "cgroup2" || type === "cgroup" && options.split(",").includes("cpu");
    const version = type === "cgroup2" ? 2 : 1;
    return isOfCpus ? [{ version, root: unescaped(root), mountPoint: unescaped(mountPoint) }] : [];
  });
}

/** Decodes the escapes that Linux writes in `mountinfo` for spaces, tabs, newlines, backslashes and number signs. */
function unescaped(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(parseInt(digits, 8)));
}

/**
 * Returns the names of the cgroups from a mounted one down to `group`, or undefined if `group` is not below the mounted
 * one: for example, in the mounted hierarchy of another container.
 */
function namesBelow(group: string, mounted: string): string[] | undefined {
  const names = group.split("/").filter(Boolean), above = mounted.split("/").filter(Boolean);
  // A cgroup outside of the root of the cgroup namespace has a path such as `/../other`.
  if (names.includes("..") || above.some((name, index) => name !== names[index])) return undefined;
  return names.slice(above.length);
}

function unifiedQuota(folder: string): number {
  const [, quota, period] = /^(\d+) (\d+)$/.exec(contentOf(`${folder}/cpu.max`).trim()) ?? [];
  return quotient(quota, period);
}

function quotaOfVersion1(folder: string): number {
  const quota = numberIn(`${folder}/cpu.cfs_quota_us`);
  return quota === undefined ? Infinity : quotient(quota, numberIn(`${folder}/cpu.cfs_period_us`));
}

/** Returns the digits in a file; undefined if it contains anything else, such as `-1`. */
function numberIn(path: string): string | undefined {
  return /^\d+$/.exec(contentOf(path).trim())?.[0];
}

/** Returns a quota in CPUs from microseconds per period; Infinity if they are not both positive. */
function quotient(quota: string | undefined, period: string | undefined): number {
  const cpus = Number(quota) / Number(period);
  return cpus > 0 ? cpus : Infinity;
}

/**
 * Returns the content of a file, or an empty string if it cannot be read. Creates no `Error` for the many folders that
 * have no quota: V8 may parse the whole program again for its call stack.
 */
function contentOf(path: string): string {
  const fd = shim().poolpass_open(cString(path), 0);
  if (fd < 0) return "";
  try {
    return contentOfDescriptor(fd);
  } finally {
    closeDescriptor(fd);
  }
}

function contentOfDescriptor(fd: number): string {
  const decoder = new TextDecoder();
  const bytes = new Uint8Array(chunkByteLength);
  let content = "";
  for (let offset = 0; offset < maximumByteLength;) {
    const count = shim().poolpass_pread(fd, bytes, BigInt(bytes.length), BigInt(offset));
    if (count === 0) return content;
    if (count < 0) break;
    content += decoder.decode(bytes.subarray(0, count), { stream: true });
    offset += count;
  }
  return "";
}
