import { driverRole } from "./remote_driver.ts";
import type { Role } from "./situation.ts";

/** The roles of second processes in rows about devices, by name. */
export const roles: Readonly<Record<string, Role>> = { driver: driverRole };
