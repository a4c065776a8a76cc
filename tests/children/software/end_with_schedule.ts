/**
 * Opens software devices with a random schedule and ends. The argument says how: by itself (`end`), with exit code 3
 * (`exit`), by an error (`throw`, or `reject` in a promise), or not at all (`hang`).
 *
 * @module
 */
import process from "node:process";
import { open } from "../../../mod.ts";

const how = process.argv[2];
for (let count = 0; count < 3; count++) open({ driver: "software", softwareSchedule: "random" })[Symbol.dispose]();
console.log("opened");
if (how === "exit") process.exit(3);
if (how === "throw") throw new Error("the program's own");
if (how === "reject") void Promise.reject(new Error("the program's own"));
if (how === "hang") setInterval(() => {}, 1000);
