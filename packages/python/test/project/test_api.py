"""Every part of the synchronous API."""

import base64
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any, Callable, Iterator

import pytest

from troupe_sandbox import (
    Account,
    RequestTimeoutError,
    RpcError,
    Sandbox,
    TransactionFailedError,
    World,
    WorldEndedError,
    base58,
    deploy_contract,
    from_base58,
    function_call,
    key_pair_from_secret,
    key_pair_from_seed,
    near,
    random_key_pair,
    return_value,
    sign_transaction,
    transfer,
)


@contextmanager
def refused(name: str, text: str = "") -> Iterator[None]:
    with pytest.raises(RpcError, match=text or None) as info:
        yield
    assert name in ("", info.value.name), info.value


def test_amounts() -> None:
    assert near("1.5") == near(Decimal("1.5")) == 15 * 10**23
    assert near(1_000) == near("1_000") == 10**27
    for wrong in ("", "-1", "1e3", "1.2.3", "0." + "0" * 24 + "1", "\u0661"):
        with pytest.raises(ValueError, match="no amount of NEAR"):
            near(wrong)


def test_keys() -> None:
    # the key that nearcore derives from "near"
    assert key_pair_from_seed("near").public_key == "ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c"
    pair = random_key_pair()
    assert key_pair_from_secret(pair.secret_key) == pair
    assert key_pair_from_secret("ed25519:" + base58(from_base58(pair.secret_key[8:])[:32])) == pair
    assert pair.secret_key not in repr(pair) and pair.public_key in repr(pair)
    for data in (b"", b"\0\0", b"\0a", bytes(range(40))):
        assert from_base58(base58(data)) == data
    for wrong in ("ed25519:0OIl", "ed25519:abc", "secp256k1:abc", ""):
        with pytest.raises(ValueError):
            key_pair_from_secret(wrong)


def test_accounts(world: World, sandbox: Sandbox) -> None:
    dev0, dev1 = sandbox.accounts
    assert world.balance("dev1.near") == near(50)
    status = world.transact(dev0, "dev1.near", transfer(near("0.5")))
    assert status["status"] == {"SuccessValue": ""}
    assert world.balance("dev1.near") == near("50.5")
    assert sandbox.balance("dev1.near") == near(50)
    world.transact(sandbox.root, "dev1.near", transfer(1))
    given = world.create_account("given.near", secret_key=key_pair_from_seed("given").secret_key)
    assert given.public_key == key_pair_from_seed("given").public_key
    assert world.account("given.near")["amount"] == str(near(100))


def test_patches(world: World) -> None:
    alice = world.create_account("alice.near")
    world.set_balance("alice.near", near(77))
    assert world.balance("alice.near") == near(77)
    second = key_pair_from_seed("second")
    world.set_key("alice.near", second.public_key, 5)
    world.transact(Account("alice.near", second.secret_key, second.public_key), "test.near", transfer(1))
    world.remove_key("alice.near", second.public_key)
    with refused("UNKNOWN_ACCESS_KEY"):
        world.transact(Account("alice.near", second.secret_key, second.public_key), "test.near", transfer(1))
    world.set_storage("alice.near", "key", b"value")

    def state() -> Any:
        params = {"request_type": "view_state", "finality": "optimistic", "account_id": "alice.near", "prefix_base64": ""}
        return world.call("query", params)["values"]

    assert state() == [{"key": "a2V5", "value": "dmFsdWU="}]
    world.patch_state([{"Data": {"account_id": "alice.near", "data_key": "a2V5", "value": None}}])
    assert state() == []
    with refused("CANNOT_PATCH", "missing.near"):
        world.patch_state([{"Data": {"account_id": "missing.near", "data_key": "a2V5", "value": ""}}])
    dump = world.dump_state(["alice.near"])
    world.set_balance("alice.near", 1)
    world.load_state(dump)
    assert world.balance("alice.near") > near(70)
    again = world.create_account("alice.near", balance=5)
    assert again.public_key != alice.public_key
    assert world.account("alice.near")["amount"] == "5"
    with refused("UNKNOWN_ACCESS_KEY"):
        world.transact(alice, "test.near", transfer(1))


