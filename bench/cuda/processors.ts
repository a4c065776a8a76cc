/**
 * Which processor a program runs on.
 *
 * @module
 */

/** Those that this process may run on; none where the system does not say. */
export function allowedProcessors(): readonly number[] {
  let status: string;
  try {
    status = Deno.readTextFileSync("/proc/self/status");
  } catch {
    return [];
  }
  const [, list = ""] = status.match(/^Cpus_allowed_list:\s*(\S+)$/m) ?? [];
  return list.split(",").filter(Boolean).flatMap((range) => {
    const [first, last = first] = range.split("-").map(Number) as [number, number?];
    return Array.from({ length: last! - first + 1 }, (_, index) => first + index);
  });
}

/**
 * Has a process's first thread, on which it makes its calls, run on a processor: its other threads go where the system
 * puts them. False where there is no `taskset`.
 */
export async function pinTo(processor: number, pid: number): Promise<boolean> {
  try {
    const args = ["--pid", "--cpu-list", String(processor), String(pid)];
    return (await new Deno.Command("taskset", { args, stdout: "null", stderr: "null" }).output()).success;
  } catch {
    return false;
  }
}
