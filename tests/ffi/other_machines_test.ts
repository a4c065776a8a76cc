/**
 * Tests the library on simulated machines: libraries that export the functions of other CUDA versions and behave like
 * other drivers. `docs/other_machines.md` says which results were confirmed on a real machine.
 */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { forbiddenDeviceFile, minimumVersions } from "../../ffi/cuda_libraries.ts";
import { loadNvJitLink, whereNvJitLinkIs } from "../../ffi/nvjitlink.ts";
import { visibleDevices } from "../../src/software/software_device.ts";
import { formatUuid, isSameUuid, parseUuid } from "../../src/support/uuid.ts";
import { startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import {
  driverFunctions,
  Libraries,
  type Machine,
  machine,
  noCompiler,
  settingsOf,
} from "./other_machines/machines.ts";
import { test, type TestOptions } from "../support/test.ts";

type Outcomes = Record<string, string>;
type Environment = Readonly<Record<string, string>>;

/** Node caches compiled scripts here, so that later processes start sooner. */
const compileCache = mkdtempSync("/tmp/poolpass-compiled-");
after(() => rmSync(compileCache, { recursive: true }));

const instead = "or set POOLPASS_DRIVER=software to run without a GPU";
const wholeGpu = "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae00";

const hasNvJitLink = loadNvJitLink() !== undefined;
/** The outcomes of what needs nvJitLink, if there is none. */
const withoutNvJitLink: Outcomes = {
  "link newer PTX":
    "CudaError: Cannot link 1 image on device 0: cuLinkAddData failed: cudaErrorUnsupportedPtxVersion: " +
    `in a.ptx: ptxas a.ptx: Unsupported .version; nvJitLink of its toolkit links it, and was not found: ${whereNvJitLinkIs}; ` +
    "build the PTX with an older nvcc, or install a newer driver",
  "link LTO IR":
    "CudaError: Cannot link 2 images on device 0: nvJitLinkCreate failed: cudaErrorJitCompilerNotFound: image 1 " +
    `has LTO IR, which only nvJitLink links, and it was not found: ${whereNvJitLinkIs}`,
};

/** The outcomes on a current machine. */
const everything: Outcomes = {
  open: "CUDA 13000, libcudart undefined",
  device: `Simulated GPU, ${wholeGpu}`,
  "find by UUID": "works",
  "stream priorities": "0 to -5",
  allocate: "works",
  "fill with elements": "works",
  launch: "works",
  wrap: "works",
  "wrap a stream": "works",
  "a stream's priority": "-3",
  "page-locked memory in a kernel": "works",
  benchmark: "works",
  profile: "works",
  "options of the JIT": "registers 32\nlevel 3\nverbose 1",
  link: "saxpy, kernel_of_cubin; debug 1\nlines 1",
  "link what is broken": "CudaError: Cannot link 2 images on device 0: cuLinkAddData failed: cudaErrorInvalidPtx: in " +
    "b.ptx: ptxas b.ptx, line 4; fatal",
  ...withoutNvJitLink,
  "a cubin's parameters": "4,1,8",
  "a cubin's parameters with types": "TypeError: Cannot give kernel_of_cubin 2 parameters: its image has 3",
  "wait for a device": "works",
  "more shared memory": "works",
  "launch attributes": "works",
  clusters: "66 fit",
  "kernel attributes": "104 101 103 102 100 105 106 default 96 264",
  "interprocess event": "works",
  pool: "works",
  "default pool": "works",
  share: "works",
  offer: "works",
  "virtual memory": "2097152 bytes are mapped",
  fabric: 'CudaError: Cannot create a pool with handleType "fabric" on device 0: cudaMemPoolCreate failed: ' +
    'cudaErrorInvalidValue (1); the device may not be connected by fabric: use handleType "posix-fd" on one machine, or ' +
    'use handleType "none", whose pools no other process can import',
  maxSize: "works",
  "host pool": "works",
};

function simulationTest(
  name: string,
  body: () => Promise<void> | void,
  { skip = noCompiler, long }: TestOptions = {},
): void {
  test(name, { skip, long }, body);
}

/** Returns the outcomes of a process on each of the machines. The process finds these libraries first. */
async function outcomesOn(
  libraries: Libraries,
  machines: readonly (Machine | Machine[] | "as it is" | "darwin")[],
  env: Environment = {},
): Promise<Outcomes[]> {
  const args = machines.map((machine) =>
    typeof machine === "string" ? machine : [machine].flat().map((machine) => settingsOf(machine).join()).join(";")
  );
  await using child = startScript("ffi/other_machines/try_features.ts", args, {
    env: { LD_LIBRARY_PATH: libraries.folder, ...env },
  });
  const outcomes: Outcomes[] = [];
  for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) {
    const outcome: Outcomes = JSON.parse(line);
    // What it makes of the images is not of interest here.
    if (hasNvJitLink && "link" in outcome) Object.assign(outcome, withoutNvJitLink);
    outcomes.push(outcome);
  }
  assertEquals(await child.ended, 0, await child.errors());
  return outcomes;
}

