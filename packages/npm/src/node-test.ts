import { after, test } from "node:test";
import type { World } from "./chain.js";
import { Worlds, type WorldsOptions } from "./worlds.js";

/** The context of node:test. */
export type Context = Parameters<NonNullable<Parameters<typeof test>[0]>>[0];
/** Options of node:test. */
export interface TestOptions {
  concurrency?: number | boolean;
  only?: boolean;
  signal?: AbortSignal;
  skip?: boolean | string;
  todo?: boolean | string;
  timeout?: number;
}
/** A test of node:test that gets a world. */
export interface WorldTest {
  (name: string, fn: (world: World, t: Context) => unknown): Promise<void>;
  (name: string, options: TestOptions, fn: (world: World, t: Context) => unknown): Promise<void>;
}

/** Returns a `test` for a file: one sandbox for the file, a world for each test. */
export function worldTest(options: WorldsOptions = {}): WorldTest {
  const worlds = new Worlds(options);
  after(() => worlds.stop());
  return (name: string, ...rest: unknown[]) => {
    const fn = rest.pop() as (world: World, t: Context) => unknown;
    const body = (t: Context): Promise<void> => worlds.run(async (world) => void (await fn(world, t)));
    return test(name, (rest[0] ?? {}) as object, body as never) as unknown as Promise<void>;
  };
}
