import asyncio
import os
from pathlib import Path

import pytest
from py_near.account import Account as Client
from troupe_sandbox import Account, AsyncWorld, Sandbox, TransactionFailedError, World, function_call, near

WASM = Path(os.environ.get("CONTRACT") or "../../internal/testkit/contracts/c/ft.wasm")  # your contract
TOKEN = "token.near"


# Fixtures of the session change the chain of the sandbox. Each test gets a world: a chain that continues it, and ends
# with the test.
@pytest.fixture(scope="session")
def owner(sandbox: Sandbox) -> Account:
    owner = sandbox.create_account(TOKEN, balance=near(100), code=WASM.read_bytes())
    metadata = {"spec": "ft-1.0.0", "name": "Example", "symbol": "EX", "decimals": 0}
    args = {"owner_id": TOKEN, "total_supply": "1000", "metadata": metadata}
    sandbox.transact(owner, TOKEN, function_call("new", args))
    return owner


@pytest.fixture(scope="session")
def alice(sandbox: Sandbox, owner: Account) -> Account:
    alice = sandbox.create_account("alice.near", balance=near(10))
    sandbox.transact(alice, TOKEN, function_call("storage_deposit", deposit=near(1)))
    return alice


def balance(world: World, account_id: str) -> str:
    return world.view(TOKEN, "ft_balance_of", {"account_id": account_id})


def test_a_transfer_moves_tokens(world: World, owner: Account, alice: Account) -> None:
    args = {"receiver_id": "alice.near", "amount": "7"}
    world.transact(owner, TOKEN, function_call("ft_transfer", args, deposit=1))
    assert balance(world, "alice.near") == "7"


def test_another_test_does_not_see_that(world: World, alice: Account) -> None:
    assert balance(world, "alice.near") == "0"


def test_a_transfer_of_more_than_one_has_fails(world: World, alice: Account) -> None:
    args = {"receiver_id": TOKEN, "amount": "1"}
    with pytest.raises(TransactionFailedError):
        world.transact(alice, TOKEN, function_call("ft_transfer", args, deposit=1))
    assert balance(world, TOKEN) == "1000"


def test_the_gas_of_a_transfer_by_host_function(world: World, owner: Account, alice: Account) -> None:
    args = {"receiver_id": "alice.near", "amount": "1"}
    with world.profiled() as profile:
        world.transact(owner, TOKEN, function_call("ft_transfer", args, deposit=1))
    assert profile["transactions"] == 1
    assert "storage_write" in [f["name"] for f in profile["host_functions"]]


def test_a_transfer_of_py_near(async_world: AsyncWorld, owner: Account, alice: Account) -> None:
    async def main() -> None:
        client = Client(owner.account_id, owner.secret_key, async_world.url)
        await client.startup()
        try:
            args = {"receiver_id": "alice.near", "amount": "7"}
            await client.function_call(TOKEN, "ft_transfer", args, amount=1)
            seen = await client.view_function(TOKEN, "ft_balance_of", {"account_id": "alice.near"})
            assert seen.result == "7"
        finally:
            await client.shutdown()

    asyncio.run(main())
