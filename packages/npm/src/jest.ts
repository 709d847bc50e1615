import type { World } from "./chain.js";
import { Worlds, type WorldsOptions } from "./worlds.js";

type Test = (name: string, fn: () => Promise<void>, timeout?: number) => void;
interface JestGlobals {
  test: Test & { only: Test; skip: Test };
  afterAll: (fn: () => Promise<void>) => void;
}
type Define = (name: string, fn: (world: World) => unknown, timeout?: number) => void;

/** A test of jest that gets a world. */
export type WorldTest = Define & { only: Define; skip: Define };

/**
 * Returns a `test` for a file: one sandbox for the file, or that of the global setup, and a world for each test.
 * With `injectGlobals: false`, pass `test` and `afterAll` of @jest/globals.
 */
export function worldTest(options: WorldsOptions = {}, globals = globalThis as unknown as JestGlobals): WorldTest {
  const worlds = new Worlds(options);
  globals.afterAll(() => worlds.stop());
  const define = (test: Test): Define => (name, fn, timeout) =>
    test(name, () => worlds.run(async (world) => void (await fn(world))), timeout);
  const { test } = globals;
  return Object.assign(define(test), { only: define(test.only), skip: define(test.skip) });
}
