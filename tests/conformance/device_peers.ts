import { driverRole } from "./remote_driver.ts";
import type { Role } from "./situation.ts";

/** What second processes do for rows about devices, by name. */
export const roles: Readonly<Record<string, Role>> = { driver: driverRole };