def test_contract(world: World, alice: Account, token: Account, wasm: bytes) -> None:
    world.deal("token.near", "alice.near", 1234)
    assert world.view("token.near", "ft_balance_of", {"account_id": "alice.near"}) == "1234"
    with refused("CONTRACT_EXECUTION_ERROR", "MethodNotFound"):
        world.view("token.near", "no_such_method")
    call = function_call("ft_transfer", {"receiver_id": "token.near", "amount": "4"}, deposit=1)
    assert return_value(world.transact(alice, "token.near", call)) is None
    assert world.view("token.near", "ft_balance_of", {"account_id": "alice.near"}) == "1230"
    failing = function_call("ft_transfer", {"receiver_id": "token.near", "amount": "99999"}, deposit=1)
    with pytest.raises(TransactionFailedError, match="FunctionCallError") as failed:
        world.transact(alice, "token.near", failing)
    assert "Failure" in failed.value.status["status"]
    status = world.transact(alice, "token.near", failing, check=False)
    with pytest.raises(TransactionFailedError):
        return_value(status)
    copy = world.create_account("copy.near")
    world.transact(copy, "copy.near", deploy_contract(wasm))
    assert world.account("copy.near")["code_hash"] == world.account("token.near")["code_hash"]
    world.set_code("copy.near", None)
    assert world.account("copy.near")["code_hash"] == "1" * 32


def signed(world: World, account: Account, receiver: str, *actions: Any) -> bytes:
    key = world.call("EXPERIMENTAL_view_access_key", {"finality": "optimistic", "account_id": account.account_id, "public_key": account.public_key})
    head = world.call("block", {"finality": "optimistic"})["header"]["hash"]
    return sign_transaction(account, receiver, *actions, nonce=key["nonce"] + 1, block_hash=head)


def test_trace_simulate_profile_dump_replay(world: World, alice: Account, sandbox: Sandbox) -> None:
    world.deal("token.near", "alice.near", 10)
    tx = signed(world, alice, "token.near", function_call("ft_transfer", {"receiver_id": "token.near", "amount": "4"}, deposit=1))
    simulated = world.simulate(tx)
    assert simulated["simulation"]["complete"] and simulated["status"] == {"SuccessValue": ""}
    assert world.trace(signed=tx)["simulated"]
    assert world.view("token.near", "ft_balance_of", {"account_id": "alice.near"}) == "10"
    with world.profiled() as profile:
        tx_hash = world.send(base64.b64encode(tx).decode(), "FINAL")["transaction"]["hash"]
    assert profile["transactions"] == 1
    assert any(f["account_id"] == "token.near" and f["gas"] > 0 for f in profile["functions"])
    assert world.tags() == []
    trace = world.trace(tx_hash, profile=True)
    calls = [c for o in trace["outcomes"] for c in o["calls"]]
    assert any(c["method_name"] == "ft_transfer" and any(h["name"] == "storage_write" for h in c["host_calls"]) for c in calls)
    assert trace["profile"] and not trace["simulated"]
    with pytest.raises(TypeError):
        world.trace()
    dump = world.dump_transaction(tx_hash)
    with sandbox.new_world() as other:
        replay = other.replay(dump, replace=True)
        assert replay["same"], replay
    tag = world.tag("mine", [tx_hash])
    assert world.profile("mine")["transactions"] == 1, tag
    world.drop_tag("mine")


def test_impersonation(world: World, alice: Account) -> None:
    with refused("INVALID_TRANSACTION", "InvalidSignature"):
        world.transact("alice.near", "test.near", transfer(1))
    world.impersonate(["alice.near"])
    assert world.transact("alice.near", "test.near", transfer(1))["status"] == {"SuccessValue": ""}
    world.impersonate([])
    with refused("INVALID_TRANSACTION"):
        world.transact("alice.near", "test.near", transfer(1))
    world.impersonate("all")
    world.transact("alice.near", "test.near", transfer(1))
    world.set_balance("keyless.near", near(1))
    with pytest.raises(ValueError, match="keyless.near has no ed25519 key"):
        world.transact("keyless.near", "test.near", transfer(1))


