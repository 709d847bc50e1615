import { Sandbox } from "./sandbox.js";
import { urlVariable } from "./worlds.js";

const key = Symbol.for("@troupe-chain/sandbox/global");
const shared = globalThis as unknown as Record<symbol, Sandbox | undefined>;

/** Stops the sandbox of the global setup. */
export async function teardown(): Promise<void> {
  const sandbox = shared[key];
  shared[key] = undefined;
  delete process.env[urlVariable];
  await sandbox?.stop();
}

/**
 * A global setup of vitest and jest: starts one sandbox for all files and worlds, and passes its URL to the workers
 * in TROUPE_SANDBOX_URL.
 */
export default async function setup(): Promise<() => Promise<void>> {
  const sandbox = await Sandbox.start({ accounts: Number(process.env["TROUPE_SANDBOX_ACCOUNTS"] ?? 0) });
  shared[key] = sandbox;
  process.env[urlVariable] = sandbox.url;
  return teardown;
}
