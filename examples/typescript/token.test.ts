import { readFileSync } from "node:fs";
import { type Account, type Chain, near } from "@troupe-chain/sandbox";
import { type WorldFixtures, worldFixtures } from "@troupe-chain/sandbox/vitest";
import { Near } from "near-kit";
import { expect, test as base } from "vitest";

const wasm = readFileSync(process.env.CONTRACT ?? "../../internal/testkit/contracts/c/ft.wasm"); // your contract
const token = "token.near";
let owner: Account, alice: Account;

/** A client of a chain that signs as an account. */
const as = (chain: Chain, account: Account) =>
  new Near({
    network: { rpcUrl: chain.url, networkId: chain.networkId },
    privateKey: account.secretKey as `ed25519:${string}`,
    defaultSignerId: account.accountId,
  });

// Each test gets a world: a chain that continues what setup left, and ends with the test.
const test = base.extend<WorldFixtures>(
  worldFixtures({
    setup: async (chain) => {
      owner = await chain.createAccount(token, { balance: near(100), code: wasm });
      alice = await chain.createAccount("alice.near", { balance: near(10) });
      const metadata = { spec: "ft-1.0.0", name: "Example", symbol: "EX", decimals: 0 };
      await as(chain, owner).call(token, "new", { owner_id: token, total_supply: "1000", metadata });
      await as(chain, alice).call(token, "storage_deposit", {}, { attachedDeposit: "1 NEAR" });
    },
  }),
);

const balance = async (world: Chain, id: string) => world.view<string>(token, "ft_balance_of", { account_id: id });

test("a transfer moves tokens", async ({ world }) => {
  await as(world, owner).call(token, "ft_transfer", { receiver_id: "alice.near", amount: "7" }, { attachedDeposit: "1 yocto" });
  expect(await balance(world, "alice.near")).toBe("7");
});

test("another test does not see that", async ({ world }) => {
  expect(await balance(world, "alice.near")).toBe("0");
});

test("a transfer of more than one has fails", async ({ world }) => {
  const sent = as(world, alice).call(token, "ft_transfer", { receiver_id: token, amount: "1" }, { attachedDeposit: "1 yocto" });
  await expect(sent).rejects.toThrow();
  expect(await balance(world, token)).toBe("1000");
});

test("the gas of a transfer, by host function", async ({ world }) => {
  const profile = await world.profile(() =>
    as(world, owner).call(token, "ft_transfer", { receiver_id: "alice.near", amount: "1" }, { attachedDeposit: "1 yocto" }),
  );
  expect(profile.transactions).toBe(1);
  expect(profile.host_functions.map((f) => f.name)).toContain("storage_write");
});
