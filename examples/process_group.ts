/**
 * A parent and its children, which go on step by step together: what NVIDIA's samples do with a barrier in shared memory
 * is a message here, so that nobody waits for a process that has died.
 *
 * Each child has a socket to the parent. The parent sends its message, then the handles; a child sends a byte when it
 * has come to a barrier, and the parent answers every child once all of them have.
 *
 * @module
 */
import process from "node:process";
import { type ShareableHandle, UnixListener, UnixSocket } from "../mod.ts";
import { type ChildProcess, startChild } from "./child_process.ts";
import { messageOf, say } from "./command_line.ts";

const here = Uint8Array.of(1);

/** What this process calls itself when it prints something. */
export const roleName: string = process.argv[2] === "--child" ? `child ${process.argv[3]}` : "parent";

/** How to start a group. */
export interface GroupOptions {
  /** How many children. */
  size: number;
  signal: AbortSignal;
  /** CUDA_VISIBLE_DEVICES of the children, where it is not to be the parent's. */
  visibleDevices?: string | undefined;
}

/** The parent's side. */
export class ProcessGroup implements AsyncDisposable {
  readonly #children: readonly ChildProcess[];
  readonly #sockets: readonly UnixSocket[];
  readonly #signal: AbortSignal;

  private constructor(children: readonly ChildProcess[], sockets: readonly UnixSocket[], signal: AbortSignal) {
    this.#children = children;
    this.#sockets = sockets;
    this.#signal = signal;
  }

  /** Starts the program once for each child, with `--child NUMBER SOCKET`, and waits until all have connected. */
  static async start(program: URL, { size, signal, visibleDevices }: GroupOptions): Promise<ProcessGroup> {
    const path = `/tmp/poolpass-group-${process.pid}.sock`;
    const failed = new AbortController();
    const whileAllLive = AbortSignal.any([signal, failed.signal]);
    const env: Record<string, string> = visibleDevices === undefined ? {} : { CUDA_VISIBLE_DEVICES: visibleDevices };
    await using listener = UnixListener.listen(path);
    const children = Array.from(
      { length: size },
      (_, number) => startChild(program, { args: ["--child", String(number), path], env }),
    );
    const connected = new Set<UnixSocket>();
    // One that is gone would be waited for by the others, on the host or on a device.
    whileAllLive.addEventListener("abort", () => children.forEach((child) => child.kill("SIGKILL")));
    for (const [number, child] of children.entries()) {
      const end = (how: unknown) => failed.abort(new Error(`Child ${number} ended with ${how}`));
      child.exited.then((code) => {
        if (code !== 0 || connected.size < size) end(code);
      }, end);
    }
    const sockets: UnixSocket[] = [];
    try {
      while (connected.size < size) {
        const socket = await listener.accept({ signal: whileAllLive });
        connected.add(socket);
        const { bytes } = await socket.receive(1, { signal: whileAllLive });
        sockets[bytes[0]!] = socket;
      }
      return new ProcessGroup(children, sockets, whileAllLive);
    } catch (error) {
      await using _unfinished = new ProcessGroup(children, [...connected], whileAllLive);
      throw error;
    }
  }

  /** Sends every child the same message, and the same handles. */
  async send(message: unknown, handles: readonly ShareableHandle[] = []): Promise<void> {
    const options = { signal: this.#signal };
    const bytes = new TextEncoder().encode(JSON.stringify(message));
    const head = new Uint8Array(new Uint32Array([bytes.length, handles.length]).buffer);
    await Promise.all(this.#sockets.map(async (socket) => {
      await socket.send(head, options);
      await socket.send(bytes, { ...options, handles });
    }));
  }

  /** Lets all children go on once all have come here. */
  async barrier(): Promise<void> {
    const options = { signal: this.#signal };
    await Promise.all(this.#sockets.map((socket) => socket.receive(1, options)));
    await Promise.all(this.#sockets.map((socket) => socket.send(here, options)));
  }

  /** Waits until all have ended well. */
  async finished(): Promise<void> {
    await ended(this.#children);
    this.#signal.throwIfAborted();
  }

  /** Ends the children that have not ended, and waits until they have. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    await Promise.all(this.#sockets.map((socket) => socket[Symbol.asyncDispose]()));
    await ended(this.#children);
  }
}

/**
 * A child's side. A child that has lost its group ends at once: to unwind, it would have to wait for its device, which may
 * wait for a process that is gone.
 */
export class GroupMember {
  /** From 0. */
  readonly number: number;
  readonly #socket: UnixSocket;
  readonly #signal: AbortSignal;

  private constructor(number: number, socket: UnixSocket, signal: AbortSignal) {
    this.number = number;
    this.#socket = socket;
    this.#signal = signal;
  }

  /** Joins the group, and does a child's work. What goes wrong is said before the parent can notice. */
  static async run(
    { number, path }: { number: number; path: string },
    work: (member: GroupMember) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    signal.addEventListener("abort", () => process.exit(130));
    await using socket = await UnixSocket.connect(path, { signal });
    await socket.send(Uint8Array.of(number), { signal });
    try {
      await work(new GroupMember(number, socket, signal));
    } catch (error) {
      leave(error);
    }
  }

  /** What the parent has sent. The handles are the caller's. */
  async receive<M>(): Promise<{ message: M; handles: ShareableHandle[] }> {
    const options = { signal: this.#signal };
    const head = await this.#socket.receive(8, options);
    const [byteLength, handleCount] = new Uint32Array(head.bytes.buffer);
    const { bytes, handles } = await this.#socket.receive(byteLength!, { ...options, handles: handleCount! });
    return { message: JSON.parse(new TextDecoder().decode(bytes)) as M, handles };
  }

  /** Resolves once all children have come here. */
  async barrier(): Promise<void> {
    try {
      await this.#socket.send(here, { signal: this.#signal });
      await this.#socket.receive(1, { signal: this.#signal });
    } catch (error) {
      leave(error);
    }
  }
}

function leave(error: unknown): never {
  say(roleName, `Error: ${messageOf(error)}`);
  process.exit(1);
}

async function ended(children: readonly ChildProcess[]): Promise<void> {
  await Promise.allSettled(children.map((child) => child.exited));
}
