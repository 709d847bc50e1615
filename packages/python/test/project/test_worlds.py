"""50 tests with a world each."""

import pytest

from troupe_sandbox import Account, World, function_call, return_value


@pytest.mark.parametrize("i", range(50))
def test_world(i: int, world: World, alice: Account) -> None:
    assert world.view("token.near", "ft_balance_of", {"account_id": "alice.near"}) == "0"
    world.deal("token.near", "alice.near", 100)
    call = function_call("ft_transfer", {"receiver_id": "token.near", "amount": str(i + 1)}, deposit=1)
    assert return_value(world.transact(alice, "token.near", call)) is None
    assert world.view("token.near", "ft_balance_of", {"account_id": "alice.near"}) == str(99 - i)
