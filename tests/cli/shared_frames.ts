/**
 * Starts processes for operators to look at.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import type { ExporterStatus } from "../../mod.ts";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { test, type TestOptions } from "../support/test.ts";

/** Milliseconds in which other processes must have done something, even on a busy machine. */
export const patience = 20_000;

/** What a test has. */
export interface SharedFrames {
  /** The exporter's socket. */
  readonly path: string;
  readonly exporter: ChildProcess;
  /** Starts another process, which runs until it is killed or the test ends. */
  start(mode: "export" | "hold" | "consume"): Promise<ChildProcess>;
}

/** Declares a test with an exporter of buffers and channels in another process. */
export function sharedFramesTest(
  name: string,
  body: (frames: SharedFrames) => Promise<void>,
  options: TestOptions = {},
): void {
  test(name, { ...options, skip: options.skip || shimRefusal() }, () =>
    inFolder(async (folder) => {
      await using children = new AsyncDisposableStack();
      const path = `${folder}/frames.sock`;
      const start = async (mode: string): Promise<ChildProcess> => {
        const child = startScript("children/cli/shared_frames.ts", [mode, path], {
          env: { POOLPASS_DRIVER: "software", NODE_NO_WARNINGS: "1" },
        });
        children.use(child);
        children.defer(() => child.kill("SIGKILL"));
        assertEquals(await child.nextLine() ?? await child.errors(), "ready");
        return child;
      };
      await body({ path, exporter: await start("export"), start });
    }));
}

/** The status that `poolpass list --json` prints, once it is as it should be. */
export async function statusWhen(path: string, isSo: (status: ExporterStatus) => boolean): Promise<ExporterStatus> {
  const since = performance.now();
  for (;;) {
    const { code, output, errors } = await poolpass("list", path, "--json");
    assertEquals([code, errors], [0, ""]);
    const status = JSON.parse(output) as ExporterStatus;
    if (isSo(status)) return status;
    if (performance.now() - since > patience) throw new Error(`Not within ${patience} ms: ${output}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Waits until something is so. */
export async function until(isSo: () => boolean, describe: () => string): Promise<void> {
  const since = performance.now();
  while (!isSo()) {
    if (performance.now() - since > patience) throw new Error(`Not within ${patience} ms: ${describe()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
