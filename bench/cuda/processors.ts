/**
 * Pins programs to processors.
 *
 * @module
 */

/** Returns the processors that this process may run on, or none if the system does not report them. */
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
 * Pins the main thread of a process, which makes its calls, to a processor. The system places its other threads.
 * Returns false if there is no `taskset`.
 */
export async function pinTo(processor: number, pid: number): Promise<boolean> {
  try {
    const args = ["--pid", "--cpu-list", String(processor), String(pid)];
    return (await new Deno.Command("taskset", { args, stdout: "null", stderr: "null" }).output()).success;
  } catch {
    return false;
  }
}