function needsDriver(what: string, { needed, installed }: { needed: string; installed: string }): string {
  return `${what} needs CUDA ${needed}, and the installed driver is for CUDA ${installed}; install a newer driver`;
}

/** The outcomes that differ before CUDA 12.4. */
const withoutParameterInfo: Outcomes = {
  link: "saxpy; debug 1\nlines 1",
  "a cubin's parameters":
    'RangeError: Cannot find the kernel "kernel_of_cubin" in the module: its image does not list ' +
    'its kernels, and before CUDA 12.4 the driver does not say what they take; give the "parameters" of this one',
  "a cubin's parameters with types": "works",
};

/** Returns the outcomes that differ before CUDA 12.2. */
function withoutPoolOptions(installed: string): Outcomes {
  const error = (place: string, what: string) =>
    `CudaError: Cannot create a pool with handleType "none" ${place}: ${
      needsDriver(what, { needed: "12.2", installed })
    }`;
  return {
    ...withoutParameterInfo,
    maxSize: error("on device 0", "maxSize"),
    "host pool": error("on NUMA node 0", "a pool in host memory"),
  };
}

/** Returns the outcomes that differ before CUDA 11.7. */
function withoutLaunchAttributes(installed: string): Outcomes {
  const needs = (what: string, needed: string) => needsDriver(what, { needed, installed });
  return {
    "launch attributes": "CudaError: Cannot launch saxpy with a grid of 32 x 2 x 3 blocks of 64 x 4 threads and 2048 " +
      `bytes of shared memory each in clusters of 16 x 2 blocks, all at once: ${needs("cuLaunchKernelEx", "11.6")}`,
    clusters: "CudaError: Cannot compute how many clusters of 2 blocks of 64 threads of saxpy fit: " +
      needs("cuOccupancyMaxActiveClusters", "11.7"),
  };
}

const headers = ["cudaTypedefs.h", "cudaProfilerTypedefs.h"].map((name) => `/usr/local/cuda/include/${name}`);
const missingHeader = headers.find((header) => !existsSync(header));
const noHeader = missingHeader === undefined ? undefined : `${missingHeader} does not exist`;

simulationTest("minimumVersions agrees with CUDA's header", () => {
  const text = headers.map((header) => readFileSync(header, "utf8")).join("");
  const versionsOf = (name: string) =>
    [...text.matchAll(new RegExp(`\\bPFN_${name}_v(\\d+)\\)`, "g"))].map(([, version]) => Number(version))
      .sort((one, other) => one - other);
  for (const name of driverFunctions) {
    const [, base, edition = "1"] = name.match(/^(.+?)(?:_v(\d))?$/)!;
    const version = versionsOf(base!)[Number(edition) - 1] ?? NaN;
    assertEquals(minimumVersions[name] ?? 0, version <= 10000 ? 0 : version, name);
  }
}, { skip: noHeader });

