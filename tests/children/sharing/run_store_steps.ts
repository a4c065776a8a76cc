/** A process of random programs of a store: does what the other end of a socket says. */
import process from "node:process";
import { UnixSocket } from "../../../mod.ts";
import { receive, send } from "../../support/shared_steps.ts";
import { type StoreCommand, StoreParticipant } from "../../support/store_participant.ts";

const socket = await UnixSocket.connect(process.argv[2]!);
const participant = new StoreParticipant();
for (;;) {
  const { message } = await receive(socket).catch(() => process.exit(0));
  await send(socket, await participant.run(message as StoreCommand) ?? null);
}
