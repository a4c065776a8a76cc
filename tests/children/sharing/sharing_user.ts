// Listens or connects as a certain user: node tests/children/sharing/sharing_user.ts MODE PATH, where PATH is that of a
// socket. "here" listens as the current user; "effective" listens as a user who is another in effect only; "connect"
// connects as another user, and the other end decides whether it may; "full" listens while no descriptor is free.
import process from "node:process";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { checkUser, listenFor } from "../../../src/sharing/transport/users.ts";
import { takeAllDescriptors } from "../../support/take_all_descriptors.ts";

const root = 0;
const nobody = 65534;
const [mode, path] = process.argv.slice(2) as [string, string];

switch (mode) {
  case "here": {
    await using _listener = listenFor(path, []);
    console.log("listens");
    break;
  }
  case "full": {
    await using _warmUp = listenFor(`${path}-first`, []);
    const taken = takeAllDescriptors(0);
    console.log("full:", codeOf(() => listenFor(path, [])));
    for (const fd of taken) closeDescriptor(fd);
    break;
  }
  case "effective": {
    process.setegid!(nobody);
    process.seteuid!(nobody);
    await using listener = listenFor(path, []);
    await using near = await UnixSocket.connect(path);
    await using far = await listener.accept();
    console.log("its own:", codeOf(() => [near, far].forEach(({ peer }) => checkUser("talk", peer, []))));
    console.log("real:", codeOf(() => checkUser("talk", { ...far.peer, uid: process.getuid!() }, [])));
    break;
  }
  case "connect": {
    process.setgid!(nobody);
    process.setuid!(nobody);
    await using socket = await UnixSocket.connect(path);
    console.log("root listens:", codeOf(() => checkUser(`connect to ${path}`, socket.peer, [])));
    console.log("root is listed:", codeOf(() => checkUser(`connect to ${path}`, socket.peer, [root])));
    await socket.receive(1).then(() => console.log("let in"), ({ code }) => console.log(code));
    break;
  }
}

function codeOf(call: () => void): string {
  try {
    call();
    return "nothing";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}