simulationTest("with drivers for CUDA 11.4, 12 and 13, all features work except later ones", async () => {
  using libraries = new Libraries().addDriver(11040);
  using later = new Libraries().addDriver(12000);
  const versions = [12000, 12010, 12020, 12090, 13000];
  const [[first], outcomes] = await Promise.all([
    outcomesOn(libraries, [machine({ version: 11040 })]),
    outcomesOn(later, versions.map((version) => machine({ version }))),
  ]);
  const open = "CUDA 11040, libcudart undefined";
  assertEquals(first, { ...everything, open, ...withoutPoolOptions("11.4"), ...withoutLaunchAttributes("11.4") });
  // Their library is that of CUDA 12.0, which has no later functions.
  const expected = [...["12.0", "12.1"].map(withoutPoolOptions), ...Array(3).fill(withoutParameterInfo)];
  for (const [index, version] of versions.entries()) {
    const open = `CUDA ${version}, libcudart undefined`;
    assertEquals(outcomes[index], { ...everything, open, ...expected[index] });
  }
}, { long: true });

simulationTest("with a driver for CUDA 11.2, all features work except later ones", async () => {
  using libraries = new Libraries().addDriver(11020);
  const [outcome] = await outcomesOn(libraries, [machine({ version: 11020 })]);
  assertEquals(outcome, {
    ...everything,
    open: "CUDA 11020, libcudart undefined",
    ...withoutPoolOptions("11.2"),
    ...withoutLaunchAttributes("11.2"),
  });
}, { long: true });

simulationTest("with a driver for CUDA 11.0, all features work except pools", async () => {
  using libraries = new Libraries().addDriver(11000);
  const [outcome] = await outcomesOn(libraries, [machine({ version: 11000 })]);
  const needs = (what: string) => needsDriver(what, { needed: "11.2", installed: "11.0" });
  const pool = (type: string) =>
    `CudaError: Cannot create a pool with handleType "${type}" on device 0: ${needs("cuMemPoolCreate")}`;
  assertEquals(outcome, {
    ...everything,
    open: "CUDA 11000, libcudart undefined",
    pool: pool("none"),
    "default pool": `CudaError: Cannot get the pool of device 0: ${needs("cuDeviceGetDefaultMemPool")}`,
    share: pool("posix-fd"),
    offer: pool("posix-fd"),
    fabric: pool("fabric"),
    ...withoutPoolOptions("11.0"),
    ...withoutLaunchAttributes("11.0"),
  });
}, { long: true });

simulationTest("open refuses an older driver and names the required version", async () => {
  using libraries = new Libraries().addDriver(10010);
  const [outcome] = await outcomesOn(libraries, [machine({ version: 10010 })]);
  const reason = "the installed driver is for CUDA 10.1, and pools need 11.2; install a newer driver";
  assertEquals(outcome, { open: `Error: Cannot use CUDA: ${reason}, ${instead}` });
}, { long: true });

simulationTest("a future driver without a function only disables its feature", async () => {
  using libraries = new Libraries().addDriver(15010, { without: ["cuDeviceGetDefaultMemPool"] });
  const [outcome] = await outcomesOn(libraries, [machine({ version: 15010 })]);
  assertEquals(outcome, {
    ...everything,
    open: "CUDA 15010, libcudart undefined",
    "default pool": "CudaError: Cannot get the pool of device 0: the installed library for CUDA 15.1 has no " +
      "cuDeviceGetDefaultMemPool; see CudaDevice.attribute for what the device supports",
  });
}, { long: true });

simulationTest("an older libcudart is used if one is newer than the driver", async () => {
  using libraries = new Libraries().addDriver(12040)
    .addRuntime("libcudart.so.13", { version: 13000, result: 35 })
    .addRuntime("libcudart.so.12", { version: 12060 });
  const [outcome] = await outcomesOn(libraries, [machine({ version: 12040 })]);
  assertEquals(outcome, { ...everything, open: "CUDA 12040, libcudart 12060" });
}, { long: true });

