// Leases the eighth unit of a pool's file until it is killed: software_lease_holder.ts PATH.
import process from "node:process";
import { openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { MappingLeases } from "../../../src/software/ipc/imported_pool.ts";
import { poolFileHeaderByteLength, SharedFile, unitByteLength } from "../../../src/software/memory/shared_file.ts";

const { file } = SharedFile.openPoolFile(openDescriptor(process.argv[2]!, { writable: true }))!;
const begin = poolFileHeaderByteLength + 7 * unitByteLength;
new MappingLeases(file).acquire({ begin, end: begin + 1 });
console.log("leased");
setInterval(() => {}, 1000);
