import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import { inspect } from "node:util";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { CudaError } from "../../src/support/errors.ts";
import { startScript } from "../support/child_process.ts";
import { driversUnderTest, testOnEachDriver } from "../support/drivers.ts";
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
class MpsDaemon implements Disposable {
  readonly env: Readonly<Record<string, string>>;
  readonly #folder = mkdtempSync("/tmp/poolpass-mps-");

  constructor() {
    this.env = { CUDA_MPS_PIPE_DIRECTORY: this.#folder, CUDA_MPS_LOG_DIRECTORY: this.#folder };
    // The daemon would keep a pipe of this process open.
    const { status, error } = this.#run(["-d"], { stdio: "ignore" });
    if (status === 0) return;
    const reason = error?.message ?? `it exits with ${status}`;
    this[Symbol.dispose]();
    throw new Error(`${program} does not start: ${reason}`);
  }

  [Symbol.dispose](): void {
    this.#run([], { input: "quit -t 2\n" });
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #run(args: readonly string[], options: { stdio?: "ignore"; input?: string }): SpawnSyncReturns<Uint8Array> {
    const env = { ...process.env, ...this.env };
    return spawnSync(program, args, { env, timeout, killSignal: "SIGKILL", ...options });
  }
}

test("a process under MPS is told so, and another beside it is not [cuda]", { skip: reasonWithoutMps() }, async () => {
  using daemon = new MpsDaemon();
  const env = { ...daemon.env, POOLPASS_DEBUG: "1" };
  await using client = startScript("children/mps_client.ts", [], { env });
  await using other = startScript("children/mps_client.ts", []);
  assertEquals(await Promise.all([client.nextLine(), other.nextLine()]), ["true", "false"]);
  assertEquals(await Promise.all([client.ended, other.ended]), [0, 0]);
  assertStringIncludes(await client.errors(), "through MPS");
});

function reasonWithoutMps(): string | false {
  const cuda = driversUnderTest.find(({ name }) => name === "cuda")!;
  if (cuda.skip !== false) return cuda.skip;
  try {
    new MpsDaemon()[Symbol.dispose]();
    return false;
  } catch (error) {
    return (error as Error).message;
  }
}
