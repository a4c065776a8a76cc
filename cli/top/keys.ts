import type { SortKey, ViewState } from "./view.ts";

/** The action of a key: quits the program, suspends it, or computes the changed settings. */
export type Action = "quit" | "suspend" | ((state: ViewState, pageLength: number) => ViewState);

const sortKeys: Readonly<Record<string, SortKey>> = { b: "bytes", f: "frames", d: "dropped", l: "lag", n: "name" };

/** Returns the actions of the keys in terminal input. Keys without an action are ignored. */
export function actionsOf(input: string): Action[] {
  // Each match is the input of one key: an escape sequence or a single character.
  // deno-lint-ignore no-control-regex
  const keys = input.match(/\x1b\[[\d;]*[A-Za-z~]|\x1bO[A-Z]|[^]/g) ?? [];
  return keys.map(actionOf).filter((action) => action !== undefined);
}

function actionOf(key: string): Action | undefined {
  const sort = sortKeys[key];
  if (sort !== undefined) return (state) => ({ ...state, sort, scroll: 0 });
  switch (key) {
    case "q":
    case "Q":
    case "\x03":
    case "\x04":
      return "quit";
    case "\x1a":
      return "suspend";
    case "r":
      return (state) => ({ ...state, isReversed: !state.isReversed });
    case "h":
      return (state) => ({ ...state, hasHolders: !state.hasHolders });
    case "\x1b[A":
    case "\x1bOA":
    case "k":
      return (state) => scrolled(state, -1);
    case "\x1b[B":
    case "\x1bOB":
    case "j":
      return (state) => scrolled(state, 1);
    case "\x1b[5~":
      return (state, pageLength) => scrolled(state, -pageLength);
    case "\x1b[6~":
    case " ":
      return (state, pageLength) => scrolled(state, pageLength);
    case "\x1b[H":
    case "\x1b[1~":
    case "\x1bOH":
    case "g":
      return (state) => ({ ...state, scroll: 0 });
    case "\x1b[F":
    case "\x1b[4~":
    case "\x1bOF":
    case "G":
      return (state) => ({ ...state, scroll: Number.MAX_SAFE_INTEGER });
  }
  return undefined;
}

function scrolled(state: ViewState, lines: number): ViewState {
  return { ...state, scroll: Math.max(0, state.scroll + lines) };
}
