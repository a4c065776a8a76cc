/**
 * A process of random programs: see `tests/support/random_participant.ts`. Arguments: the path of a socket and the name of
 * the processes' board. Runs the steps that the other end sends.
 *
 * @module
 */
import process from "node:process";
import { type ShareableHandle, UnixSocket } from "../../../mod.ts";
import { type Beginning, type Offered, RandomParticipant, type RandomStep } from "../../support/random_participant.ts";
import { useBoard } from "../../support/own_board.ts";
import { receive, send } from "../../support/shared_steps.ts";

/** The steps that the other end sends. */
export type Command =
  | { readonly do: "begin"; readonly beginning: Beginning }
  | { readonly do: "add"; readonly offered: Offered }
  | { readonly do: "addOwn" | "settle" | "reports" | "end" }
  | { readonly do: "step"; readonly step: RandomStep };

const [path, board] = process.argv.slice(2) as [string, string];
useBoard(board);
const socket = await UnixSocket.connect(path);
let participant: RandomParticipant | undefined;
for (;;) {
  const { message, handle } = await receive(socket).catch(() => process.exit(0));
  await send(socket, answer(message as Command, handle) ?? null);
  handle?.[Symbol.dispose]();
}

function answer(command: Command, handle: ShareableHandle | undefined): unknown {
  switch (command.do) {
    case "begin":
      participant = new RandomParticipant(command.beginning);
      return participant.offer();
    case "add":
      return participant!.add(command.offered, handle === undefined ? [] : [handle]);
    case "addOwn":
      return participant!.addOwn();
    case "step":
      return participant!.run(command.step);
    case "settle":
      return participant!.settle();
    case "reports":
      return participant!.reports();
    case "end":
      return participant![Symbol.dispose]();
  }
}
