import os
from pathlib import Path

import pytest

from troupe_sandbox import Account, Sandbox, function_call


@pytest.fixture(scope="session")
def wasm() -> bytes:
    return Path(os.environ["FT_WASM"]).read_bytes()


@pytest.fixture(scope="session")
def token(sandbox: Sandbox, wasm: bytes) -> Account:
    account = sandbox.create_account("token.near", code=wasm)
    metadata = {"spec": "ft-1.0.0", "name": "T", "symbol": "T", "icon": None, "reference": None, "reference_hash": None, "decimals": 6}
    args = {"owner_id": "token.near", "total_supply": "1000", "metadata": metadata}
    sandbox.transact(account, "token.near", function_call("new", args))
    return account


@pytest.fixture(scope="session")
def alice(sandbox: Sandbox, token: Account) -> Account:
    account = sandbox.create_account("alice.near", balance=10 * 10**24)
    sandbox.transact(account, "token.near", function_call("storage_deposit", {}, deposit=1250000000000000000000))
    return account
