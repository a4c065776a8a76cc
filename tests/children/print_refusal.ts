// Prints why FFI is not permitted, and the errors of functions that need it.
import { environmentVariable } from "../../ffi/native/environment.ts";
import { dlopen, ffiRefusal } from "../../ffi/native/host.ts";
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
