// Prints why FFI may not be used, and what is thrown by whoever tries all the same.
import { environmentVariable } from "../../ffi/environment.ts";
import { dlopen, ffiRefusal } from "../../ffi/host.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";

console.log(ffiRefusal());
console.log(environmentVariable("HOME"));
const libc = () => dlopen("libc.so.6", { getpid: { parameters: [], result: "i32" } });
for (const call of [libc, () => UnixListener.listen("/tmp/never")]) {
  try {
    call();
  } catch (error) {
    console.log((error as Error).message);
  }
}
