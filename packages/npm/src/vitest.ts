import type { World } from "./chain.js";
import { Worlds, type WorldsOptions } from "./worlds.js";

/** What a test gets: `test("...", async ({ world }) => { ... })`. */
export interface WorldFixtures {
  world: World;
}

/**
 * Returns the fixtures for vitest's `test.extend<WorldFixtures>(worldFixtures())`: a world for each test that asks for
 * it. The sandbox starts at the first and ends with the worker; with a global setup, all files share one.
 */
export function worldFixtures(options: WorldsOptions = {}): {
  world: (context: object, use: (world: World) => Promise<void>) => Promise<void>;
} {
  const worlds = new Worlds(options);
  return {
    // vitest reads the names of the fixtures that this one needs from its first parameter: none
    // eslint-disable-next-line no-empty-pattern
    world: async ({}: object, use: (world: World) => Promise<void>) => {
      await worlds.run(use);
    },
  };
}
