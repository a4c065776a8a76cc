/**
 * How ranks of several machines find each other: rank 0 listens at a TCP port, and hands out the communicator's id to
 * the ranks that know a secret.
 *
 * Rank 0 sends 8 bytes that name the protocol, and 32 random bytes. The other one answers with its number and the number
 * of ranks, 4 bytes each, and an HMAC of all of these by the secret, 32 bytes. It gets a byte that says what became of
 * that, and then the id. Nobody else learns the secret, but whoever can read the network learns the id.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createConnection, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const protocol = Buffer.from("ranks/1\n");
const challengeByteLength = protocol.length + 32;
const claimByteLength = 4 + 4 + 32;
const idByteLength = 128;
/** Milliseconds in which whoever connects must say who it is. */
const claimTimeout = 5000;
/** Milliseconds between two attempts to connect: rank 0 may be the last one to start. */
const retryInterval = 100;
/** The connections that rank 0 has at a time, in addition to one for each rank. */
const strangers = 16;

/** What rank 0 answers. */
const answers = ["welcome", "wrong-token", "wrong-size", "taken"] as const;
type Answer = typeof answers[number];
const refusals: Readonly<Record<Exclude<Answer, "welcome">, string>> = {
  "wrong-token": "it has another secret",
  "wrong-size": "it has another number of ranks",
  "taken": "there is no such rank, or another process was it already",
};

/** Where the ranks meet. */
export interface MeetingPlace {
  /** The machine of rank 0. */
  readonly host: string;
  readonly port: number;
  /** How many ranks there are. */
  readonly size: number;
  /** The secret. */
  readonly token: string;
  /** Milliseconds in which all must come. */
  readonly timeout: number;
  readonly signal: AbortSignal;
}

/** Rank 0: listens until all other ranks have the id. */
export async function handOutId(id: Uint8Array, place: MeetingPlace): Promise<void> {
  const { host, port, size } = place;
  if (size === 1) return;
  place.signal.throwIfAborted();
  const present = new Set<number>();
  const limit = limitOf(place, () => `only ${present.size + 1} of ${size} ranks came to port ${port}`);
  const connected = new Set<Socket>();
  const server = createServer((socket) => {
    connected.add(socket);
    meet(socket, id, { ...place, present }).catch(() => {
      // Whoever it was has gone, or has not spoken in time. A rank comes again.
    }).finally(() => socket.destroy()).then(() => {
      connected.delete(socket);
      if (present.size === size - 1) limit.done();
    });
  });
  server.maxConnections = size + strangers;
  // The name of the machine may be known to others only: a service's, for example.
  server.listen(isLoopback(host) ? { port, host } : { port });
  try {
    await once(server, "listening");
  } catch (error) {
    limit.done();
    throw new Error(`Cannot listen at port ${port}: ${(error as Error).message}`);
  }
  try {
    await limit.promise;
  } finally {
    for (const socket of connected) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  }
}

/** Another rank: gets the id. */
export async function fetchId(place: MeetingPlace & { readonly rank: number }): Promise<Uint8Array> {
  const { host, port, rank } = place;
  let last = "nobody listens there";
  const limit = limitOf(place, () => `rank 0 did not answer at ${host}:${port}: ${last}`);
  let isOver = false;
  limit.promise.catch(() => isOver = true);
  const attempts = async () => {
    for (; !isOver; await sleep(retryInterval)) {
      const socket = createConnection({ host, port });
      limit.promise.catch(() => socket.destroy());
      socket.once("connect", () => last = "who listens there says nothing");
      try {
        return await ask(socket, place);
      } catch (error) {
        if (error instanceof Refusal) {
          throw new Error(`Cannot join as rank ${rank} at ${host}:${port}: ${error.message}`);
        }
        last = (error as Error).message;
      } finally {
        socket.destroy();
      }
    }
    return new Uint8Array();
  };
  try {
    return await Promise.race([attempts(), limit.promise.then(() => new Uint8Array())]);
  } finally {
    limit.done();
  }
}

