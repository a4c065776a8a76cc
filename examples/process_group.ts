/**
 * A parent and children that advance in lockstep. NVIDIA's samples use a barrier in shared memory; here a barrier is an
 * exchange of messages, so that no process waits for one that has died.
 *
 * Each child has a socket to the parent. The parent sends a message and handles. A child sends a byte when it reaches a
 * barrier, and the parent answers all children once every child has reached it.
 *
 * @module
 */
import process from "node:process";
import { type ShareableHandle, UnixListener, UnixSocket } from "../mod.ts";
import { type ChildProcess, startChild } from "./child_process.ts";
import { messageOf, say } from "./command_line.ts";

const here = Uint8Array.of(1);

/** The name of this process in what it prints. */
export const roleName: string = process.argv[2] === "--child" ? `child ${process.argv[3]}` : "parent";

/** Options of {@linkcode ProcessGroup.start}. */
export interface GroupOptions {
  /** The number of children. */
  size: number;
  signal: AbortSignal;
  /** CUDA_VISIBLE_DEVICES of the children; the parent's by default. */
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
    // If one child dies, the others would wait for it, on the host or on a device.
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

  /** Sends the same message and the same handles to every child. */
  async send(message: unknown, handles: readonly ShareableHandle[] = []): Promise<void> {
    const options = { signal: this.#signal };
    await Promise.all(this.#sockets.map((socket) => sendMessage(socket, message, { ...options, handles })));
  }

  /** Receives what a child sends with {@linkcode GroupMember.answer}. */
  async answerOf<M>(child: number): Promise<M> {
    try {
      const { bytes } = await receiveMessage(this.#sockets[child]!, this.#signal);
      return JSON.parse(new TextDecoder().decode(bytes)) as M;
    } catch (error) {
      // It closes its socket a moment before it ends, and how it ends says more.
      await this.#children[child]!.exited;
      this.#signal.throwIfAborted();
      throw error;
    }
  }

  /** Waits until every child has reached the barrier, then releases them all. */
  async barrier(): Promise<void> {
    const options = { signal: this.#signal };
    await Promise.all(this.#sockets.map((socket) => socket.receive(1, options)));
    await Promise.all(this.#sockets.map((socket) => socket.send(here, options)));
  }

  /** Waits until all children have ended; throws if one failed. */
  async finished(): Promise<void> {
    await ended(this.#children);
    this.#signal.throwIfAborted();
  }

  /** Kills the children that are still running, and waits for them to end. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    await Promise.all(this.#sockets.map((socket) => socket[Symbol.asyncDispose]()));
    await ended(this.#children);
  }
}

/**
 * The child's side. A child that loses its group exits at once. Unwinding would wait for its device, which may itself
 * wait for a dead process.
 */
export class GroupMember {
  /** The child's number, from 0. */
  readonly number: number;
  readonly #socket: UnixSocket;
  readonly #signal: AbortSignal;

  private constructor(number: number, socket: UnixSocket, signal: AbortSignal) {
    this.number = number;
    this.#socket = socket;
    this.#signal = signal;
  }

  /** Joins the group and does the child's work. An error is printed before the parent can notice the child's end. */
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

  /** Receives the parent's message. The caller owns the handles. */
  async receive<M>(): Promise<{ message: M; handles: ShareableHandle[] }> {
    const { bytes, handles } = await receiveMessage(this.#socket, this.#signal);
    return { message: JSON.parse(new TextDecoder().decode(bytes)) as M, handles };
  }

  /** Sends the parent a message. */
  async answer(message: unknown): Promise<void> {
    await sendMessage(this.#socket, message, { signal: this.#signal, handles: [] });
  }

  /** Resolves once every child has reached the barrier. */
  async barrier(): Promise<void> {
    try {
      await this.#socket.send(here, { signal: this.#signal });
      await this.#socket.receive(1, { signal: this.#signal });
    } catch (error) {
      leave(error);
    }
  }
}

async function sendMessage(
  socket: UnixSocket,
  message: unknown,
  { signal, handles }: { signal: AbortSignal; handles: readonly ShareableHandle[] },
): Promise<void> {
  const bytes = new TextEncoder().encode(JSON.stringify(message));
  const head = new Uint8Array(new Uint32Array([bytes.length, handles.length]).buffer);
  await socket.send(head, { signal });
  await socket.send(bytes, { signal, handles });
}

async function receiveMessage(
  socket: UnixSocket,
  signal: AbortSignal,
): Promise<{ bytes: Uint8Array; handles: ShareableHandle[] }> {
  const head = await socket.receive(8, { signal });
  const [byteLength, handleCount] = new Uint32Array(head.bytes.buffer);
  return await socket.receive(byteLength!, { signal, handles: handleCount! });
}

function leave(error: unknown): never {
  say(roleName, `Error: ${messageOf(error)}`);
  process.exit(1);
}

async function ended(children: readonly ChildProcess[]): Promise<void> {
  await Promise.allSettled(children.map((child) => child.exited));
}