simulationTest("no libcudart is used if all are newer than the driver", async () => {
  using libraries = new Libraries().addDriver(12040)
    .addRuntime("libcudart.so.13", { version: 13000, result: 35 })
    .addRuntime("libcudart.so.14", { version: 14000, result: 35 })
    .addRuntime("libcudart.so", { version: 14000, result: 35 });
  const [outcome] = await outcomesOn(libraries, [machine({ version: 12040 })]);
  assertEquals(outcome, { ...everything, open: "CUDA 12040, libcudart undefined" });
}, { long: true });

simulationTest(
  "a libcudart of an unknown version is found by its unversioned name",
  async () => {
    using libraries = new Libraries().addDriver(15010).addRuntime("libcudart.so", { version: 15010 });
    const [outcome] = await outcomesOn(libraries, [machine({ version: 15010 })]);
    assertEquals(outcome, { ...everything, open: "CUDA 15010, libcudart 15010" });
  },
  { long: true },
);

simulationTest("an older libcudart on a newer driver disables later features", async () => {
  using libraries = new Libraries().addDriver(13000).addRuntime("libcudart.so.13", { version: 11080 });
  const [outcome] = await outcomesOn(libraries, [machine()]);
  const needs = "needs CUDA 12.2, and the installed libcudart is for CUDA 11.8; install a newer libcudart";
  assertEquals(outcome, {
    ...everything,
    open: "CUDA 13000, libcudart 11080",
    maxSize: `CudaError: Cannot create a pool with handleType "none" on device 0: maxSize ${needs}`,
    "host pool":
      `CudaError: Cannot create a pool with handleType "none" on NUMA node 0: a pool in host memory ${needs}`,
  });
}, { long: true });

simulationTest(
  "if cuInit fails, open throws with a suggestion and does not fall back to the software device",
  async () => {
    using libraries = new Libraries().addDriver(13000);
    const outcomes: Readonly<Record<number, string>> = {
      1: "cudaErrorInvalidValue (1); ",
      3: "cudaErrorInitializationError (3); check with nvidia-smi that the driver works; a container may lack a part " +
        "of it, ",
      34:
        "cudaErrorStubLibrary (34); the libcuda.so.1 that was found is the toolkit's stub, which is only for linking: " +
        "remove its folder from LD_LIBRARY_PATH, and install the driver or start the container with its GPUs, ",
      46:
        "cudaErrorDevicesUnavailable (46); another process may have exclusive use of the GPU: see its compute mode in " +
        "nvidia-smi, ",
      304: "cudaErrorOperatingSystem (304); the system refused a request of the driver: a sandbox may hide " +
        "/dev/nvidia*, /proc/driver/nvidia or /proc/self from it, ",
      802: "cudaErrorSystemNotReady (802); a service that the GPUs need is not running: with NVSwitch, start " +
        "nvidia-fabricmanager, ",
      803: "cudaErrorSystemDriverMismatch (803); libcuda and the kernel module have different versions: restart the " +
        "machine after a driver update, and give a container the libraries of its host, ",
      804:
        "cudaErrorCompatNotSupportedOnDevice (804); this GPU does not support a libcuda that is newer than its driver: " +
        "remove the cuda-compat folder from LD_LIBRARY_PATH, ",
      999: "cudaErrorUnknown (999); the driver may lack permission for a file /dev/nvidia*, or the kernel module " +
        "nvidia-uvm may not be loaded: try nvidia-modprobe -u, and see dmesg, ",
    };
    const machines = Object.keys(outcomes).map((result) => machine({ initResult: Number(result) }));
    const expected = Object.values(outcomes).map((outcome) => ({
      open: `CudaError: Cannot use CUDA: cuInit failed: ${outcome}${instead}`,
    }));
    assertEquals(await outcomesOn(libraries, machines), expected);
  },
);

