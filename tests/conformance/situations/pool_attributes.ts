/**
 * Rows that read and set attributes of a pool, with valid and invalid values.
 *
 * @module
 */
import { defaultStream } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import {
  allocate,
  type AttributeName,
  attributeOf,
  attributesOf,
  createPool,
  free,
  infinite,
  mebibyte,
  setAttribute,
} from "../pools.ts";
import type { Situation } from "../situation.ts";

const unknownAttributes = [-1, 0, 9, 99] as const;
const policies = [
  "reuseFollowEventDependencies",
  "reuseAllowOpportunistic",
  "reuseAllowInternalDependencies",
] as const satisfies readonly AttributeName[];
const currentSizes = ["reservedMemCurrent", "usedMemCurrent"] as const satisfies readonly AttributeName[];
const highWatermarks = ["reservedMemHigh", "usedMemHigh"] as const satisfies readonly AttributeName[];

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "attributes asked for that there are not",
    run({ driver }) {
      const pool = createPool(driver);
      return attemptEach(Object.fromEntries(unknownAttributes.map((attribute) => [
        `attribute ${attribute}`,
        () => String(driver.memPoolGetAttribute(pool, attribute)),
      ])));
    },
  },
  {
    name: "attributes set that there are not",
    run({ driver }) {
      const pool = createPool(driver);
      return attemptEach(Object.fromEntries(unknownAttributes.map((attribute) => [
        `attribute ${attribute}`,
        () => driver.memPoolSetAttribute(pool, attribute, 0n),
      ])));
    },
  },
  ...policies.map((name): Situation => ({
    name: `${name} set to 0, 1, 2 and -1`,
    run({ driver }) {
      const pool = createPool(driver);
      const setAndGet = (value: bigint) => () => {
        setAttribute(driver, pool, name, value);
        return attributeOf(driver, pool, name);
      };
      return attemptEach({
        "0": setAndGet(0n),
        "1": setAndGet(1n),
        "2": setAndGet(2n),
        "-1": setAndGet(0xffff_ffffn),
      });
    },
  })),
  {
    name: "one reuse policy switched off leaves the others on",
    run({ driver }) {
      const pool = createPool(driver);
      setAttribute(driver, pool, "reuseAllowOpportunistic", 0n);
      return attributesOf(driver, pool);
    },
  },
  {
    name: "the release threshold set to 0, 1, 2 ** 40 and all there is",
    run({ driver }) {
      const pool = createPool(driver);
      const setAndGet = (value: bigint) => () => {
        setAttribute(driver, pool, "releaseThreshold", value);
        return attributeOf(driver, pool, "releaseThreshold");
      };
      return attemptEach({
        "0": setAndGet(0n),
        "1": setAndGet(1n),
        "2 ** 40": setAndGet(2n ** 40n),
        "all": setAndGet(infinite),
      });
    },
  },
  ...currentSizes.map((name): Situation => ({
    name: `${name} set`,
    run({ driver }) {
      const pool = createPool(driver);
      return attemptEach({
        "to 0": () => setAttribute(driver, pool, name, 0n),
        "to 1": () => setAttribute(driver, pool, name, 1n),
      });
    },
  })),
  ...highWatermarks.map((name): Situation => ({
    name: `${name} set to other than 0`,
    run({ driver }) {
      const pool = createPool(driver);
      allocate(driver, pool, 64 * mebibyte);
      return attemptEach({
        "to 1": () => setAttribute(driver, pool, name, 1n),
        "to all there is": () => setAttribute(driver, pool, name, infinite),
      });
    },
  })),
  {
    name: "the two highs reset after memory was given back",
    run({ driver }) {
      const pool = createPool(driver);
      const kept = allocate(driver, pool, 2 * mebibyte);
      free(driver, allocate(driver, pool, 64 * mebibyte));
      driver.streamSynchronize(0, defaultStream);
      const before = attributesOf(driver, pool);
      for (const name of highWatermarks) setAttribute(driver, pool, name, 0n);
      const after = attributesOf(driver, pool);
      free(driver, kept);
      return { before, after };
    },
  },
];
