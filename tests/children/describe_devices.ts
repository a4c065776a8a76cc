// Opens the driver that the environment selects, and prints its devices or the error.
import { open } from "../../mod.ts";

try {
  using cuda = open();
  const [first, second] = cuda.devices;
  console.log(JSON.stringify({
    driver: cuda.driver,
    uuids: cuda.devices.map(({ uuid }) => uuid),
    arePeers: first !== undefined && second !== undefined && first.canAccessPeer(second),
  }));
} catch (error) {
  console.log(JSON.stringify({ error: (error as Error).message }));
}
