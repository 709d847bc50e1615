"""Checked by mypy and pyright only: the types as a user sees them."""

from typing import List

from troupe_sandbox import Account, AsyncSandbox, RpcError, Sandbox, World, WorldEndedError, function_call
from troupe_sandbox.types import Trace, TransactionStatus


def use() -> str:
    with Sandbox.start(accounts=1) as sandbox:
        alice: Account = sandbox.create_account("alice.near", balance=1)
        world: World = sandbox.new_world()
        height: int = world.mine(2)["height"]
        status: TransactionStatus = world.transact(alice, "app.near", function_call("f", {}))
        trace: Trace = world.trace(status["transaction"]["hash"])
        names: List[str] = [call["method_name"] for outcome in trace["outcomes"] for call in outcome["calls"]]
        world.mine("2")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        world.subscribe("weather")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        try:
            world.end()
        except WorldEndedError as err:
            return str(err.lines)
        except RpcError as err:
            return err.name + str(height) + str(names)
        return world.url


async def use_async() -> int:
    async with await AsyncSandbox.start() as sandbox, await sandbox.new_world() as world:
        async for message in await world.subscribe("blocks"):
            cursor: int = message["cursor"]["height"]
            return cursor
        block = await world.mine()
        return block["height"]
