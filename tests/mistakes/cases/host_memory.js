import { open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Host memory", import.meta.url);

mistake("a size as text", ({ cuda }) => {
  cuda.allocateHost("4k");
});

mistake("an element of page-locked memory", ({ host }) => {
  host[0] = 1;
});

mistake("a typed array over the object itself", ({ host }) => {
  const values = new Float32Array(host);
  console.log(values.length);
});

mistake("the buffer of memory that was disposed", ({ host }) => {
  host[Symbol.dispose]();
  host.buffer;
});

mistake("the buffer transferred away", () => {
  const cuda = open();
  const host = cuda.allocateHost(64);
  structuredClone(host.buffer, { transfer: [host.buffer] });
  cuda[Symbol.dispose]();
});

mistake("more page-locked memory copied than there is room", ({ host, x }) => {
  x.subarray(0, 4).copyFrom(host);
});

mistake("a host view of device memory", ({ buffer }) => {
  buffer.hostView();
});
