/**
 * Times programs that start a new process for each sample.
 *
 * @module
 */
import type { Program } from "../harness/contender.ts";
import type { Answer } from "../sharing/contract.ts";

/** Times a process from its start until it has printed its first line. */
export async function timeStart({ name, command, args, env = {} }: Program): Promise<Answer> {
  const start = performance.now();
  const child = new Deno.Command(command, { args: [...args], env, stdin: "null", stdout: "piped", stderr: "piped" })
    .spawn();
  const reader = child.stdout.getReader();
  const { done } = await reader.read();
  const elapsed = performance.now() - start;
  reader.releaseLock();
  const [errors, { code }] = await Promise.all([
    new Response(child.stderr).text(),
    child.status,
    child.stdout.cancel(),
  ]);
  if (done || code !== 0) return { error: errors.trim().split("\n").at(-1) || `${name} ended with exit code ${code}` };
  return { nanoseconds: [elapsed * 1e6] };
}