/** What another attempt would not change. */
class Refusal extends Error {}

/** Rank 0's side of a connection. */
async function meet(
  socket: Socket,
  id: Uint8Array,
  { size, token, present }: MeetingPlace & { readonly present: Set<number> },
): Promise<void> {
  const challenge = Buffer.concat([protocol, randomBytes(challengeByteLength - protocol.length)]);
  const received = read(socket, claimByteLength, claimTimeout);
  socket.write(challenge);
  const claim = await received;
  const [rank, claimedSize] = [claim.readUInt32LE(0), claim.readUInt32LE(4)];
  const isRight = timingSafeEqual(claim.subarray(8), proof(token, challenge, claim.subarray(0, 8)));
  const answer: Answer = !isRight
    ? "wrong-token"
    : claimedSize !== size
    ? "wrong-size"
    : rank === 0 || rank >= size || present.has(rank)
    ? "taken"
    : "welcome";
  if (answer === "welcome") present.add(rank);
  const code = Uint8Array.of(answers.indexOf(answer));
  const bytes = Buffer.concat([code, answer === "welcome" ? id : new Uint8Array()]);
  await new Promise<void>((resolve) => socket.end(bytes, () => resolve()));
}

/** The side of another rank. */
async function ask(
  socket: Socket,
  { rank, size, token, timeout }: MeetingPlace & { rank: number },
): Promise<Uint8Array> {
  const challenge = await read(socket, challengeByteLength, timeout);
  if (!challenge.subarray(0, protocol.length).equals(protocol)) {
    throw new Refusal("another program listens there; set MASTER_PORT to a port that is free");
  }
  const claim = Buffer.alloc(8);
  claim.writeUInt32LE(rank, 0);
  claim.writeUInt32LE(size, 4);
  const answered = read(socket, 1, timeout);
  socket.write(Buffer.concat([claim, proof(token, challenge, claim)]));
  const answer = answers[(await answered)[0]!];
  if (answer === undefined) throw new Refusal("rank 0 has sent what is no answer");
  if (answer !== "welcome") throw new Refusal(`rank 0 says that ${refusals[answer]}`);
  return new Uint8Array(await read(socket, idByteLength, timeout));
}

function proof(token: string, challenge: Uint8Array, claim: Uint8Array): Buffer {
  return createHmac("sha256", token).update(challenge).update(claim).digest();
}

/** Reads so many bytes. What follows stays for the next call. */
function read(socket: Socket, byteLength: number, timeout: number): Promise<Buffer> {
  // An error between two calls is one of the next call, and no reason to end the process.
  if (socket.listenerCount("error") === 0) socket.on("error", () => {});
  if (socket.destroyed) return Promise.reject(new Error("it closed the connection"));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const settle = (settle: () => void) => {
      clearTimeout(timer);
      socket.off("data", take).off("error", fail).off("close", end).off("end", end);
      socket.pause();
      settle();
    };
    const take = (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length < byteLength) return;
      const all = Buffer.concat(chunks);
      settle(() => {
        if (all.length > byteLength) socket.unshift(all.subarray(byteLength));
        resolve(all.subarray(0, byteLength));
      });
    };
    const fail = (error: Error) => settle(() => reject(error));
    const end = () => fail(new Error("it closed the connection"));
    const timer = setTimeout(() => fail(new Error("it said nothing in time")), timeout);
    socket.on("data", take).on("error", fail).on("close", end).on("end", end);
    socket.resume();
  });
}

/** A promise that rejects after the place's time, or when its signal is aborted. */
function limitOf(
  { timeout, signal }: MeetingPlace,
  why: () => string,
): { promise: Promise<void>; done(): void } {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const abort = () => reject(signal.reason);
  const timer = setTimeout(() => {
    reject(new Error(`Cannot find the other ranks in ${timeout / 1000} s: ${why()}`));
  }, timeout);
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  const settled = promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  });
  settled.catch(() => {});
  return { promise: settled, done: () => resolve() };
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host.startsWith("127.");
}
