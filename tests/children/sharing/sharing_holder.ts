import { addressOf, dlopen } from "../../../ffi/native/host.ts";
import { cString } from "../../../ffi/native/shim/shim.ts";

/**
 * Starts a process that inherits all descriptors of this one, does nothing with them, and outlives it. Returns its
 * process id.
 */
export function startHolder(): number {
  const libc = dlopen("libc.so.6", {
    dup: { parameters: ["i32" /* int fd */], result: "i32" },
    posix_spawn: {
      parameters: [
        "buffer", // pid_t *pid
        "buffer", // const char *path
        "u64", // const posix_spawn_file_actions_t *file_actions
        "u64", // const posix_spawnattr_t *attrp
        "buffer", // char *const argv[]
        "buffer", // char *const envp[]
      ],
      result: "i32",
    },
  }).symbols;
  // Duplicates have no close-on-exec flag, so the started program inherits them. `dup` fails harmlessly if a number is
  // not open.
  for (let fd = 3; fd < 100; fd++) libc.dup!(fd);
  const pid = new Int32Array(1);
  const args = ["sleep", "1000"].map(cString);
  const argv = new BigUint64Array([...args.map(addressOf), 0n]);
  const environment = new BigUint64Array(1);
  const pointers = [argv, environment].map((array) => new Uint8Array(array.buffer)) as [Uint8Array, Uint8Array];
  libc.posix_spawn!(new Uint8Array(pid.buffer), cString("/bin/sleep"), 0n, 0n, ...pointers);
  return pid[0]!;
}
