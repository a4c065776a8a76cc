/**
 * Whether something happens for the first time in this process, with no permission other than the one for FFI.
 *
 * @module
 */
import { dlopen, ffiRefusal } from "./host.ts";
import { cString, stringAt } from "./shim/shim.ts";

const symbols = {
  bindtextdomain: {
    parameters: ["buffer", /* const char *domainname */ "buffer" /* const char *dirname */],
    result: "u64",
  },
} as const;

const marked = new Set<string>();
const mark = "/poolpass";

/**
 * Returns true in the first call with this name in the process, and false in all later ones. Workers share only the
 * state of libc, so the name is registered there as a message domain of gettext: this is thread-safe, needs no
 * descriptor, and is not inherited by child processes. If libc cannot be called, the first call in each Worker returns
 * true.
 */
export function isFirstInProcess(name: string): boolean {
  if (marked.has(name)) return false;
  marked.add(name);
  if (ffiRefusal() !== undefined) return true;
  try {
    const { bindtextdomain } = dlopen("libc.so.6", symbols).symbols;
    const domain = cString(`poolpass.${name}`);
    // For a domain that has no folder yet, this call returns the default folder of all domains.
    const found = bindtextdomain!(domain, null);
    if (found !== 0n && stringAt(found) === mark) return false;
    bindtextdomain!(domain, cString(mark));
  } catch {
    // There is no such library on other systems.
  }
  return true;
}
