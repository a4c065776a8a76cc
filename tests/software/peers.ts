/**
 * A second process with its own software driver, for tests of sharing between two processes.
 *
 * @module
 */
import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { startCommand, type StartOptions, startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { leakTest } from "../support/resources.ts";
import { receiveMessage, sendMessage } from "../support/software_messages.ts";
import type { TestOptions } from "../support/test.ts";
import { warmUpSockets } from "../support/warm_up.ts";

/** The second process. */
export interface SoftwarePeer extends AsyncDisposable {
  /**
   * Calls a method of its driver, or another function of `children/software/software_peer.ts`. Errors are thrown with
   * their code.
   */
  call(name: string, ...args: readonly unknown[]): Promise<unknown>;
  /** Ends the process with SIGKILL. */
  kill(): Promise<void>;
}

/**
 * Starts a second process.
 *
 * @param fabric the folder that is the fabric of its devices
 */
export async function startSoftwarePeer(fabric?: string, options: StartOptions = {}): Promise<SoftwarePeer> {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rmdirSync(folder));
  const listener = stack.use(UnixListener.listen(join(folder, "peer")));
  const child = stack.use(
    startScript(
      "children/software/software_peer.ts",
      [listener.path, ...fabric === undefined ? [] : [fabric]],
      options,
    ),
  );
  const socket = stack.use(await listener.accept());
  const kept = stack.move();
  return {
    async call(name, ...args) {
      await sendMessage(socket, { name, args });
      const { error, result } = await receiveMessage(socket) as { error?: string; result?: unknown };
      if (error !== undefined) throw new Error(error);
      return result;
    },
    async kill() {
      child.kill("SIGKILL");
      await child.ended;
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** A driver, a second process, and the folder that is the fabric of both. */
export interface InFabric {
  readonly driver: SoftwareDriver;
  readonly peer: SoftwarePeer;
  readonly folder: string;
}

/** Declares a test with a driver and a second process in one fabric. Fails if a resource or a file is left behind. */
export function testInFabric(
  name: string,
  body: (parts: InFabric) => void | Promise<void>,
  { skip, long = false }: TestOptions = {},
): void {
  leakTest(name, () =>
    inFolder(async (folder) => {
      await using peer = await startSoftwarePeer(folder);
      const driver = new SoftwareDriver({ devices: 2, peers: true, fabric: folder });
      try {
        await body({ driver, peer, folder });
      } finally {
        driver.close();
      }
    }), { skip: shimRefusal() ?? skip, long, warmUp: warmUpOnce });
}

/** Declares a test with a driver and a second process. Fails if a resource is left behind. */
export function testWithPeer(
  name: string,
  body: (driver: SoftwareDriver, peer: SoftwarePeer) => void | Promise<void>,
  { long = false }: TestOptions = {},
): void {
  const run = async (body: (driver: SoftwareDriver, peer: SoftwarePeer) => void | Promise<void>) => {
    await using peer = await startSoftwarePeer();
    const driver = new SoftwareDriver({ devices: 2, peers: true });
    try {
      await body(driver, peer);
    } finally {
      driver.close();
    }
  };
  leakTest(name, () => run(body), {
    skip: shimRefusal(),
    long,
    // Resources that sockets and children take once are created before the count.
    warmUp: warmUpOnce,
  });
}

async function warmUpOnce(): Promise<void> {
  warmedUp ??= warmUp();
  await warmedUp;
}

let warmedUp: Promise<void> | undefined;

/** Uses a driver, sockets and a child process. Any program serves as a child. */
async function warmUp(): Promise<void> {
  await warmUpSockets();
  await using child = startCommand(["true"]);
  await child.ended;
  const driver = new SoftwareDriver({ devices: 2, peers: true });
  driver.close();
}
