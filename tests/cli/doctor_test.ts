import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import process from "node:process";
import { checkGpuFiles } from "../../cli/doctor/check_cuda.ts";
import { judge, layoutsOf, type Outcome, runAttempt } from "../../cli/doctor/check_imports.ts";
import { checkSocket } from "../../cli/doctor/check_socket.ts";
import { checkKernel, checkLimits, checkNamespaces, checkVariables } from "../../cli/doctor/check_system.ts";
import type { DoctorFinding } from "../../cli/doctor/finding.ts";
import { isAtLeast, type Machine, thisMachine } from "../../cli/doctor/machine.ts";
import { tryImport } from "../../cli/doctor/try_import.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import type { Driver } from "../../src/driver.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Libraries, machine, noCompiler, settingsOf } from "../ffi/other_machines/machines.ts";
import { adaptedDriver } from "../support/adapted_driver.ts";
import { driverNamed, testOnEachDriver } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass, poolpassWith } from "../support/poolpass.ts";
import { test } from "../support/test.ts";
import { sharedFramesTest } from "./shared_frames.ts";

const skip = shimRefusal();

/** What doctor finds with environment variables. */
async function findings(
  env: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<{ code: number; found: readonly DoctorFinding[] }> {
  const { code, output, errors } = await poolpassWith(env, "doctor", ...args, "--json");
  assertEquals(errors, "");
  return { code, found: JSON.parse(output) as DoctorFinding[] };
}

const software = { POOLPASS_DRIVER: "software" };

function about(topic: string, found: readonly DoctorFinding[]): DoctorFinding {
  const finding = found.find((each) => each.topic === topic);
  if (finding === undefined) throw new Error(`There is nothing about ${topic} in ${JSON.stringify(found)}`);
  return finding;
}

test("doctor prints a line for each thing, and what to do", { skip }, async () => {
  const { output, errors } = await poolpassWith(software, "doctor");
  assertEquals(errors, "");
  assertMatch(
    output,
    /^ok {7}poolpass +0\.1\.0, in (Deno|Bun|Node) [\d.]+\nok {7}devices +the software device, as a driver/,
  );
  assertMatch(output, /^ok {7}memfd +the software device can share its memory$/m);
  assertMatch(output, /^ok {7}environment +POOLPASS_DRIVER=software/m);
  assertMatch(output, /\n\n\d+ problems?, \d+ notes?\n$/);
  for (const line of output.split("\n")) assertMatch(line, /^((ok|note|problem) +\S|$| +-> \S|\d+ problems?, )/);
  const { found, code } = await findings(software);
  assertEquals(code, found.some(({ level }) => level === "problem") ? 1 : 0);
  assertEquals(about("export data", found).found, "checked by the device itself");
  assertEquals(about("event handles", found).level, "ok");
  assert(!found.some(({ topic }) => topic === "large imports"), "They are tried on request");
  const topics = ["devices", "driver", "NVRTC", "nvJitLink", "kernel", "pidfd", "namespaces", "/proc", "/dev/shm"];
  for (const topic of [...topics, "descriptors", "systemd"]) about(topic, found);
});

test("doctor finds wrong settings", { skip }, async () => {
  const mistyped = await findings({
    POOLPASS_DRIVER: "softwear",
    POOLPASS_NVRTC: "/there/is/none.so",
    POOLPASS_SANITISE: "1",
  });
  assertEquals([mistyped.code, about("devices", mistyped.found)], [1, {
    level: "problem",
    topic: "devices",
    found: 'Cannot use POOLPASS_DRIVER="softwear": it must be one of auto, cuda, software',
    advice: 'did you mean "software"?',
  }]);
  assertEquals(about("NVRTC", mistyped.found).level, "problem");
  assertMatch(about("warning", mistyped.found).found, /POOLPASS_SANITISE does nothing: .* "POOLPASS_SANITIZE"\?$/);
});

test("doctor finds the compilers on the PATH", { skip }, async () => {
  const folder = mkdtempSync(`${tmpdir()}/poolpass-doctor-`);
  try {
    const script = '#!/bin/sh\necho "Cuda compilation tools, release 12.4, V12.4.131"\n';
    writeFileSync(`${folder}/nvcc`, script, { mode: 0o755 });
    const path = `${folder}:${process.env.PATH}`;
    const { found } = await findings({ ...software, PATH: path });
    assertEquals(about("nvcc", found), { level: "ok", topic: "nvcc", found: `nvcc 12.4, ${folder}/nvcc` });
    assertEquals(about("NVRTC", found).level, "ok");
    writeFileSync(`${folder}/nvcc`, "#!/bin/sh\necho broken >&2\n");
    const broken = about("nvcc", (await findings({ ...software, PATH: path })).found);
    assertEquals([broken.level, broken.found], [
      "note",
      `${folder}/nvcc: nvcc does not say its version: broken`,
    ]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

sharedFramesTest("doctor says who listens at a socket, and whether it is of use", async ({ path, exporter }) => {
  const uid = process.getuid!();
  const { found } = await findings(software, path);
  assertEquals(about("socket", found).found, `${path} belongs to user ${uid}, mode 0600`);
  const { level, found: listener } = about("listener", found);
  assertEquals(level, "ok");
  assertMatch(listener, new RegExp(`^process ${exporter.pid} of user ${uid}: an exporter of poolpass \\S+, 4 offers$`));
  assertEquals(about("visibility", found).level, "ok");
  const hidden = await findings({ ...software, CUDA_VISIBLE_DEVICES: "1" }, path);
  assertEquals([hidden.code, about("visibility", hidden.found).level], [1, "problem"]);
  assertStringIncludes(about("visibility", hidden.found).found, "device-not-visible");
  exporter.kill("SIGKILL");
  await exporter.ended;
  const after = await findings(software, path);
  assertEquals(after.code, 1);
  assertStringIncludes(about("listener", after.found).found, "nothing listens at this socket");
});

test("doctor says what else is at a path", { skip }, () =>
  inFolder(async (folder) => {
    writeFileSync(`${folder}/file`, "");
    mkdirSync(`${folder}/folder`);
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    await new Promise<void>((resolve) => server.listen(`${folder}/other`, () => resolve()));
    const cases: readonly (readonly [name: string, topic: string, found: RegExp])[] = [
      ["nothing", "socket", /^there is no \S+\/nothing$/],
      ["file", "socket", /file is a file, and no socket$/],
      ["folder", "socket", /folder is a folder, and no socket$/],
      ["other", "listener", /which listens there, does not speak poolpass's protocol/],
    ];
    for (const [name, topic, expected] of cases) {
      const { code, output } = await poolpass("doctor", `${folder}/${name}`, "--json");
      assertEquals(code, 1);
      const finding = about(topic, JSON.parse(output) as DoctorFinding[]);
      assertEquals(finding.level, "problem");
      assertMatch(finding.found, expected);
    }
    server.close();
  }));

/** A machine on which only some things are so. */
function machineWith(parts: Partial<Machine>, files: Readonly<Record<string, string>> = {}): Machine {
  return {
    kernel: "6.18.0",
    uid: 1000,
    variable: () => undefined,
    read: (path) => files[path],
    link: () => undefined,
    realPath: (path) => path,
    list: () => [],
    mayUse: () => undefined,
    status: () => undefined,
    freeBytes: () => undefined,
    ...parts,
  };
}

const moduleVersion = {
  "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04",
};

test("doctor judges device files, IMEX channels and MPS", () => {
  const levels = (machine: Machine) => checkGpuFiles(machine).map(({ level, topic }) => `${topic}: ${level}`);
  assertEquals(levels(machineWith({})), ["device files: ok"]);
  assertEquals(levels(machineWith({}, moduleVersion)), ["device files: problem"]);
  const files = ["nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps", "null"];
  const list = (path: string) => path === "/dev" ? files : path.startsWith("/dev/nvidia-caps-imex") ? ["channel0"] : [];
  const all = checkGpuFiles(machineWith({ list, mayUse: () => true }));
  assertEquals(all.map(({ level }) => level), ["ok", "ok", "ok"]);
  assertEquals(all[0]!.found, "/dev/nvidia-uvm, /dev/nvidia0, /dev/nvidiactl");
  const forbidden = checkGpuFiles(
    machineWith({ list, mayUse: (path) => path !== "/dev/nvidia0" && !/channel/.test(path) }),
  );
  assertEquals(forbidden.map(({ level }) => level), ["problem", "note", "ok"]);
  assertEquals(forbidden[0]!.found, "user 1000 may not read and write /dev/nvidia0");
  const lacking = checkGpuFiles(
    machineWith({ list: (path) => path === "/dev" ? ["nvidia0", "nvidiactl"] : [], mayUse: () => true }),
  );
  assertEquals(lacking[1]!.found, "there is no /dev/nvidia-uvm");
  const mps = machineWith({
    list: (path) => path === "/proc" ? ["self", "77"] : list(path),
    mayUse: () => true,
    variable: (name) => name === "CUDA_MPS_PIPE_DIRECTORY" ? "/run/mps" : undefined,
    status: (path) => path === "/run/mps/control" ? { uid: 0, mode: 0o666, kind: "other" } : undefined,
  }, { "/proc/77/comm": "nvidia-cuda-mps-server\n" });
  assertMatch(about("MPS", checkGpuFiles(mps)).found, /^\/run\/mps has a control daemon's pipe, and the daemon runs$/);
});

test("doctor judges the kernel, namespaces, limits and the environment", { skip }, () => {
  assertEquals(about("kernel", checkKernel(machineWith({}))).level, "ok");
  const old = about("kernel", checkKernel(machineWith({ kernel: "6.8.0-45-generic" })));
  assertEquals(old.level, "note");
  assertStringIncludes(old.found, "Linux 6.8.0-45-generic: without inodes of pidfds (6.9), ");
  assert(!old.found.includes("SO_PEERPIDFD"));
  const links = (path: string) =>
    path.endsWith("/pid") ? "pid:[4026532000]" : path.endsWith("/ipc") ? "ipc:[1]" : undefined;
  const status = { "/proc/self/status": "NSpid:\t1\n" };
  assertEquals(
    about("namespaces", checkNamespaces(machineWith({ link: links }, status))).found,
    "of its own: PID, IPC",
  );
  assertEquals(about("/proc", checkNamespaces(machineWith({}))).level, "problem");
  const hidden = machineWith({}, { ...status, "/proc/mounts": "proc /proc proc rw,nosuid,hidepid=2 0 0\n" });
  assertMatch(about("/proc", checkNamespaces(hidden)).found, /hidepid/);
  const small = machineWith({ mayUse: () => true, freeBytes: () => 4096 }, status);
  assertEquals(about("/dev/shm", checkNamespaces(small)).found, "only 4.0 KiB are free");
  assertEquals(about("/dev/shm", checkNamespaces(machineWith({ mayUse: () => false }, status))).level, "note");
  const user = machineWith({ link: (path) => path.endsWith("/user") ? "user:[5]" : undefined }, {
    ...status,
    "/proc/self/uid_map": "         0       1000          1\n",
  });
  assertEquals(about("users", checkNamespaces(user)).level, "note");
  const limits = (soft: string) =>
    machineWith({}, {
      "/proc/self/limits": `Max open files            ${soft}                 524288               files     \n`,
    });
  assertEquals(
    about("descriptors", checkLimits(limits("1024"))).found,
    "at most 1024 open ones (RLIMIT_NOFILE): enough for about 341 importers",
  );
  assertEquals(["4096", "unlimited"].map((soft) => about("descriptors", checkLimits(limits(soft))).level), [
    "ok",
    "ok",
  ]);
  const service = (variables: Record<string, string>) =>
    about("systemd", checkLimits(machineWith({ variable: (name) => variables[name] })));
  assertEquals(service({}).level, "ok");
  assertEquals(service({ NOTIFY_SOCKET: "/run/systemd/notify" }).level, "note");
  assertEquals(
    service({ NOTIFY_SOCKET: "/run/systemd/notify", FDSTORE: "16" }).found,
    "NOTIFY_SOCKET is /run/systemd/notify, and it keeps up to 16 descriptors",
  );
  const set = machineWith({
    variable: (name) => name === "CUDA_HOME" ? "/opt/cuda" : name === "POOLPASS_LOG" ? "1" : undefined,
  });
  assertEquals(checkVariables(set, ["PATH", "POOLPASS_LOG"])[0]!.found, "POOLPASS_LOG=1 CUDA_HOME=/opt/cuda");
  assertEquals(["6.9", "6.10.1", "7", "6.8.99", "5.19"].map((version) => isAtLeast(version, "6.9")), [
    true,
    true,
    true,
    false,
    false,
  ]);
});

test("doctor judges the socket's file and folder", { skip }, async () => {
  const signal = new AbortController().signal;
  const judge = async (mode: number, uid: number, folder: number, mayUse: boolean) => {
    const machine = machineWith({
      mayUse: () => mayUse,
      status: (path) => path === "/run/x/sock" ? { uid, mode, kind: "socket" } : { uid, mode: folder, kind: "folder" },
    });
    const found = await checkSocket("/run/x/sock", { machine, options: {}, signal });
    return found.filter(({ topic }) => topic !== "listener").map(({ level, topic }) => `${topic}: ${level}`);
  };
  assertEquals(await judge(0o600, 1000, 0o755, true), ["socket: ok"]);
  assertEquals(await judge(0o600, 0, 0o755, false), ["socket: problem"]);
  assertEquals(await judge(0o666, 1001, 0o755, true), ["socket: ok", "folder: note"]);
  assertEquals(await judge(0o666, 1000, 0o777, true), ["socket: ok", "folder: problem"]);
  assertEquals(await judge(0o666, 0, 0o1777, true), ["socket: ok"]);
});

test("doctor says that nothing is tried where nothing can be tried", { skip, long: true }, async () => {
  const tried = await findings(software, "--try-imports");
  assertEquals(about("large imports", tried.found), {
    level: "note",
    topic: "large imports",
    found: "not tried: all software devices together have 4 GiB",
  });
  const { output } = await poolpassWith({ POOLPASS_DRIVER: "softwear" }, "doctor", "--try-imports");
  assertMatch(output, /^note +large imports +not tried: there is no device that can be used$/m);
});

test(
  "doctor tries large imports in other processes, which a driver may end",
  { skip: skip || noCompiler },
  async () => {
    using libraries = new Libraries().addDriver(13000);
    const env = { POOLPASS_DRIVER: "cuda", LD_LIBRARY_PATH: libraries.folder };
    const defective = { ...env, MACHINE: settingsOf(machine({ importLimit: 5279 })).join() };
    const { found } = await findings(defective, "--try-imports");
    assertEquals(about("export data", found).level, "note");
    assertEquals(about("event handles", found).level, "note");
    const ofImports = found.filter(({ topic }) => /MiB$|^large imports$/.test(topic));
    assertEquals(ofImports.map(({ level, topic, found }) => `${level}, ${topic}: ${found}`), [
      "ok, 4096 MiB: imported",
      "note, 4097 MiB: imported; the driver may have overwritten memory of the process, as it fails for more",
      "note, 5376 MiB: the driver ended the importing process: SIGSEGV",
      "note, 16384 MiB: not tried: only 8.0 GiB of the device's memory are free",
      "note, large imports: this driver does not import every allocation of more than 4 GiB, and poolpass refuses them",
    ]);
    assertMatch(ofImports.at(-1)!.advice!, /^allocate such memory .*CudaDevice\.allocate/);
  },
);

test("the process that tries an import may end in any way", { skip }, async () => {
  const attempt = async (script: string, options: { timeout?: number; signal?: AbortSignal } = {}) => {
    const { timeout = 60_000, signal = new AbortController().signal } = options;
    const { result, ...more } = await runAttempt(["/bin/sh", "-c", script], { timeout, signal });
    return "why" in more ? `${result}: ${more.why}` : result;
  };
  assertEquals(await attempt(`echo '{"result": "imported", "isRight": true}'`), "imported");
  assertEquals(await attempt(`echo '{"result": "refused", "why": "because"}'`), "refused: because");
  assertEquals(await attempt("kill -BUS $$"), "died: the driver ended the importing process: SIGBUS");
  assertEquals(await attempt("kill -KILL $$"), "not-tried: the other process ended by SIGKILL: ");
  assertEquals(
    await attempt("echo first >&2; echo last >&2; exit 3"),
    "not-tried: the other process ended with exit code 3: last",
  );
  for (const printed of ["", "no JSON", "null", '{"result": "imported"}', '{"result": "x", "why": "y"}']) {
    assertMatch(await attempt(`echo '${printed}'`), /^not-tried: .* exit code 0/);
  }
  assertEquals(await attempt("exec sleep 1000", { timeout: 100 }), "hung: the import did not end within 100 ms");
  const interrupted = AbortSignal.timeout(100);
  assertEquals(await attempt("exec sleep 1000", { signal: interrupted }), "not-tried: it was interrupted");
  await assertRejects(() => runAttempt(["/there/is/none"], { timeout: 60_000, signal: new AbortController().signal }));
});

test("doctor judges imports together", () => {
  const imported = { result: "imported", isRight: true } as const;
  const wrong = { result: "imported", isRight: false } as const;
  const died = { result: "died", why: "it died" } as const;
  const none = { result: "not-tried", why: "too little" } as const;
  const levels = (...outcomes: Outcome[]) =>
    judge(outcomes.map((outcome, index) => ({ mebibytes: [4096, 4097, 5376][index]!, outcome })))
      .map(({ level }) => level).join(" ");
  assertEquals(levels(imported, imported, imported), "ok ok ok ok");
  assertEquals(levels(imported, imported, died), "ok note note note");
  assertEquals(levels(imported, wrong, imported), "ok note note note");
  assertEquals(levels(imported, imported, none), "ok ok note note");
  assertEquals(levels(none, none, none), "note note note note");
  assertEquals(levels(died, none, none), "problem note note note");
  assertEquals(levels(), "note");
});

testOnEachDriver("an import is tried in the process that exports, and leaves nothing", (_cuda, { open }) => {
  const driver = open();
  assertEquals(tryImport(driver, 2 ** 20), { result: "imported", isRight: true });
  const refusing = adaptedDriver(driver, {
    memPoolImportPointer() {
      throw new CudaError(1, "cudaMemPoolImportPointer");
    },
  });
  assertEquals(tryImport(refusing, 4096).result, "refused");
  const lost = adaptedDriver(driver, { memPoolImportPointer: () => driver.malloc(0, 4096) });
  assertEquals(tryImport(lost, 4096), { result: "imported", isRight: false });
  const why = "too little memory is free";
  if (driver.kind === "software") assertEquals(tryImport(driver, 2 ** 32), { result: "not-tried", why });
  const withoutPools = adaptedDriver(driver, {
    memPoolCreate() {
      throw new CudaError(801, "cudaMemPoolCreate");
    },
  });
  assertEquals(tryImport(withoutPools, 4096).result, "not-tried");
  driver.close();
});

test("doctor says whether the layouts are known", { skip }, () => {
  const driver = driverNamed("software").open();
  const levels = (methods: Partial<Driver>) =>
    layoutsOf(adaptedDriver(driver, methods)).map(({ level, topic }) => `${topic}: ${level}`);
  let place = 0;
  const ipcGetEventHandle = () =>
    new Uint8Array(
      Uint32Array.from({ length: 16 }, (_, index) => index === 0 ? process.pid : index === 4 ? place++ : 0)
        .buffer,
    );
  assertEquals(levels({ ipcGetEventHandle }), ["export data: ok", "event handles: ok"]);
  assertEquals(
    levels({ memPoolExportPointer: () => new Uint8Array(64), ipcGetEventHandle: () => new Uint8Array(64) }),
    [
      "export data: note",
      "event handles: note",
    ],
  );
  const [exportData] = layoutsOf(adaptedDriver(driver, {
    mallocFromPoolAsync() {
      throw new CudaError(2, "cudaMallocFromPoolAsync");
    },
  }));
  assertMatch(exportData!.found, /^whether their layout is known could not be tried: .*cudaErrorMemoryAllocation/);
  driver.close();
});

test("the machine is read without errors", () => {
  const none = "/there/is/none";
  assertEquals([thisMachine.read(none), thisMachine.link(none), thisMachine.status(none), thisMachine.mayUse(none)], [
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  assertEquals(thisMachine.list(none), []);
  assertEquals(thisMachine.mayUse("/dev/null"), true);
  assertEquals(thisMachine.status("/tmp")?.kind, "folder");
});
