// Prints an environment variable, as a process that may use FFI and nothing else.
import { environmentVariable } from "../../ffi/environment.ts";

console.log(environmentVariable("POOLPASS_TEST_VARIABLE"));
