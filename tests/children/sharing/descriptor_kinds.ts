/**
 * Descriptors of every kind that a hostile peer might send in place of a pool's.
 *
 * @module
 */
import process from "node:process";
import { dlopen } from "../../../ffi/native/host.ts";
import { closeDescriptor, openDescriptor, openPath } from "../../../ffi/native/shim/descriptors.ts";
import { cString } from "../../../ffi/native/shim/shim.ts";
import { connectTo, receiveFrom, sendTo } from "../../../ffi/native/shim/sockets.ts";
import type { Random } from "../../support/ptx_mutations.ts";

const [AF_UNIX, AF_INET, SOCK_STREAM, SOCK_DGRAM] = [1, 2, 1, 2];
const [SOL_SOCKET, SO_SNDBUF, SO_RCVBUF, SO_LINGER] = [1, 7, 8, 13];
const [MSG_DONTWAIT, MSG_NOSIGNAL] = [0x40, 0x4000];
const [F_ADD_SEALS, F_SEAL_SHRINK, F_SEAL_GROW] = [1033, 2, 4];
const [MFD_ALLOW_SEALING, CLOCK_MONOTONIC, O_RDWR, O_TMPFILE] = [2, 1, 2, 0o20200000];
const SYS_pidfd_open = 434;
/** Seconds for which closing the last descriptor of a lingering socket blocks. */
const lingerSeconds = 2;
/** One of so many descriptors is a lingering socket: each needs a connection of its own. */
const lingeringShare = 200;
/** How many lingering sockets are kept unread at a time. */
const unreadSockets = 64;

const i32 = "i32" as const;
const libc = dlopen("libc.so.6", {
  accept: { parameters: [i32, /* int fd */ "u64", /* address */ "u64" /* length */], result: i32 },
  bind: { parameters: [i32, /* int fd */ "buffer", /* address */ i32 /* length */], result: i32 },
  connect: { parameters: [i32, /* int fd */ "buffer", /* address */ i32 /* length */], result: i32 },
  epoll_create1: { parameters: [i32 /* int flags */], result: i32 },
  eventfd: { parameters: [i32, /* unsigned count */ i32 /* int flags */], result: i32 },
  fcntl: { parameters: [i32, /* int fd */ i32, /* int command */ i32 /* int argument */], result: i32 },
  ftruncate: { parameters: [i32, /* int fd */ "u64" /* off_t length */], result: i32 },
  getsockname: { parameters: [i32, /* int fd */ "buffer", /* address */ "buffer" /* length */], result: i32 },
  inotify_init1: { parameters: [i32 /* int flags */], result: i32 },
  listen: { parameters: [i32, /* int fd */ i32 /* int backlog */], result: i32 },
  memfd_create: { parameters: ["buffer", /* const char *name */ i32 /* unsigned flags */], result: i32 },
  open: { parameters: ["buffer", /* const char *path */ i32, /* int flags */ i32 /* mode_t mode */], result: i32 },
  pipe: { parameters: ["buffer" /* int fds[2] */], result: i32 },
  send: { parameters: [i32, /* int fd */ "buffer", /* data */ "u64", /* length */ i32 /* int flags */], result: "i64" },
  setsockopt: {
    parameters: [i32, /* int fd */ i32, /* int level */ i32, /* int name */ "buffer", /* value */ i32 /* length */],
    result: i32,
  },
  socket: { parameters: [i32, /* int domain */ i32, /* int type */ i32 /* int protocol */], result: i32 },
  socketpair: {
    parameters: [i32, /* int domain */ i32, /* type */ i32, /* protocol */ "buffer" /* fds */],
    result: i32,
  },
  syscall: { parameters: ["u64", /* long number */ "u64", /* pid_t pid */ "u64" /* unsigned flags */], result: "i64" },
  timerfd_create: { parameters: [i32, /* int clock */ i32 /* int flags */], result: i32 },
}).symbols as unknown as Record<string, (...args: (number | bigint | Uint8Array)[]) => number>;

/** A descriptor to send. */
export interface SentDescriptor {
  readonly fd: number;
  /** Closes this process's copy if it is used once, when it was sent or was refused. */
  sent(wasSent: boolean): void;
}

/** Descriptors of every kind that this system has. */
export class DescriptorKinds {
  /** By kind. This process keeps them. */
  readonly #kept: readonly (readonly [kind: string, fd: number])[];
  readonly #unread: number[] = [];
  readonly #listener: number;
  readonly #address = new Uint8Array(16);

