"""The asynchronous half."""

import asyncio
from typing import Any, Coroutine

import pytest

from troupe_sandbox import (
    Account,
    AsyncSandbox,
    AsyncWorld,
    NodeEndedError,
    RequestTimeoutError,
    RpcError,
    StartFailedError,
    World,
    WorldEndedError,
    function_call,
    near,
    transfer,
)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 120))


def test_a_sandbox() -> None:
    async def main() -> None:
        async with await AsyncSandbox.start(accounts=3) as sandbox:
            a, b, c = sandbox.accounts
            await asyncio.gather(*(sandbox.transact(s, "test.near", transfer(near(1))) for s in (a, b, c)))
            assert await sandbox.balance("dev2.near") < near(9999)
            worlds = await asyncio.gather(*(sandbox.new_world() for _ in range(20)))
            await asyncio.gather(*(w.set_balance("dev0.near", i) for i, w in enumerate(worlds)))
            assert [await w.balance("dev0.near") for w in worlds] == list(range(20))
            await asyncio.gather(*(w.end() for w in worlds))
            with pytest.raises(WorldEndedError):
                await worlds[0].mine()
            async with await sandbox.new_world() as world:
                with pytest.raises(RpcError) as info:
                    await world.account("missing.near")
                assert info.value.name == "UNKNOWN_ACCOUNT"
                async with world.profiled() as profile:
                    await world.transact(a, "dev1.near", transfer(1))
                assert profile["transactions"] == 1
        with pytest.raises(NodeEndedError, match="exit code 0"):
            await sandbox.mine()
        with pytest.raises(StartFailedError, match="--shards is 0"):
            await AsyncSandbox.start(shards=0)

    run(main())


def test_a_start_that_is_cancelled_leaves_no_node() -> None:
    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(AsyncSandbox.start(), 0.001)

    run(main())


def test_events(async_world: AsyncWorld, world: World, alice: Account) -> None:
    async def main() -> None:
        await async_world.deal("token.near", "alice.near", 10)
        call = function_call("ft_transfer", {"receiver_id": "token.near", "amount": "1"}, deposit=1)
        async with await async_world.subscribe("events", account_id="token.near", finality="optimistic") as events:
            await async_world.transact(alice, "token.near", call)
            async for message in events:
                assert message["event"]["event"] == "ft_transfer"
                break
            with pytest.raises(RequestTimeoutError):
                await events.receive(timeout=0.05)

    run(main())
    assert world.view("token.near", "ft_balance_of", {"account_id": "alice.near"}) == "9"


def test_one_object_in_two_event_loops(async_world: AsyncWorld) -> None:
    async def main() -> None:
        await asyncio.gather(*(async_world.balance("dev0.near") for _ in range(100)))

    run(main())
    run(main())
