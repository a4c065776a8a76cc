/**
 * The other process: plays one role until the process that started it closes the connection.
 *
 *     partner.ts ROLE FOLDER [CONNECTIONS]
 *
 * @module
 */
import process from "node:process";
import { type Cuda, Importer, open, SharingError, UnixSocket } from "../../mod.ts";
import { idleShare } from "./idle.ts";

/** The roles of the other process. */
export type Role = "echo" | "map" | "mapAndReport" | "hold" | "idle";

const [role, folder, connections] = process.argv.slice(2) as [Role, string, string | undefined];

const connectSocket = (): Promise<UnixSocket> => UnixSocket.connect(`${folder}/socket`);
const connectImporter = (cuda: Cuda): Promise<Importer> => Importer.connect(cuda, `${folder}/exporter`);

/** Returns every byte. */
async function echo(): Promise<void> {
  await using socket = await connectSocket();
  for (;;) {
    const { bytes } = await socket.receive(1);
    await socket.send(bytes);
  }
}

/** Maps and releases every offer. */
async function map(): Promise<void> {
  using cuda = open({ driver: "software" });
  await using importer = await connectImporter(cuda);
  for await (const offer of importer.offers()) {
    using _buffer = await offer.map();
  }
}

/** Maps every offer, sends a byte, and releases the offer. */
async function mapAndReport(): Promise<void> {
  using cuda = open({ driver: "software" });
  await using socket = await connectSocket();
  await using importer = await connectImporter(cuda);
  for await (const offer of importer.offers()) {
    using _buffer = await offer.map();
    await socket.send(new Uint8Array(1));
  }
}

/** Maps an offer, sends a byte, and holds the offer. */
async function hold(): Promise<void> {
  using cuda = open({ driver: "software" });
  await using importer = await connectImporter(cuda);
  const offer = await importer.offer("held");
  using _buffer = await offer.map();
  await report(new Uint8Array(1));
  for await (const _offer of importer.offers());
}

/** Opens the connections, sends a byte, stays idle, and sends its processor time as a share. */
async function idle(): Promise<void> {
  using cuda = open({ driver: "software" });
  await using importers = new AsyncDisposableStack();
  for (let count = 0; count < Number(connections); count++) importers.use(await connectImporter(cuda));
  await report(new Uint8Array(1));
  const share = await idleShare();
  await report(new Uint8Array(Float64Array.of(share).buffer));
}

/** Sends bytes on a new connection and closes it, so that nothing polls that connection afterwards. */
async function report(bytes: Uint8Array): Promise<void> {
  await using socket = await connectSocket();
  await socket.send(bytes);
}

const roles: Readonly<Record<Role, () => Promise<void>>> = { echo, map, mapAndReport, hold, idle };
try {
  await roles[role]();
} catch (error) {
  if (!(error instanceof SharingError && error.code === "peer-gone")) throw error;
}