  /**
   * @param pools Descriptors that a pool may have.
   * @param dealer The socket of `descriptor_dealer.py`, if it runs.
   */
  constructor(pools: readonly number[], dealer: string | undefined) {
    const [pipeOut, pipeIn] = pair((fds) => libc.pipe!(fds));
    const [unixSocket] = pair((fds) => libc.socketpair!(AF_UNIX, SOCK_STREAM, 0, fds));
    const [carrier, carried] = pair((fds) => libc.socketpair!(AF_UNIX, SOCK_STREAM, 0, fds));
    sendTo(carried!, new Uint8Array(1), [carrier!, pipeOut!]);
    this.#listener = this.#listen();
    const kinds: [string, number][] = [
      ...pools.map((fd): [string, number] => ["pool", fd]),
      ["sealed memory file", memoryFile(65_536, F_SEAL_SHRINK | F_SEAL_GROW)],
      ["memory file that can shrink", memoryFile(65_536, 0)],
      ["memory file of one byte", memoryFile(1, F_SEAL_SHRINK)],
      ["empty memory file", memoryFile(0, F_SEAL_SHRINK)],
      ["program", openDescriptor("/proc/self/exe")],
      ["unnamed file", libc.open!(cString("/tmp"), O_TMPFILE | O_RDWR, 0o600)],
      ["folder", openDescriptor("/")],
      ["pipe, read end", pipeOut!],
      ["pipe, write end", pipeIn!],
      ["Unix socket", unixSocket!],
      ["Unix socket with descriptors in its queue", carrier!],
      ["listening Unix socket", this.#listenUnix()],
      ["listening TCP socket", this.#listener],
      ["UDP socket", libc.socket!(AF_INET, SOCK_DGRAM, 0)],
      ["eventfd", libc.eventfd!(0, 0)],
      ["epoll", libc.epoll_create1!(0)],
      ["pidfd", Number(libc.syscall!(BigInt(SYS_pidfd_open), BigInt(process.pid), 0n))],
      ["timerfd", libc.timerfd_create!(CLOCK_MONOTONIC, 0)],
      ["inotify", libc.inotify_init1!(0)],
      ["/dev/null", openDescriptor("/dev/null", { writable: true })],
      ["/dev/zero", openDescriptor("/dev/zero", { writable: true })],
      ["/dev/fuse", libc.open!(cString("/dev/fuse"), O_RDWR, 0)],
      ["/dev/ptmx", libc.open!(cString("/dev/ptmx"), O_RDWR, 0)],
      ["namespace", libc.open!(cString("/proc/self/ns/uts"), 0, 0)],
      ["file of /proc", openDescriptor("/proc/self/maps")],
      ["O_PATH of a folder", openPath("/")],
      ["O_PATH of a device", openPath("/dev/null")],
      ...dealt(dealer),
    ];
    this.#kept = kinds.filter(([, fd]) => fd >= 0);
  }

  /** The kinds that this system has. */
  get names(): readonly string[] {
    return [...new Set([...this.#kept.map(([kind]) => kind), "lingering TCP socket"])];
  }

  pick(random: Random): SentDescriptor {
    if (random.below(lingeringShare) === 0) return this.#lingering();
    return { fd: random.pick(this.#kept)[1], sent: () => {} };
  }

  /** A TCP socket with data that its peer does not read, whose last `close` waits for the peer. */
  #lingering(): SentDescriptor {
    const fd = libc.socket!(AF_INET, SOCK_STREAM, 0);
    setOption(fd, SO_SNDBUF, [4096]);
    libc.connect!(fd, this.#address, this.#address.length);
    this.#unread.push(libc.accept!(this.#listener, 0n, 0n));
    if (this.#unread.length > unreadSockets) closeDescriptor(this.#unread.shift()!);
    const data = new Uint8Array(65_536);
    while (Number(libc.send!(fd, data, BigInt(data.length), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0);
    setOption(fd, SO_LINGER, [1, lingerSeconds]);
    return {
      fd,
      sent(wasSent) {
        if (!wasSent) setOption(fd, SO_LINGER, [0, 0]);
        closeDescriptor(fd);
      },
    };
  }

  /** Listens at a port of the loopback interface, and keeps the address. */
  #listen(): number {
    const fd = libc.socket!(AF_INET, SOCK_STREAM, 0);
    setOption(fd, SO_RCVBUF, [4096]);
    this.#address.set([AF_INET, 0, 0, 0, 127, 0, 0, 1]);
    libc.bind!(fd, this.#address, this.#address.length);
    libc.listen!(fd, 16);
    libc.getsockname!(fd, this.#address, new Uint8Array(Int32Array.of(this.#address.length).buffer));
    return fd;
  }

  #listenUnix(): number {
    const fd = libc.socket!(AF_UNIX, SOCK_STREAM, 0);
    // Without a path, the system chooses an abstract address.
    libc.bind!(fd, Uint8Array.of(AF_UNIX, 0), 2);
    libc.listen!(fd, 16);
    return fd;
  }
}

function pair(create: (fds: Uint8Array) => number): number[] {
  const fds = new Int32Array(2);
  create(new Uint8Array(fds.buffer));
  return [...fds];
}

function memoryFile(byteLength: number, seals: number): number {
  const fd = libc.memfd_create!(cString("poolpass-test"), MFD_ALLOW_SEALING);
  libc.ftruncate!(fd, BigInt(byteLength));
  libc.fcntl!(fd, F_ADD_SEALS, seals);
  return fd;
}

function setOption(fd: number, name: number, values: readonly number[]): void {
  const bytes = new Uint8Array(Int32Array.from(values).buffer);
  libc.setsockopt!(fd, SOL_SOCKET, name, bytes, bytes.length);
}

/** The files of a FUSE file system that the dealer gives: one whose close succeeds, and one whose close fails. */
function dealt(dealer: string | undefined): [string, number][] {
  if (dealer === undefined) return [];
  const socket = connectTo(dealer);
  let fds: readonly number[] = [];
  const deadline = performance.now() + 10_000;
  while (fds.length === 0 && performance.now() < deadline) fds = receiveFrom(socket, new Uint8Array(1), 2).fds;
  closeDescriptor(socket);
  return fds.map((fd, index) => [index === 0 ? "FUSE file" : "FUSE file whose close fails", fd]);
}
