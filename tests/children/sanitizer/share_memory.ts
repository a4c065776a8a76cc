/**
 * The importer of programs of two processes: see `tests/support/shared_steps.ts`. Arguments: the path of a socket,
 * the driver's name, and the name of the processes' board. Runs the steps that the other end sends.
 *
 * @module
 */
import process from "node:process";
import { UnixSocket } from "../../../mod.ts";
import { useBoard } from "../../support/own_board.ts";
import { Participant, receive, send, type Shared, type Step } from "../../support/shared_steps.ts";

/** The steps that the other end sends. */
export type Command =
  | { readonly do: "begin"; readonly shared: Shared; readonly schedule?: "oldest" }
  | { readonly do: "step"; readonly step: Step }
  | { readonly do: "connect"; readonly path: string }
  | { readonly do: "join"; readonly id: string }
  | { readonly do: "runWithoutTurns"; readonly file: string; readonly parts: readonly (readonly Step[])[] }
  | { readonly do: "settle" | "reports" | "leave" | "end" };

const [path, driver, board] = process.argv.slice(2) as [string, "software" | "cuda", string];
useBoard(board);
const socket = await UnixSocket.connect(path);
const others: UnixSocket[] = [];
let participant: Participant | undefined;
for (;;) {
  const { message, handle } = await receive(socket).catch(() => process.exit(0));
  await send(socket, await answer(message as Command, handle));
}

async function answer(command: Command, handle: Awaited<ReturnType<typeof receive>>["handle"]): Promise<unknown> {
  switch (command.do) {
    case "begin":
      participant = new Participant(driver, command.schedule);
      participant.map(command.shared, handle);
      handle?.[Symbol.dispose]();
      return participant.events;
    case "step":
      await participant!.run(command.step);
      return null;
    case "connect":
      others.push(await UnixSocket.connect(command.path));
      return null;
    case "join":
      await participant!.join(Uint8Array.fromHex(command.id), 1);
      return null;
    case "leave":
      await participant!.leave();
      return null;
    case "runWithoutTurns":
      participant!.runWithoutTurns(command.file, command.parts);
      return null;
    case "settle":
      participant!.settle();
      return null;
    case "reports":
      return participant!.reports;
    case "end":
      participant![Symbol.dispose]();
      return null;
  }
}
