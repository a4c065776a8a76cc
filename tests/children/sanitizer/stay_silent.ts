/** Accepts connections at the path of the argument, and publishes nothing of what it does. */
import process from "node:process";
import { UnixListener, type UnixSocket } from "../../../mod.ts";

const listener = UnixListener.listen(process.argv[2]!);
const sockets: UnixSocket[] = [];
console.log("listening");
for (;;) sockets.push(await listener.accept());
