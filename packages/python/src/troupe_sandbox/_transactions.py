"""Transactions in borsh: transfers, function calls, contracts. Others are for a client such as py-near."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Union, cast

from ._errors import TransactionFailedError
from ._keys import Account, from_base58, signing_key
from ._rpc import encode
from .types import Amount, TransactionStatus


@dataclass(frozen=True)
class Action:
    """An action of a transaction, in borsh."""

    borsh: bytes


def _bytes(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _amount(amount: Amount) -> bytes:
    return int(amount).to_bytes(16, "little")


def deploy_contract(code: bytes) -> Action:
    """Sets the contract of the receiver, which must be the signer."""
    return Action(b"\x01" + _bytes(code))


def function_call(
    method: str, args: Union[Mapping[str, Any], bytes, None] = None, *, deposit: Amount = 0, gas: int = 100_000_000_000_000
) -> Action:
    """Calls a function of the receiver's contract, with JSON arguments or bytes, and by default 100 Tgas."""
    data = args if isinstance(args, bytes) else encode(args or {})
    return Action(b"\x02" + _bytes(method.encode()) + _bytes(data) + struct.pack("<Q", gas) + _amount(deposit))


def transfer(amount: Amount) -> Action:
    """Sends yoctoNEAR to the receiver."""
    return Action(b"\x03" + _amount(amount))


def encode_transaction(
    signer_id: str, public_key: str, receiver_id: str, *actions: Action, nonce: int, block_hash: str
) -> bytes:
    """Returns a Transaction with an ed25519 key in borsh."""
    return b"".join(
        [
            _bytes(signer_id.encode()),
            b"\x00" + from_base58(public_key[len("ed25519:") :]),
            struct.pack("<Q", nonce),
            _bytes(receiver_id.encode()),
            from_base58(block_hash),
            struct.pack("<I", len(actions)),
            *(a.borsh for a in actions),
        ]
    )


def sign_transaction(signer: Account, receiver_id: str, *actions: Action, nonce: int, block_hash: str) -> bytes:
    """Returns a SignedTransaction in borsh."""
    tx = encode_transaction(
        signer.account_id, signer.public_key, receiver_id, *actions, nonce=nonce, block_hash=block_hash
    )
    return tx + b"\x00" + signing_key(signer.secret_key).sign(hashlib.sha256(tx).digest()).signature


def check_succeeded(status: TransactionStatus) -> None:
    """Raises TransactionFailedError if the transaction failed. A receipt that fails by itself does not count."""
    final = status.get("status")
    if isinstance(final, dict) and "Failure" in final:
        raise TransactionFailedError(final["Failure"], cast("Dict[str, Any]", status))


def return_value(status: TransactionStatus) -> Any:
    """Parses the JSON that a transaction returned; None if it returned nothing.

    Raises TransactionFailedError if it failed, and ValueError if it has not run to its end or returned no JSON.
    """
    check_succeeded(status)
    final = status.get("status")
    if not isinstance(final, dict) or "SuccessValue" not in final:
        raise ValueError(f"the transaction has no result: its status is {final!r}")
    data = base64.b64decode(final["SuccessValue"])
    return json.loads(data) if data else None