const cudaErrorNoDevice = 100;
const noDevice = [machine({ initResult: cudaErrorNoDevice }), machine({ deviceCount: 0 })];
const forbidsDeviceFiles = forbiddenDeviceFile() === undefined
  ? undefined
  : "device files exist here but cannot be opened";

simulationTest(
  "if the driver reports no device, open uses the software device",
  async () => {
    using libraries = new Libraries().addDriver(13000);
    const software = { open: "the software device" };
    const wanted = { POOLPASS_DRIVER: "cuda", CUDA_VISIBLE_DEVICES: "-1" };
    const none =
      'CudaUnavailableError: Cannot use CUDA: the driver reports no device, and CUDA_VISIBLE_DEVICES="-1" may hide ' +
      "devices";
    const [outcomes, refusals] = await Promise.all([
      outcomesOn(libraries, noDevice),
      outcomesOn(libraries, noDevice, wanted),
    ]);
    assertEquals(outcomes, [software, software]);
    assertEquals(refusals, [{ open: none }, { open: none }]);
  },
  { skip: noCompiler ?? forbidsDeviceFiles, long: true },
);

const hasDriver = driverNamed("cuda").skip === false;

simulationTest(
  "without libcuda, open with driver cuda says where to get one",
  async () => {
    using libraries = new Libraries();
    const [outcome] = await outcomesOn(libraries, ["as it is"], { POOLPASS_DRIVER: "cuda" });
    assertEquals(outcome, {
      open: "CudaUnavailableError: Cannot use CUDA: no libcuda.so.1 was found; install the NVIDIA driver, or add its " +
        "folder to LD_LIBRARY_PATH (/usr/lib/wsl/lib under WSL 2)",
    });
  },
  { skip: hasDriver ? "a driver is installed" : undefined, long: true },
);

simulationTest(
  "if libcuda exists but does not load, open throws and does not fall back to the software device",
  async () => {
    using parts = new Libraries().addIncompleteDriver();
    const [outcome] = await outcomesOn(parts, ["as it is"]);
    assert(outcome!.open!.startsWith("Error: Cannot use CUDA: libcuda.so.1 does not load: "), outcome!.open);
    assert(
      outcome!.open!.includes("libpart.so: cannot open shared object file: No such file or directory"),
      outcome!.open,
    );
    assert(outcome!.open!.endsWith(`; ${instead}`), outcome!.open);
  },
  { long: true },
);

simulationTest("outside Linux, open uses the software device, and with driver cuda fails with the reason", async () => {
  using libraries = new Libraries();
  assertEquals(await outcomesOn(libraries, ["darwin"]), [{
    open: "the software device",
    cuda: "CudaUnavailableError: Cannot use CUDA: it needs Linux, and this is darwin",
  }]);
}, undefined);

const noNamespace = process.getuid?.() !== 0 || spawnSync("unshare", ["-m", "true"]).status !== 0
  ? "hiding /dev requires root and mount namespaces"
  : undefined;

simulationTest("if device files cannot be opened, open throws although libcuda reports no device", () => {
  using libraries = new Libraries().addDriver(13000);
  const script = fileURLToPath(new URL("./other_machines/try_features.ts", import.meta.url));
  const runtime = "Deno" in globalThis ? ["run", "--no-prompt", "--no-check", "--allow-all"] : [];
  const files =
    "for file in null urandom; do cp -a /dev/$file /mnt/; done; touch /mnt/nvidiactl; chmod 600 /mnt/nvidiactl";
  const { stdout, stderr } = spawnSync("unshare", [
    "-m",
    "sh",
    "-c",
    `mount -t tmpfs none /mnt && ${files} && mount --bind /mnt /dev && exec "$0" "$@"`,
    process.execPath,
    ...runtime,
    script,
    "nobody",
  ], {
    encoding: "utf8",
    env: {
      ...process.env,
      NODE_NO_WARNINGS: "1",
      LD_LIBRARY_PATH: libraries.folder,
      MACHINE: settingsOf(noDevice[0]!).join(),
    },
  });
  assert(stdout !== "", stderr);
  assertEquals(JSON.parse(stdout), {
    open:
      "CudaError: Cannot use CUDA: the driver reports no device, and this process may not open /dev/nvidiactl; give " +
      `its user permission to read and write /dev/nvidia*, ${instead}`,
  });
}, { skip: noCompiler ?? noNamespace, long: true });