def test_blocks_snapshots_clock_epochs(world: World) -> None:
    snapshot = world.snapshot("ready")
    assert world.mine(3)["height"] == snapshot["height"] + 3
    world.set_balance("dev0.near", 5)
    assert world.revert(snapshot)["height"] == snapshot["height"]
    assert world.balance("dev0.near") == near(50)
    assert [s["id"] for s in world.snapshots()] == ["ready"]
    world.drop_snapshot("ready")
    with refused("SANDBOX_REFUSED", 'no snapshot "ready"'):
        world.revert("ready")
    before = int(world.clock()["timestamp_nanosec"])
    after = int(world.advance_time(timedelta(days=1))["timestamp_nanosec"])
    assert after - before >= 86_400 * 10**9
    assert int(world.advance_time(1.5)["timestamp_nanosec"]) - after >= 1_500_000_000
    assert world.clock(frozen=True)["frozen"]
    world.fast_forward(1000)
    height = world.call("block", {"finality": "optimistic"})["header"]["height"]
    assert height >= snapshot["height"] + 1000
    assert world.next_epoch()["height"] > height
    assert world.production(mode="manual")["mode"] == "manual"


def test_manual_blocks(world: World, sandbox: Sandbox) -> None:
    world.production(mode="manual")
    world.transact(sandbox.accounts[0], "dev1.near", transfer(1), wait_until="NONE")
    assert world.balance("dev1.near") == near(50)
    world.mine(3)
    assert world.balance("dev1.near") == near(50) + 1


def test_worlds(sandbox: Sandbox) -> None:
    snapshot = sandbox.snapshot()
    a = sandbox.new_world(snapshot=snapshot)
    b = a.new_world(quiet=False, port=True)
    assert b.info["parent"] == a.id and b.info["addr"] and a.info["addr"] is None
    a.set_balance("dev0.near", near(1))
    assert sandbox.balance("dev0.near") == near(50)
    assert {w["id"] for w in sandbox.worlds()} >= {a.id, b.id}
    a.end()
    a.end()
    b.end()
    for ended in (a, b):
        with pytest.raises(WorldEndedError, match=ended.url):
            ended.mine()
        with pytest.raises(WorldEndedError, match=ended.url):
            ended.transact(sandbox.root, "dev0.near", transfer(1))
    with sandbox.new_world() as c, sandbox.new_world() as d:
        d.mine(2)
        sandbox.call("sandbox_drop_world", {"id": c.id})
    sandbox.drop_snapshot(snapshot)


def test_errors_of_the_node(world: World) -> None:
    with pytest.raises(RpcError) as info:
        world.account("missing.near")
    err = info.value
    assert (err.name, err.type, err.method) == ("UNKNOWN_ACCOUNT", "HANDLER_ERROR", "query")
    assert err.info["requested_account_id"] == "missing.near"
    with refused("METHOD_NOT_FOUND", "no_such_method"):
        world.call("no_such_method")


def test_events(world: World, alice: Account, sandbox: Sandbox) -> None:
    world.deal("token.near", "alice.near", 10)
    with world.subscribe("events", account_id="token.near", finality="optimistic") as events:
        call: Callable[[str], Any] = lambda n: function_call("ft_transfer", {"receiver_id": "token.near", "amount": n}, deposit=1)
        world.transact(alice, "token.near", call("1"))
        world.transact(alice, "token.near", call("2"))
        first = next(events)
        assert first["event"]["standard"] == "nep141" and first["event"]["event"] == "ft_transfer"
        second = events.receive(timeout=20)
        assert second and second["event"]["data"][0]["amount"] == "2"
        with pytest.raises(RequestTimeoutError):
            events.receive(timeout=0.05)
    assert list(events) == []
    with world.subscribe("events", account_id="token.near", finality="optimistic", after=first["cursor"]) as again:
        assert next(again)["event"]["data"][0]["amount"] == "2"
    status = world.transact(sandbox.root, "alice.near", transfer(1), wait_until="FINAL")
    with world.subscribe("transactions", tx_hashes=[status["transaction"]["hash"]]) as reached:
        assert [m["transaction"]["final_execution_status"] for m in reached][-1] == "FINAL"
    with refused("", ""):
        world.subscribe("weather")  # type: ignore[arg-type]
    world.end()
    with pytest.raises(WorldEndedError):
        world.subscribe("blocks")
