/**
 * Makes an error's stack start at the caller of a function, which must be on the stack now. Uncaught errors are printed
 * with the line of the source at which their stack starts. Takes microseconds: only where something has failed.
 */
export function startStackAbove<E extends Error>(error: E, called: (...args: never) => unknown): E {
  // All three runtimes have it, but the standard library's types do not declare it.
  const { captureStackTrace } = Error as unknown as { captureStackTrace(error: Error, called: unknown): void };
  captureStackTrace(error, called);
  return error;
}
