/** Is connected to who asks for it at the path of the argument, and tells nobody what it does. */
import process from "node:process";
import { UnixListener, type UnixSocket } from "../../../mod.ts";

const listener = UnixListener.listen(process.argv[2]!);
const sockets: UnixSocket[] = [];
console.log("listening");
for (;;) sockets.push(await listener.accept());
