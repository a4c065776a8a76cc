import { roles as deviceRoles } from "./device_peers.ts";
import { roles as memoryRoles } from "./memory_peers.ts";
import { roles as poolRoles } from "./pool_peers.ts";
import type { Role } from "./situation.ts";

/** The roles of second processes, by name. */
export const roles: Readonly<Record<string, Role>> = { ...poolRoles, ...deviceRoles, ...memoryRoles };
