/**
 * How the packages are published. `.github/workflows/publish.yml` runs these commands, each in the folder of its
 * package, and `deno task package:try` runs them with `--dry-run`.
 *
 * @module
 */

/** The command that publishes each package, in the folder in which the package was built. */
export const publishCommands = {
  jsr: ["deno", "publish"],
  npm: ["npm", "publish", "--provenance", "--access", "public"],
} as const;
