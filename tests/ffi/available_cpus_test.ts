import { assert, assertEquals } from "@std/assert";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { availableCpus, cpuQuota } from "../../ffi/native/available_cpus.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { test } from "../support/test.ts";

const skip = shimRefusal();

/** The cgroups and mounts that a process sees, and the files of the cgroups by their paths. */
interface CgroupTree {
  readonly cgroup: string;
  readonly mountinfo: string;
  readonly files: Readonly<Record<string, string>>;
}

const unifiedMount = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const otherMount = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n";

/** The quota that a process would have whose `/` looks like this. */
function quotaOf({ cgroup, mountinfo, files }: CgroupTree): number {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    const all = { "/proc/self/cgroup": cgroup, "/proc/self/mountinfo": mountinfo, ...files };
    for (const [path, text] of Object.entries(all)) {
      mkdirSync(dirname(folder + path), { recursive: true });
      writeFileSync(folder + path, text);
    }
    return cpuQuota(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A process in the cgroup `/a.slice/b.scope` of version 2. */
function unified(files: Readonly<Record<string, string>>): CgroupTree {
  const named = Object.entries(files).map(([group, text]) => [`/sys/fs/cgroup${group}/cpu.max`, text]);
  return { cgroup: "0::/a.slice/b.scope\n", mountinfo: otherMount + unifiedMount, files: Object.fromEntries(named) };
}

test("the quota of cgroup v2 is the least of the cgroup and its ancestors", { skip }, () => {
  assertEquals(quotaOf(unified({ "/a.slice/b.scope": "150000 100000\n" })), 1.5);
  assertEquals(quotaOf(unified({ "/a.slice": "50000 100000\n", "/a.slice/b.scope": "400000 100000\n" })), 0.5);
  assertEquals(quotaOf(unified({ "/a.slice": "800000 100000\n", "/a.slice/b.scope": "max 100000\n" })), 8);
  assertEquals(quotaOf(unified({ "": "300000 100000\n" })), 3);
  assertEquals(quotaOf(unified({ "/c.slice": "100000 100000\n", "/b.scope": "100000 100000\n" })), Infinity);
});

test("the quota of cgroup v1 is the least of the cgroup and its ancestors", { skip }, () => {
  const folder = "/sys/fs/cgroup/cpu,cpuacct";
  const tree = (quotas: Readonly<Record<string, string>>): CgroupTree => ({
    cgroup: "5:cpuset:/\n4:cpu,cpuacct:/user.slice/job\n1:name=systemd:/other\n0::/other\n",
    mountinfo: `${otherMount}25 24 0:22 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset
26 24 0:23 / ${folder} rw,nosuid shared:10 - cgroup cgroup rw,cpu,cpuacct
27 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`,
    files: Object.fromEntries(
      Object.entries(quotas).flatMap(([group, quota]) => [
        [`${folder}${group}/cpu.cfs_quota_us`, `${quota}\n`],
        [`${folder}${group}/cpu.cfs_period_us`, "50000\n"],
      ]),
    ),
  });
  assertEquals(quotaOf(tree({ "": "-1", "/user.slice": "-1", "/user.slice/job": "100000" })), 2);
  assertEquals(quotaOf(tree({ "": "-1", "/user.slice": "25000", "/user.slice/job": "100000" })), 0.5);
  assertEquals(quotaOf(tree({ "": "-1", "/user.slice": "-1", "/user.slice/job": "-1" })), Infinity);
});

test("the quota of a container is read where its cgroup is mounted", { skip }, () => {
  const mount = (root: string, mountPoint: string) => `30 24 0:26 ${root} ${mountPoint} rw - cgroup2 cgroup2 rw\n`;
  const path = (mountinfo: string, file: string) => ({
    cgroup: "0::/pods/c:1\n",
    mountinfo,
    files: { [file]: "200000 100000" },
  });
  // Without a namespace of cgroups, the container's own cgroup is mounted.
  assertEquals(quotaOf(path(mount("/pods/c:1", "/sys/fs/cgroup"), "/sys/fs/cgroup/cpu.max")), 2);
  assertEquals(quotaOf(path(mount("/pods", "/cg"), "/cg/c:1/cpu.max")), 2);
  assertEquals(quotaOf(path(mount("/", "/my\\040groups"), "/my groups/pods/c:1/cpu.max")), 2);
  // The cgroup of another container is not this process's.
  assertEquals(quotaOf(path(mount("/pods/c", "/sys/fs/cgroup"), "/sys/fs/cgroup/cpu.max")), Infinity);
  const outside = { cgroup: "0::/../other\n", mountinfo: unifiedMount, files: { "/sys/fs/other/cpu.max": "1 1" } };
  assertEquals(quotaOf(outside), Infinity);
});

test("files that are absent, or contain something else, are no quota", { skip }, () => {
  for (
    const text of ["", "max", "max 100000", "100000", "0 100000", "1 0", "0 0", "-1 1", "0x10 1", "1e3 1", "1 1 1"]
  ) {
    assertEquals(quotaOf(unified({ "/a.slice/b.scope": text })), Infinity, text);
  }
  assertEquals(quotaOf({ cgroup: "", mountinfo: "", files: {} }), Infinity);
  assertEquals(quotaOf({ cgroup: "0::\n::\nx", mountinfo: "30 24\n - \n - cgroup2\n", files: {} }), Infinity);
  assertEquals(cpuQuota("/proc/self/no such folder"), Infinity);
});

test("the CPUs of this process are at most those of its affinity", { skip }, () => {
  const [, list] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync("/proc/self/status", "utf8"))!;
  const affinity = list!.split(",").map((range) => range.split("-").map(Number))
    .reduce((sum, [first, last = first]) => sum + last! - first! + 1, 0);
  const quota = cpuQuota();
  assert(quota > 0);
  assertEquals(availableCpus(), Math.min(affinity, Math.ceil(quota)));
});
