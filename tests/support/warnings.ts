/** Replaces `console.warn` until it is disposed. */
export function recordWarnings(): { readonly warnings: string[] } & Disposable {
  const warnings: string[] = [];
  const { warn } = console;
  console.warn = (message: string) => warnings.push(message);
  return {
    warnings,
    [Symbol.dispose]() {
      console.warn = warn;
    },
  };
}

/** Returns the warnings that `body` prints. */
export async function warningsOf(body: () => void | Promise<void>): Promise<string[]> {
  using recorded = recordWarnings();
  await body();
  return recorded.warnings;
}
