import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import process from "node:process";
import { inspect } from "node:util";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { CudaError } from "../../src/support/errors.ts";
import { startScript } from "../support/child_process.ts";
import { driverNamed, testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const mpsEnabled = 133;
const program = "nvidia-cuda-mps-control";
/** Milliseconds for the program to answer. */
const timeout = 10_000;

testOnEachDriver("a device says whether it is used through MPS, if the driver can", (cuda, { open }) => {
  assertEquals(cuda.device(0).usesMps, false);
  for (const [answer, expected] of [[1, true], [new CudaError(1, "cudaDeviceGetAttribute"), undefined]] as const) {
    const driver = open();
    using other = new Cuda(new Session(driver));
    const { deviceGetAttribute } = driver;
    driver.deviceGetAttribute = (device, attribute) => {
      if (attribute !== mpsEnabled) return deviceGetAttribute.call(driver, device, attribute);
      if (answer instanceof CudaError) throw answer;
      return answer;
    };
    const gpu = other.device(0);
    assertEquals(gpu.usesMps, expected);
    assertEquals(inspect(gpu).endsWith(", MPS }"), expected === true);
  }
});

/** An MPS daemon of its own, with which only the processes that have its environment work. */
class MpsDaemon {
  readonly env: Readonly<Record<string, string>>;
  readonly #folder = mkdtempSync("/tmp/poolpass-mps-");

  constructor() {
    this.env = { CUDA_MPS_PIPE_DIRECTORY: this.#folder, CUDA_MPS_LOG_DIRECTORY: this.#folder };
    // The daemon would keep a pipe of this process open.
    const { status, error } = this.#run(["-d"], { stdio: "ignore" });
    if (status === 0) return;
    rmSync(this.#folder, { recursive: true });
    throw new Error(`${program} does not start: ${error?.message ?? `it exits with ${status}`}`);
  }

  /** Stops the daemon and its server, and resolves when both have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#run([], { input: "quit -t 2\n" });
    const deadline = performance.now() + timeout;
    while (this.#processes().length > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    for (const pid of this.#processes()) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended meanwhile.
      }
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** The processes of MPS that have this daemon's folder in their environment. */
  #processes(): number[] {
    return readdirSync("/proc").map(Number).filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("nvidia-cuda-mps") &&
          readFileSync(`/proc/${pid}/environ`, "utf8").includes(this.#folder);
      } catch {
        // It is no process, or it has ended.
        return false;
      }
    });
  }

  #run(args: readonly string[], options: { stdio?: "ignore"; input?: string }): SpawnSyncReturns<Uint8Array> {
    const env = { ...process.env, ...this.env };
    return spawnSync(program, args, { env, timeout, killSignal: "SIGKILL", ...options });
  }
}

test(
  "a process under MPS is told so, and another beside it is not [cuda]",
  { skip: await reasonWithoutMps() },
  async () => {
    await using daemon = new MpsDaemon();
    await using client = startScript("children/mps_client.ts", [], { env: daemon.env });
    await using other = startScript("children/mps_client.ts", []);
    assertEquals(await Promise.all([client.nextLine(), other.nextLine()]), ["true", "false"]);
    assertEquals(await Promise.all([client.ended, other.ended]), [0, 0]);
    assertStringIncludes(await client.errors(), "through MPS");
  },
);

async function reasonWithoutMps(): Promise<string | false> {
  const cuda = driverNamed("cuda");
  if (cuda.skip !== false) return cuda.skip;
  try {
    await using _daemon = new MpsDaemon();
    return false;
  } catch (error) {
    return (error as Error).message;
  }
}
