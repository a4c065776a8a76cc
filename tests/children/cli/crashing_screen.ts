/**
 * A program that fails while it has a terminal's screen: node tests/children/cli/crashing_screen.ts throw|reject. Its
 * output may be a pipe: the screen is drawn on descriptor 1 all the same.
 *
 * @module
 */
import process from "node:process";
import { Screen } from "../../../cli/top/screen.ts";

new Screen({ onInput() {}, onResize() {} });
setTimeout(() => {
  if (process.argv[2] === "throw") throw new Error("Wrong");
  void Promise.reject(new Error("Wrong"));
}, 100);
