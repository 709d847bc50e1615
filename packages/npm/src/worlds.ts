import type { Chain, World } from "./chain.js";
import { Sandbox, type StartOptions } from "./sandbox.js";

/** The variable with the URL of a sandbox that a global setup has started. */
export const urlVariable = "TROUPE_SANDBOX_URL";

export interface WorldsOptions extends StartOptions {
  /**
   * Runs once before the first test, on a world of its own: deploy contracts and make accounts. The world of each test
   * continues from what it leaves.
   */
  setup?: (chain: Chain) => Promise<void>;
}

/** Worlds for tests: one sandbox, started at the first use, and a world for each run. */
export class Worlds {
  private readonly options: WorldsOptions;
  private starting: Promise<{ sandbox: Sandbox; base: Chain }> | undefined;

  constructor(options: WorldsOptions = {}) {
    this.options = options;
  }

  private start(): Promise<{ sandbox: Sandbox; base: Chain }> {
    this.starting ??= (async () => {
      const url = process.env[urlVariable];
      const { accounts = 0, setup } = this.options;
      const sandbox = url ? await Sandbox.connect(url, { accounts }) : await Sandbox.start(this.options);
      let base: Chain = sandbox;
      if (setup) {
        try {
          base = await sandbox.newWorld();
          await setup(base);
        } catch (err) {
          await sandbox.stop();
          throw err;
        }
      }
      return { sandbox, base };
    })();
    return this.starting;
  }

  /** The sandbox: that of the global setup, or else one of this object. */
  async sandbox(): Promise<Sandbox> {
    return (await this.start()).sandbox;
  }

  /** Makes a world. The caller ends it. */
  async make(): Promise<World> {
    return (await this.start()).base.newWorld();
  }

  /** Runs a function on a new world, which ends afterwards. */
  async run<R>(fn: (world: World) => R | Promise<R>): Promise<R> {
    const world = await this.make();
    try {
      return await fn(world);
    } finally {
      await world.end();
    }
  }

  /** Stops the sandbox if it was started here, else ends the world of `setup`. Does nothing if none was used. */
  async stop(): Promise<void> {
    const starting = this.starting;
    this.starting = undefined;
    const started = await starting?.catch(() => undefined);
    if (!started) return;
    if (started.sandbox.pid === undefined && started.base !== started.sandbox) await (started.base as World).end();
    await started.sandbox.stop();
  }
}
