"""Chains: the methods that the sandbox's own chain and worlds share."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
from contextlib import asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, AsyncIterator, Dict, List, Literal, Optional, Sequence, Type, Union, cast

from .._errors import BadReplyError, NodeEndedError, WorldEndedError
from .._keys import Account, key_pair_from_secret, near, random_key_pair
from .._rpc import encode
from .._transactions import Action, check_succeeded, encode_transaction, sign_transaction
from ..types import (
    AccountView,
    Amount,
    Block,
    Clock,
    Cursor,
    Finality,
    MockVerification,
    Production,
    ProductionMode,
    Profile,
    Reorg,
    Replay,
    Simulation,
    Snapshot,
    StateRecord,
    Tag,
    TopicName,
    Trace,
    TransactionDump,
    TransactionStatus,
    WaitUntil,
    WorldInfo,
)
from .events import AsyncSubscription, subscribe
from .http import Http

# nearcore: 100 bytes for an account, and 82 for a key with full access
_STORAGE_OF_ACCOUNT = 182
_NO_CODE = "1" * 32
_profiles = itertools.count(1)


def _base64(data: Union[bytes, str]) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def _id(snapshot: Union[str, Snapshot]) -> str:
    return snapshot if isinstance(snapshot, str) else snapshot["id"]


def _given(**params: Any) -> Optional[Dict[str, Any]]:
    """Returns the parameters that are not None; None if there are none."""
    return {k: v for k, v in params.items() if v is not None} or None


def _text(number: Optional[int]) -> Optional[str]:
    return None if number is None else str(number)


class AsyncChain:
    """A chain: the sandbox's own, or that of a world. Every method that needs a block makes it at once."""

    #: JSON-RPC, for py-near and other clients.
    url: str
    #: WebSocket: every method, and subscriptions.
    ws_url: str
    #: The chain id.
    network_id: str

    def __init__(self, url: str, network_id: str, http: Http) -> None:
        self.url = url
        self.ws_url = re.sub("^http", "ws", url) + "/ws"
        self.network_id = network_id
        self._http = http

    async def _failure(self, err: NodeEndedError) -> NodeEndedError:
        """Returns the error to raise. A sandbox adds what it knows about the node's end."""
        return err

    async def call(self, method: str, params: Any = None) -> Any:
        """Calls any method of the node."""
        try:
            return await self._http.call(self.url, method, params)
        except NodeEndedError as err:
            failure = await self._failure(err)
            raise failure from err.__cause__

    # ---- worlds and snapshots

    async def new_world(
        self, *, snapshot: Union[str, Snapshot, None] = None, quiet: bool = True, port: bool = False
    ) -> AsyncWorld:
        """Makes a world: a chain that continues this one, or a snapshot of it, and never changes it.

        `quiet`: it makes no blocks while nothing waits. `port`: it listens on a port of its own too, info["addr"].
        End the world with `end`, or use it as a context manager.
        """
        params: Dict[str, Any] = {"quiet": quiet, "port": port}
        if snapshot is not None:
            params["snapshot"] = _id(snapshot)
        return AsyncWorld(self, cast(WorldInfo, await self.call("sandbox_new_world", params)))

    async def worlds(self) -> List[WorldInfo]:
        """Lists the worlds of this process."""
        return cast("List[WorldInfo]", await self.call("sandbox_worlds"))

    async def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Remembers the head with its state, waiting transactions and clock."""
        return cast(Snapshot, await self.call("sandbox_snapshot", _given(name=name)))

    async def snapshots(self) -> List[Snapshot]:
        return cast("List[Snapshot]", await self.call("sandbox_snapshots"))

    async def revert(self, snapshot: Union[str, Snapshot]) -> Block:
        """Goes back to a snapshot. It exists afterwards too, later ones do not."""
        return cast(Block, await self.call("sandbox_revert", {"id": _id(snapshot)}))

    async def drop_snapshot(self, snapshot: Union[str, Snapshot]) -> None:
        await self.call("sandbox_drop_snapshot", {"id": _id(snapshot)})

    # ---- blocks and time

    async def mine(self, blocks: int = 1) -> Block:
        """Makes blocks, and returns the last."""
        return cast(Block, await self.call("sandbox_mine", {"blocks": blocks}))

    async def mine_until(self, tx_hash: str) -> Block:
        """Makes blocks until a transaction and its receipts have run."""
        return cast(Block, await self.call("sandbox_mine", {"until": tx_hash}))

    async def next_epoch(self) -> Block:
        """Goes to the first block of the next epoch."""
        return cast(Block, await self.call("sandbox_next_epoch"))

    async def fast_forward(self, heights: int) -> None:
        """Skips heights. Only the blocks around the end of an epoch are made."""
        await self.call("sandbox_fast_forward", {"delta_height": heights})

    async def clock(
        self,
        *,
        advance_nanosec: Optional[int] = None,
        timestamp_nanosec: Optional[int] = None,
        next_timestamp_nanosec: Optional[int] = None,
        frozen: Optional[bool] = None,
        interval_nanosec: Optional[int] = None,
    ) -> Clock:
        """Returns the clock, after changing it.

        `advance_nanosec` moves it forward, `timestamp_nanosec` sets it (since 1970). The next block has the time
        `next_timestamp_nanosec`, and the clock continues from there. `frozen`: it stands still. Each block is
        `interval_nanosec` later than its parent; 0 ends that.
        """
        params = _given(
            advance_nanosec=_text(advance_nanosec),
            timestamp_nanosec=_text(timestamp_nanosec),
            next_timestamp_nanosec=_text(next_timestamp_nanosec),
            frozen=frozen,
            interval_nanosec=_text(interval_nanosec),
        )
        return cast(Clock, await self.call("sandbox_set_clock", params))

    async def advance_time(self, by: Union[int, float, timedelta]) -> Clock:
        """Moves the clock forward by seconds, or a timedelta."""
        duration = by if isinstance(by, timedelta) else timedelta(seconds=by)
        return await self.clock(advance_nanosec=duration // timedelta(microseconds=1) * 1000)

    async def production(
        self,
        *,
        mode: Optional[ProductionMode] = None,
        quiet: Optional[bool] = None,
        interval_nanosec: Optional[int] = None,
    ) -> Production:
        """Sets when blocks are made, and returns the settings. Without arguments it only returns them."""
        params = _given(mode=mode, quiet=quiet, interval_nanosec=_text(interval_nanosec))
        return cast(Production, await self.call("sandbox_set_production", params))

    async def reorg(self, blocks: int = 1) -> Reorg:
        """Makes another branch win, over the newest blocks that are not final."""
        return cast(Reorg, await self.call("sandbox_reorg", {"blocks": blocks}))

    async def miss_chunks(self, blocks: Optional[int] = None, shard_ids: Optional[Sequence[int]] = None) -> Dict[str, int]:
        """Leaves out the chunks of shards (default: all) in the next blocks. Returns how many are left by shard."""
        shards = None if shard_ids is None else list(shard_ids)
        reply = await self.call("sandbox_miss_chunks", _given(blocks=blocks, shard_ids=shards))
        return cast("Dict[str, int]", reply["blocks_left"])

    # ---- accounts and state

    async def create_account(
        self, account_id: str, *, balance: Optional[Amount] = None, secret_key: Optional[str] = None, code: Optional[bytes] = None
    ) -> Account:
        """Creates an account with a full access key, without a transaction, and returns the key.

        Default: 100 NEAR, a random key, no contract. No function of the contract is called. An account that exists is
        replaced, with its keys, contract and data.
        """
        key = random_key_pair() if secret_key is None else key_pair_from_secret(secret_key)
        amount = str(near(100) if balance is None else balance)
        account = {"amount": amount, "locked": "0", "code_hash": _NO_CODE, "storage_usage": _STORAGE_OF_ACCOUNT}
        access_key = {"nonce": 0, "permission": "FullAccess"}
        # as patch_state does, and it removes what the records do not have
        await self.load_state(
            [
                {"Account": {"account_id": account_id, "account": account}},
                {"AccessKey": {"account_id": account_id, "public_key": key.public_key, "access_key": access_key}},
            ]
        )
        if code is not None:
            await self.set_code(account_id, code)
        return Account(account_id, key.secret_key, key.public_key)

    async def set_balance(self, account_id: str, amount: Amount) -> None:
        """Sets a balance in yoctoNEAR, and creates the account if it does not exist."""
        await self.call("sandbox_set_balance", {"account_id": account_id, "amount": str(amount)})

    async def set_code(self, account_id: str, code: Optional[bytes]) -> None:
        """Sets the contract of an account, or removes it."""
        encoded = None if code is None else _base64(code)
        await self.call("sandbox_set_code", {"account_id": account_id, "code_base64": encoded})

    async def set_key(self, account_id: str, public_key: str, nonce: Optional[int] = None) -> None:
        """Adds a full access key."""
        await self.call("sandbox_set_key", _given(account_id=account_id, public_key=public_key, nonce=nonce))

    async def remove_key(self, account_id: str, public_key: str) -> None:
        """Removes a key of any kind."""
        await self.call("sandbox_set_key", {"account_id": account_id, "public_key": public_key, "remove": True})

    async def set_storage(self, account_id: str, key: Union[bytes, str], value: Union[bytes, str, None]) -> None:
        """Sets one entry of a contract's storage, or removes it. Texts are UTF-8."""
        encoded = None if value is None else _base64(value)
        params = {"account_id": account_id, "key_base64": _base64(key), "value_base64": encoded}
        await self.call("sandbox_set_storage", params)

    async def patch_state(self, records: Sequence[StateRecord]) -> None:
        """Writes records as in genesis.json. None in place of a value removes the entry."""
        await self.call("sandbox_patch_state", {"records": list(records)})

    async def deal(self, token_id: str, account_id: str, amount: Amount) -> None:
        """Sets the balance of an account in a NEP-141 token."""
        await self.call("sandbox_deal", {"token_id": token_id, "account_id": account_id, "amount": str(amount)})

    async def dump_state(
        self, account_ids: Optional[Sequence[str]] = None, *, height: Optional[int] = None
    ) -> List[StateRecord]:
        """Returns the records of some accounts, or of all."""
        accounts = None if account_ids is None else list(account_ids)
        reply = await self.call("sandbox_dump_state", _given(account_ids=accounts, height=height))
        return cast("List[StateRecord]", reply["records"])

    async def load_state(self, records: Sequence[StateRecord]) -> None:
        """Writes records of dump_state. Accounts among them are replaced as a whole."""
        await self.call("sandbox_load_state", {"records": list(records)})

    async def impersonate(self, accounts: Union[Sequence[str], Literal["all"]]) -> None:
        """Sets for which accounts unsigned transactions are accepted, as `transact` sends them for a name.

        "all": every account; an empty list: none.
        """
        await self.call("sandbox_impersonate", {"all": True} if accounts == "all" else {"account_ids": list(accounts)})

    async def mock_verification(
        self, *, ed25519_verify: Optional[bool] = None, p256_verify: Optional[bool] = None, ecrecover: Optional[str] = None
    ) -> MockVerification:
        """Sets which signature checks of host functions accept everything. Without arguments it only returns that."""
        params = _given(ed25519_verify=ed25519_verify, p256_verify=p256_verify, ecrecover=ecrecover)
        return cast(MockVerification, await self.call("sandbox_mock_verification", params))

    async def fork(
        self,
        *,
        cut: Optional[Sequence[str]] = None,
        live: Optional[Sequence[str]] = None,
        reset: Optional[Sequence[str]] = None,
    ) -> Dict[str, Any]:
        """Of a fork: hides the other chain at accounts, has them follow it, or restores them; returns its figures."""
        lists = {"cut": cut, "live": live, "reset": reset}
        params = {k: list(v) for k, v in lists.items() if v is not None} or None
        return cast("Dict[str, Any]", await self.call("sandbox_fork", params))

    # ---- reading

    async def account(self, account_id: str, *, finality: Finality = "optimistic") -> AccountView:
        """Reads an account at the head."""
        params = {"request_type": "view_account", "finality": finality, "account_id": account_id}
        return cast(AccountView, await self.call("query", params))

    async def balance(self, account_id: str) -> int:
        """Returns the balance of an account in yoctoNEAR at the head."""
        return int((await self.account(account_id))["amount"])

    async def view(
        self, contract_id: str, method: str, args: Any = None, *, finality: Finality = "optimistic"
    ) -> Any:
        """Calls a view function with JSON arguments, and parses its JSON result. An empty result is None."""
        # of `query`, the reply to a failed call is a result with a text and not an error
        params = {
            "finality": finality,
            "account_id": contract_id,
            "method_name": method,
            "args_base64": _base64(encode({} if args is None else args)),
        }
        reply = await self.call("EXPERIMENTAL_call_function", params)
        return json.loads(bytes(reply["result"])) if reply["result"] else None

    # ---- transactions

    async def transact(
        self,
        signer: Union[Account, str],
        receiver_id: str,
        *actions: Action,
        wait_until: WaitUntil = "EXECUTED_OPTIMISTIC",
        check: bool = True,
    ) -> TransactionStatus:
        """Signs and sends a transaction, and returns its status when it has reached `wait_until`.

        `signer` is an account with its key, or the name of one that `impersonate` has allowed. With `check`, a
        transaction that fails raises TransactionFailedError. Send one at a time for each key.
        """
        if isinstance(signer, Account):
            signer_id, public_key = signer.account_id, signer.public_key
            key = await self.call(
                "EXPERIMENTAL_view_access_key",
                {"finality": "optimistic", "account_id": signer_id, "public_key": public_key},
            )
        else:
            signer_id = signer
            reply = await self.call(
                "EXPERIMENTAL_view_access_key_list", {"finality": "optimistic", "account_id": signer_id}
            )
            keys = [k for k in reply["keys"] if k["public_key"].startswith("ed25519:")]
            if not keys:
                raise ValueError(f"{signer_id} has no ed25519 key to impersonate it with: add one with set_key")
            public_key, key = keys[0]["public_key"], keys[0]["access_key"]
        head: str = (await self.call("block", {"finality": "optimistic"}))["header"]["hash"]
        nonce: int = key["nonce"] + 1
        if isinstance(signer, Account):
            tx = sign_transaction(signer, receiver_id, *actions, nonce=nonce, block_hash=head)
        else:
            tx = encode_transaction(signer_id, public_key, receiver_id, *actions, nonce=nonce, block_hash=head)
            tx += bytes(1 + 64)
        status = await self.send(tx, wait_until)
        if check:
            check_succeeded(status)
        return status

    async def send(self, signed: Union[bytes, str], wait_until: WaitUntil = "EXECUTED_OPTIMISTIC") -> TransactionStatus:
        """Sends a SignedTransaction in borsh, as bytes or in base64, and returns when it has reached a status."""
        encoded = signed if isinstance(signed, str) else _base64(signed)
        params = {"signed_tx_base64": encoded, "wait_until": wait_until}
        return cast(TransactionStatus, await self.call("send_tx", params))

    async def trace(
        self,
        tx_hash: Optional[str] = None,
        *,
        signed: Union[bytes, str, None] = None,
        profile: bool = False,
        skip_signature_check: Optional[bool] = None,
    ) -> Trace:
        """Returns the host functions, gas and storage of each contract call of a transaction.

        It is one of the chain, by its hash, or a signed one that is simulated.
        """
        if (tx_hash is None) == (signed is None):
            raise TypeError("trace needs either tx_hash or signed")
        params: Dict[str, Any] = {"profile": profile}
        if tx_hash is not None:
            params["tx_hash"] = tx_hash
        if signed is not None:
            params.update(signed_tx_base64=signed if isinstance(signed, str) else _base64(signed), finality="optimistic")
        if skip_signature_check is not None:
            params["skip_signature_check"] = skip_signature_check
        return cast(Trace, await self.call("EXPERIMENTAL_trace_tx", params))

    async def simulate(
        self,
        signed: Union[bytes, str],
        *,
        skip_signature_check: Optional[bool] = None,
        block_id: Union[int, str, None] = None,
    ) -> Simulation:
        """Runs a signed transaction with all its receipts on the head, or a block, and keeps nothing."""
        params = _given(
            signed_tx_base64=signed if isinstance(signed, str) else _base64(signed),
            skip_signature_check=skip_signature_check,
            block_id=block_id,
            finality="optimistic" if block_id is None else None,
        )
        return cast(Simulation, await self.call("EXPERIMENTAL_simulate_tx", params))

    async def dump_transaction(self, tx_hash: str) -> TransactionDump:
        """Returns everything that a transaction reads and writes: `replay` runs it again on any sandbox."""
        return cast(TransactionDump, await self.call("sandbox_dump_transaction", {"tx_hash": tx_hash}))

    async def replay(self, dump: TransactionDump, *, replace: Optional[bool] = None) -> Replay:
        """Runs a dumped transaction. `replace` allows to replace accounts that exist."""
        fields = ("signed_tx_base64", "records", "outcomes", "absent", "timestamp_nanosec")
        params: Dict[str, Any] = {k: v for k, v in dump.items() if k in fields}
        if replace is not None:
            params["replace"] = replace
        return cast(Replay, await self.call("sandbox_replay_transaction", params))

    async def tag(self, name: Optional[str], tx_hashes: Optional[Sequence[str]] = None) -> Optional[Tag]:
        """Opens a tag: transactions that are sent from now on belong to it. None: to none.

        With `tx_hashes` it adds these transactions to a tag instead.
        """
        hashes = None if tx_hashes is None else list(tx_hashes)
        tag = await self.call("sandbox_tag", _given(name=name, tx_hashes=hashes))
        return cast(Tag, tag) if "name" in tag else None

    async def tags(self) -> List[Tag]:
        return cast("List[Tag]", await self.call("sandbox_tags"))

    async def drop_tag(self, name: str) -> None:
        await self.call("sandbox_drop_tag", {"name": name})

    async def profile(self, tag: str) -> Profile:
        """Returns the gas of a tag's transactions by function."""
        return cast(Profile, await self.call("sandbox_profile", {"name": tag}))

    @asynccontextmanager
    async def profiled(self) -> AsyncIterator[Profile]:
        """A context manager: its value is filled at the end with the gas of the transactions sent in it."""
        name = f"profile-{os.getpid()}-{next(_profiles)}"
        result = cast(Profile, {})
        await self.tag(name)
        try:
            try:
                yield result
            finally:
                await self.tag(None)
            result.update(await self.profile(name))
        finally:
            await self.drop_tag(name)

    # ---- events

    async def subscribe(
        self,
        topic: TopicName,
        *,
        account_id: Optional[str] = None,
        tx_hashes: Optional[Sequence[str]] = None,
        finality: Optional[Finality] = None,
        standard: Optional[str] = None,
        event: Optional[str] = None,
        shards: Optional[Sequence[Dict[str, int]]] = None,
        accounts: Optional[Sequence[str]] = None,
        after: Optional[Cursor] = None,
        from_height: Optional[int] = None,
    ) -> AsyncSubscription:
        """Subscribes to blocks, transactions, outcomes, events or messages. Which arguments apply depends on the topic."""
        params = _given(
            topic=topic,
            account_id=account_id,
            tx_hashes=None if tx_hashes is None else list(tx_hashes),
            finality=finality,
            standard=standard,
            event=event,
            shards=None if shards is None else list(shards),
            accounts=None if accounts is None else list(accounts),
            after=after,
            from_height=from_height,
        )
        try:
            return await subscribe(self.ws_url, params or {})
        except BadReplyError:
            await self.call("status")  # if the world has ended, this says so
            raise
        except NodeEndedError as err:
            failure = await self._failure(err)
            raise failure from err.__cause__


class AsyncWorld(AsyncChain):
    """A chain that continues another one."""

    id: str
    #: What the node said when the world began.
    info: WorldInfo

    def __init__(self, parent: AsyncChain, info: WorldInfo) -> None:
        super().__init__(re.sub("/world/[^/]*$", "", parent.url) + info["path"], parent.network_id, parent._http)
        self.id = info["id"]
        self.info = info
        self._parent = parent
        self._ended = False

    async def _failure(self, err: NodeEndedError) -> NodeEndedError:
        return await self._parent._failure(err)

    async def end(self) -> None:
        """Ends the world, and all worlds that continue it. Ending it twice, or after its parent, does nothing."""
        if self._ended:
            return
        self._ended = True
        try:
            await self._parent.call("sandbox_drop_world", {"id": self.id})
        except WorldEndedError:
            return
        except Exception:
            try:
                await self.call("status")  # it may have ended by itself: its own address says so
            except WorldEndedError:
                return
            except Exception:
                pass
            raise

    async def __aenter__(self) -> AsyncWorld:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], err: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.end()
