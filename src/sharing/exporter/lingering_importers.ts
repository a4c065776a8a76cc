/**
 * Ended connections whose processes live on: these may still have memory mapped. They are limited, so that a process
 * that connects again and again costs no more than one that does so a few times. The acceptor limits those of processes
 * that cannot be told apart.
 *
 * @module
 */
import type { ConnectedImporter } from "./connected_importer.ts";

/** The number of ended connections of one process that are kept separately. */
const maximumLingering = 16;

/** Merges the connections of a process that have ended, if there are many. The given one has just ended. */
export function absorbLingering(importers: Iterable<ConnectedImporter>, importer: ConnectedImporter): void {
  if (importer.process.hasEnded) return;
  const others = lingering(importers).filter((other) => other !== importer && other.process.isSameAs(importer.process));
  if (others.length >= maximumLingering) others[0]!.absorb(importer);
}

function lingering(importers: Iterable<ConnectedImporter>): ConnectedImporter[] {
  return [...importers].filter(({ isConnected, process }) => !isConnected && !process.hasEnded);
}
