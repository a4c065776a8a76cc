import { writeFileSync } from "node:fs";
import { ShareableHandle, UnixListener, UnixSocket } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Sharing by hand", import.meta.url);

mistake("a pool without a handle type exported", ({ pool }) => {
  pool.exportHandle();
});

mistake("a buffer of such a pool exported", ({ buffer }) => {
  buffer.exportPointer();
});

mistake("a part of a buffer exported", ({ weights }) => {
  weights.subarray(0, 1024).exportPointer();
});

mistake("cudaMalloc exported as pool memory", ({ gpu }) => {
  gpu.allocate(1024).exportPointer();
});

mistake("pool memory exported as cudaMalloc", ({ weights }) => {
  weights.exportHandle();
});

mistake("a descriptor's number imported", ({ gpu, shared }) => {
  gpu.importPool(shared.exportHandle().fd);
});

mistake("a pool imported that was not exported", ({ gpu, shared }) => {
  gpu.importPool(shared);
});

mistake("a handle that was disposed", ({ gpu, shared }) => {
  const handle = shared.exportHandle();
  handle[Symbol.dispose]();
  gpu.importPool(handle);
});

mistake("a descriptor that is not open", ({ gpu }) => {
  gpu.importPool(ShareableHandle.fromFd(987));
});

mistake("a descriptor of something else", ({ gpu, openFile }) => {
  gpu.importPool(ShareableHandle.fromFd(openFile("notes.txt")));
});

mistake("the bytes of a descriptor", ({ shared }) => {
  shared.exportHandle().bytes;
});

mistake("a pool imported on another device", ({ peer, shared }) => {
  peer.importPool(shared.exportHandle()).importPointer(new Uint8Array(64), 1024);
});

mistake("export data of zeros", ({ gpu, shared }) => {
  gpu.importPool(shared.exportHandle()).importPointer(new Uint8Array(64), 1024);
});

mistake("a buffer exported before its pool", ({ weights }) => {
  weights.exportPointer();
});

mistake("export data as base64", ({ gpu, shared, weights }) => {
  const pool = gpu.importPool(shared.exportHandle());
  pool.importPointer(weights.exportPointer().toBase64(), 4096);
});

mistake("export data as an array", ({ gpu, shared, weights }) => {
  const pool = gpu.importPool(shared.exportHandle());
  pool.importPointer([...weights.exportPointer()], 4096);
});

mistake("export data cut short", ({ gpu, shared, weights }) => {
  gpu.importPool(shared.exportHandle()).importPointer(weights.exportPointer().subarray(0, 32), 4096);
});

mistake("export data of another pool", ({ gpu, shared }) => {
  const stream = gpu.createStream();
  const other = gpu.createPool({ handleType: "posix-fd" });
  const buffer = other.allocate(4096, stream);
  other.exportHandle();
  gpu.importPool(shared.exportHandle()).importPointer(buffer.exportPointer(), 4096);
});

mistake("an import of more than was exported", ({ gpu, shared, weights }) => {
  gpu.importPool(shared.exportHandle()).importPointer(weights.exportPointer(), 2 ** 24);
});

mistake("an import without a size", ({ gpu, shared, weights }) => {
  gpu.importPool(shared.exportHandle()).importPointer(weights.exportPointer());
});

mistake("an imported pool disposed before its buffers", ({ gpu, shared, weights }) => {
  const pool = gpu.importPool(shared.exportHandle());
  const mapped = pool.importPointer(weights.exportPointer(), 4096);
  mapped.fill(0);
  pool[Symbol.dispose]();
});

mistake("legacy memory opened where it was exported", ({ gpu }) => {
  gpu.openMemory(gpu.allocate(1024).exportHandle(), 1024);
});

mistake("legacy memory opened from zeros", ({ gpu }) => {
  gpu.openMemory(new Uint8Array(64), 1024);
});

mistake("a path that is too long", () => {
  UnixListener.listen(`/tmp/${"folder/".repeat(20)}pool.sock`);
});

mistake("a folder that does not exist", ({ path }) => {
  UnixListener.listen(`${path}/run/pool.sock`);
});

mistake("a file as the path", ({ path }) => {
  writeFileSync(path, "notes");
  UnixListener.listen(path);
});

mistake("a port as the path", () => {
  UnixListener.listen(8080);
});

mistake("an address as the path", async () => {
  await UnixSocket.connect("localhost:8080");
});

mistake("an object as the path, as for Deno.listen", ({ path }) => {
  UnixListener.listen({ path, transport: "unix" });
});

mistake("a path where another listener is", async ({ path }) => {
  await using first = UnixListener.listen(path);
  UnixListener.listen(first.path);
});

mistake("a mode as a string", ({ path }) => {
  UnixListener.listen(path, { mode: "0600" });
});

mistake("permissions instead of mode", async ({ path }) => {
  await using listener = UnixListener.listen(path, { permissions: 0o660 });
  listener.path;
});

mistake("a connection to nobody", async ({ path }) => {
  await UnixSocket.connect(path);
});

mistake("a connection where a process has ended", async ({ path, leaveSocket }) => {
  await leaveSocket(); // a socket file that nothing listens at
  await UnixSocket.connect(path);
});

mistake("a string sent", async ({ socketPair }) => {
  const [socket] = await socketPair();
  await socket.send("hello");
});

mistake("a pool sent for its handle", async ({ socketPair, shared }) => {
  const [socket] = await socketPair();
  await socket.send(new Uint8Array(1), { handles: [shared] });
});

mistake("a handle not in an array", async ({ socketPair, shared }) => {
  const [socket] = await socketPair();
  await socket.send(new Uint8Array(1), { handles: shared.exportHandle() });
});

mistake("handle instead of handles", async ({ socketPair, shared }) => {
  const [socket] = await socketPair();
  await socket.send(new Uint8Array(1), { handle: shared.exportHandle() });
});

mistake("a handle without a byte", async ({ socketPair, shared }) => {
  const [socket] = await socketPair();
  await socket.send(new Uint8Array(0), { handles: [shared.exportHandle()] });
});

mistake("receive without a length", async ({ socketPair }) => {
  const [socket] = await socketPair();
  await socket.receive();
});

mistake("more received than was sent", async ({ socketPair }) => {
  const [socket, other] = await socketPair();
  await other.send(new Uint8Array(3));
  await other[Symbol.asyncDispose]();
  await socket.receive(64);
});

mistake("a handle received that was not sent", async ({ socketPair }) => {
  const [socket, other] = await socketPair();
  await other.send(new Uint8Array(64));
  await socket.receive(64, { handles: 1 });
});

mistake("a handle sent that is not received", async ({ socketPair, shared }) => {
  const [socket, other] = await socketPair();
  await other.send(new Uint8Array(64), { handles: [shared.exportHandle()] });
  await socket.receive(64);
});

mistake("a socket that was disposed", async ({ socketPair }) => {
  const [socket] = await socketPair();
  await socket[Symbol.asyncDispose]();
  await socket.send(new Uint8Array(1));
});

mistake("using for a socket", async ({ socketPair }) => {
  const [opened] = await socketPair();
  using socket = opened;
  await socket.send(new Uint8Array(1));
});
