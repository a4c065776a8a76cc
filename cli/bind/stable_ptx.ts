/**
 * Makes PTX independent of the machine that compiles it, and loadable by old drivers.
 *
 * @module
 */
import { spawnSync } from "node:child_process";

/** Matches the header of PTX. The groups are the target architecture and the target's further options. */
const header = /^\.version [0-9.]+\n\.target (sm_[0-9]+[af]?)([^\n]*)\n/m;

/**
 * The headers to try for each target, starting with the one that the most drivers accept. PTX for sm_75 is usually also
 * valid for older devices, for which current compilers cannot generate PTX.
 */
const olderHeaders: Readonly<Record<string, readonly (readonly [version: string, target: string])[]>> = {
  sm_75: [["7.0", "sm_60"], ["7.0", "sm_75"]],
  sm_80: [["7.0", "sm_80"]],
  sm_86: [["7.1", "sm_86"]],
  sm_87: [["7.4", "sm_87"]],
  sm_89: [["7.8", "sm_89"]],
  sm_90: [["7.8", "sm_90"]],
  sm_90a: [["8.0", "sm_90a"]],
  sm_100: [["8.6", "sm_100"]],
  sm_100a: [["8.6", "sm_100a"]],
  sm_120: [["8.7", "sm_120"]],
  sm_120a: [["8.7", "sm_120a"]],
};

/**
 * Returns PTX without the parts that depend on the compiler's build and on the machine: the banner, and the folders of
 * the paths in `.file` directives.
 */
export function withoutBuild(ptx: string): string {
  const begin = ptx.search(/^\.version /m);
  return ptx.slice(Math.max(0, begin)).replaceAll(/^(\s*\.file\s+\d+\s+")[^"\n]*[/\\]/gm, "$1").trimEnd() + "\n";
}

/**
 * Returns the PTX with the lowest version and target in its header with which `ptxas` still accepts it, because a
 * driver rejects PTX of a newer version than it supports. Without `ptxas`, returns the PTX unchanged.
 */
export function forOldDrivers(ptx: string): string {
  const [, target = "", rest = ""] = header.exec(ptx) ?? [];
  for (const [version, older] of olderHeaders[target] ?? []) {
    const lowered = ptx.replace(header, `.version ${version}\n.target ${older}${rest}\n`);
    // Pass the PTX as "-", not as /dev/stdin: in Node, standard input is a socket, which cannot be opened by path.
    const { error, status } = spawnSync("ptxas", [`-arch=${target}`, "-o", "/dev/null", "-"], {
      input: lowered,
      stdio: ["pipe", "ignore", "ignore"],
    });
    if (error !== undefined) return ptx;
    if (status === 0) return lowered;
  }
  return ptx;
}
