/**
 * The other process: does one thing until the process that started it has closed the connection.
 *
 *     partner.ts ROLE FOLDER [CONNECTIONS]
 *
 * @module
 */
import process from "node:process";
import { type Cuda, Importer, open, SharingError, UnixSocket } from "../../mod.ts";
import { idleShare } from "./rest.ts";

/** What the other process can do. */
export type Role = "echo" | "map" | "mapAndSay" | "hold" | "idle";

const [role, folder, connections] = process.argv.slice(2) as [Role, string, string | undefined];

const connectSocket = (): Promise<UnixSocket> => UnixSocket.connect(`${folder}/socket`);
const connectImporter = (cuda: Cuda): Promise<Importer> => Importer.connect(cuda, `${folder}/exporter`);

/** Sends every byte back. */
async function echo(): Promise<void> {
  await using socket = await connectSocket();
  for (;;) {
    const { bytes } = await socket.receive(1);
    await socket.send(bytes);
  }
}

/** Maps every offer and releases it. */
async function map(): Promise<void> {
  using cuda = open({ driver: "software" });
  await using importer = await connectImporter(cuda);
  for await (const offer of importer.offers()) {
    using _buffer = await offer.map();
  }
}

/** Maps every offer, says so by a byte, and releases it. */
async function mapAndSay(): Promise<void> {
  using cuda = open({ driver: "software" });
  await using socket = await connectSocket();
  await using importer = await connectImporter(cuda);
  for await (const offer of importer.offers()) {
    using _buffer = await offer.map();
    await socket.send(new Uint8Array(1));
  }
}

/** Maps an offer, says so by a byte, and keeps it. */
async function hold(): Promise<void> {
  using cuda = open({ driver: "software" });
  await using importer = await connectImporter(cuda);
  const offer = await importer.offer("held");
  using _buffer = await offer.map();
  await say(new Uint8Array(1));
  for await (const _offer of importer.offers());
}

/** Says by a byte that it is connected so many times, does nothing, and says what that has cost. */
async function idle(): Promise<void> {
  using cuda = open({ driver: "software" });
  await using importers = new AsyncDisposableStack();
  for (let count = 0; count < Number(connections); count++) importers.use(await connectImporter(cuda));
  await say(new Uint8Array(1));
  const share = await idleShare();
  await say(new Uint8Array(Float64Array.of(share).buffer));
}

/** By a connection that is gone afterwards: nobody waits for it. */
async function say(bytes: Uint8Array): Promise<void> {
  await using socket = await connectSocket();
  await socket.send(bytes);
}

const roles: Readonly<Record<Role, () => Promise<void>>> = { echo, map, mapAndSay, hold, idle };
try {
  await roles[role]();
} catch (error) {
  if (!(error instanceof SharingError && error.code === "peer-gone")) throw error;
}
