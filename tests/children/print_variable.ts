// Prints an environment variable, with no permission except FFI.
import { environmentVariable } from "../../ffi/native/environment.ts";

console.log(environmentVariable("POOLPASS_TEST_VARIABLE"));
