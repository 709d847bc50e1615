// Compiled only: the types as a user sees them, as a module and (copied to .cts) from CommonJS.
import { RpcError, Sandbox, SandboxError, type Account, type Trace, type World } from "@troupe-chain/sandbox";
import { worldTest as jestTest } from "@troupe-chain/sandbox/jest";
import { worldTest } from "@troupe-chain/sandbox/node-test";
import { worldFixtures } from "@troupe-chain/sandbox/vitest";

export async function use(): Promise<void> {
  const sandbox: Sandbox = await Sandbox.start({ port: 0 });
  const alice: Account = await sandbox.createAccount("alice.near", { balance: 1n });
  const world: World = await sandbox.newWorld();
  const height: number = (await world.call("sandbox_mine", { blocks: 2 })).height;
  const trace: Trace = await world.trace({ tx_hash: alice.secretKey });
  const own = await world.call<{ gas_price: string }>("gas_price", [null]);
  const price: string = own.gas_price;
  // @ts-expect-error blocks is a number
  await world.call("sandbox_mine", { blocks: "2" });
  // @ts-expect-error there is no such topic
  await world.subscribe({ topic: "weather" });
  try {
    await world.end();
  } catch (err) {
    if (err instanceof SandboxError && err.kind === "WorldEnded") return;
    // @ts-expect-error no such kind
    if (err instanceof SandboxError && err.kind === "Other") return;
    if (err instanceof RpcError) throw new Error(err.cause.name + height + price + trace.gas_burnt);
  }
}
const test = worldTest({ setup: async (chain) => void (await chain.createAccount("a.near")) });
void test("name", { timeout: 1 }, async (world, t) => void (await world.mine(), t.name));
jestTest({})("name", async (world) => void (await world.mine()));
worldFixtures({}).world satisfies (context: object, use: (world: World) => Promise<void>) => Promise<void>;
