"""py-near, unmodified."""

import asyncio
from typing import Any

from py_near.account import Account as PyNear  # type: ignore[import-untyped]

from troupe_sandbox import Account, World, near


def test_py_near(world: World, alice: Account) -> None:
    world.deal("token.near", "alice.near", 100)

    async def main() -> None:
        client: Any = PyNear(alice.account_id, alice.secret_key, world.url)
        await client.startup()
        try:
            result = await client.send_money("test.near", near(1))
            assert result.status == {"SuccessValue": ""}
            assert await client.get_balance() < near(10)
            await client.function_call("token.near", "ft_transfer", {"receiver_id": "token.near", "amount": "4"}, amount=1)
            view = await client.view_function("token.near", "ft_balance_of", {"account_id": "alice.near"})
            assert view.result == "96"
        finally:
            await client.shutdown()

    asyncio.run(main())
    assert world.balance("alice.near") < near(10)
