/**
 * Opens the software device twice with the compile cache of the first argument, if there is one, and prints the error.
 *
 * @module
 */
import process from "node:process";
import { open } from "../../../mod.ts";

const [compileCache] = process.argv.slice(2);
for (let time = 0; time < 2; time++) {
  try {
    using cuda = open({ driver: "software", ...compileCache === undefined ? {} : { compileCache } });
    console.log(cuda.driver);
  } catch (error) {
    console.log((error as Error).message);
  }
}