const cannotShare =
  'CudaError: Cannot create a pool with handleType "posix-fd" on device 0: cudaMemPoolCreate failed: ' +
  "cudaErrorInvalidValue (1); this driver may not support pools that can be shared, as under WSL 2: use handleType " +
  '"none", whose pools no other process can import';

simulationTest("under WSL 2, pools cannot be shared whatever the device reports", async () => {
  using libraries = new Libraries().addDriver(13000);
  const wsl = { acceptedHandleTypes: 0, ipcEvents: 0 };
  const machines = [machine({ ...wsl, reportedHandleTypes: 0 }), machine({ ...wsl, reportedHandleTypes: 1 })];
  const off = {
    share: cannotShare,
    offer: cannotShare,
    "interprocess event": "CudaError: Cannot create an event on device 0: cudaEventCreateWithFlags failed: " +
      'cudaErrorNotSupported (801); attribute("ipcEventSupport") is 1 if other processes can open it',
  };
  for (const outcome of await outcomesOn(libraries, machines)) assertEquals(outcome, { ...everything, ...off });
}, { long: true });

simulationTest("device_query prints what a machine lacks, and why", async () => {
  using libraries = new Libraries().addDriver(13000);
  const rowsOn = async (machine: Machine) => {
    const env = { LD_LIBRARY_PATH: libraries.folder, MACHINE: settingsOf(machine).join() };
    await using child = startScript("../examples/device_query.ts", [], { env });
    const rows: string[][] = [];
    for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) {
      rows.push(line.split(/ {2,}/));
    }
    assertEquals(await child.ended, 0, await child.errors());
    return Object.fromEntries(rows);
  };
  const [wsl, old] = await Promise.all([
    rowsOn(machine({ reportedHandleTypes: 0, acceptedHandleTypes: 0, ipcEvents: 0 })),
    rowsOn(machine({ version: 11020 })),
  ]);
  assertEquals(wsl["memory pools"], "yes");
  assertEquals(wsl["pools shared as posix-fd"], "no: not here, as under WSL 2 or where FFI is not permitted");
  assertEquals(wsl["IPC events"], "no: other processes cannot open its events");
  assertEquals(old["memory pools"], "yes");
  assertEquals(old["pools shared as posix-fd"], "not asked: needs CUDA 11.3");
  assertEquals(old["host pools"], "not asked: needs CUDA 13.0");
}, { long: true });

simulationTest("MIG instances of one GPU have different UUIDs, as in nvidia-smi", async () => {
  const machines = [0, 1, 2].map((migInstance) => machine({ migInstance }));
  const instance = (digits: string) => `Simulated GPU MIG 1g.5gb, MIG-${digits}a1a2a3-a4a5-a6a7-a8a9-aaabacadae00`;
  using libraries = new Libraries().addDriver(11040);
  using older = new Libraries().addDriver(11020);
  const [[between, ...outcomes], olderOutcomes] = await Promise.all([
    outcomesOn(libraries, [[machines[1]!, machines[2]!], ...machines]),
    outcomesOn(older, machines.map((machine) => ({ ...machine, version: 11020 }))),
  ]);
  assertEquals(outcomes.map(({ device }) => device), [everything.device, instance("a1"), instance("a2")]);
  for (const outcome of outcomes) assertEquals([outcome["find by UUID"], outcome.offer], ["works", "works"]);
  const other = "GPU-a1a1a2a3-a4a5-a6a7-a8a9-aaabacadae00";
  assertEquals(between, {
    offer: `SharingError: Cannot map memory of device ${other}: this process does not see it; see CUDA_VISIBLE_DEVICES`,
  });
  // Before CUDA 11.4, all MIG instances of a GPU have the same UUID.
  assertEquals(olderOutcomes.map(({ device }) => device), [everything.device, instance("a0"), instance("a0")]);
}, { long: true });

simulationTest("open warns of MPS once, and a device says so", async () => {
  using libraries = new Libraries().addDriver(13000);
  const machines = [machine(), machine({ mps: 1 }), machine({ mps: 1 }), machine({ version: 12010, mps: 1 })];
  const args = machines.map((each) => settingsOf(each).join());
  await using child = startScript("children/mps_client.ts", args, { env: { LD_LIBRARY_PATH: libraries.folder } });
  for (const answer of ["false", "true", "true", "undefined"]) assertEquals(await child.nextLine(), answer);
  assertEquals(await child.ended, 0);
  const warnings = (await child.errors()).split("\n").filter((line) => line.includes("through MPS"));
  assertEquals(warnings.length, 1);
}, { long: true });

test("UUIDs with the prefixes GPU and MIG compare equal", () => {
  const uuid = Uint8Array.from({ length: 16 }, (_, index) => index);
  assertEquals(formatUuid(uuid, "MIG"), "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f");
  assertEquals(parseUuid(formatUuid(uuid, "MIG")), uuid);
  assert(isSameUuid(formatUuid(uuid), formatUuid(uuid, "MIG")));
  assert(!isSameUuid(formatUuid(uuid), formatUuid(uuid.with(15, 1))));
});

test("CUDA_VISIBLE_DEVICES selects software devices as it selects CUDA devices", () => {
  const uuids = ["GPU-aaaa0000-01", "GPU-aaaa0000-02", "GPU-bbbb0000-03"];
  const cases: [value: string | undefined, devices: number[]][] = [
    [undefined, [0, 1, 2]],
    ["", []],
    ["2,0", [2, 0]],
    [" 1 , 2 ", [1, 2]],
    ["1,-1,2", [1]],
    ["-1", []],
    ["0,3,1", [0]],
    ["0,,1", [0]],
    ["0,junk,1", [0]],
    ["0x1", []],
    ["GPU-bbbb", [2]],
    ["GPU-aaaa0000-02,0", [1, 0]],
    // A prefix of two UUIDs selects neither.
    ["2,GPU-aaaa,0", [2]],
    ["gpu-bbbb", []],
    // Software devices have no MIG instances.
    ["MIG-bbbb0000-03", []],
    ["0,MIG-GPU-bbbb0000-03/1/0,1", [0]],
    ["1,1", []],
  ];
  for (const [value, devices] of cases) assertEquals(visibleDevices(value, uuids), devices, value);
});

test("a device file is forbidden only if it exists and cannot be opened", () => {
  const folder = mkdtempSync("/tmp/poolpass-device-files-");
  try {
    assertEquals(forbiddenDeviceFile(folder), undefined);
    writeFileSync(`${folder}/nvidiactl`, "");
    assertEquals(forbiddenDeviceFile(folder), undefined);
    chmodSync(`${folder}/nvidiactl`, 0);
    // Root can open all files.
    assertEquals(forbiddenDeviceFile(folder), process.getuid?.() === 0 ? undefined : `${folder}/nvidiactl`);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

simulationTest("CUDA's libraries stay loaded when the Worker that loaded them ends", async () => {
  using libraries = new Libraries().addDriver(13000).addRuntime("libcudart.so.13", { version: 13000 });
  await using child = startScript("children/end_cuda_worker.ts", [], {
    permissions: ["--allow-all"],
    env: { LD_LIBRARY_PATH: libraries.folder, MACHINE: settingsOf(machine()).join() },
  });
  assertEquals(await child.nextLine(), "libcuda.so.1, libcudart.so.13");
  assertEquals(await child.ended, 0, await child.errors());
}, { long: true });
