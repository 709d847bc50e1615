"""A sandbox: a node with a chain of its own."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, List, Mapping, Optional, Tuple, Type, Union

from .._binary import find_binary
from .._errors import NodeEndedError
from .._io_async import to_thread
from .._keys import Account, key_pair_from_seed
from .._process import NodeProcess
from .chain import AsyncChain
from .http import Http

_TIMEOUT = 120.0


def _account(account_id: str) -> Account:
    key = key_pair_from_seed(account_id)
    return Account(account_id, key.secret_key, key.public_key)


class AsyncSandbox(AsyncChain):
    """A node with a chain of its own in a temporary folder, which is removed at the end."""

    #: The validator test.near, with a billion NEAR; in a fork it does not exist.
    root: Account
    #: The accounts that `accounts` asked for: dev0.near, dev1.near, ...
    accounts: Tuple[Account, ...]

    def __init__(self, url: str, network_id: str, http: Http, accounts: int, node: Optional[NodeProcess]) -> None:
        """Use `start` or `connect`."""
        super().__init__(url, network_id, http)
        self.root = _account("test.near")
        self.accounts = tuple(_account(f"dev{i}.near") for i in range(accounts))
        self._node = node

    @classmethod
    async def start(
        cls,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        accounts: int = 0,
        balance: Union[str, int, None] = None,
        shards: Optional[int] = None,
        fork: Optional[str] = None,
        quiet: bool = True,
        binary: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        on_line: Optional[Callable[[str], object]] = None,
        start_timeout: float = 60.0,
        timeout: float = _TIMEOUT,
    ) -> AsyncSandbox:
        """Starts a node. Raises NoBinaryError, PortTakenError or StartFailedError.

        `port`: of JSON-RPC; 0 is a free one. `accounts`: how many funded accounts dev0.near, dev1.near, ... to make,
        with `balance` NEAR each (10000). `fork`: continue another chain, URL[@height|@hash|@tx:HASH] of a node's
        JSON-RPC. `quiet`: no blocks while nothing waits. `binary`: in place of what find_binary returns. `env`:
        variables for the node, beside those of this process. `on_line`: called in a thread with each line that the
        node writes, among them one for each transaction. `start_timeout`, `timeout`: how long to wait for the node,
        and for a reply, in seconds.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        args: List[str] = ["dev", "--exit-with-stdin", "--rpc-addr", address, "--accounts", str(accounts)]
        if balance is not None:
            args += ["--balance", str(balance)]
        if shards is not None:
            args += ["--shards", str(shards)]
        if fork is not None:
            args += ["--fork", fork]
        if on_line is None:
            args.append("--log-transactions=failed")
        node = NodeProcess([binary or find_binary(), *args], env, on_line)
        try:
            url = await to_thread(node.wait_ready, address, start_timeout)
            http = Http(url, timeout)
            sandbox = cls(url, await _network(url, http), http, accounts, node)
            if quiet:
                await sandbox.production(quiet=True)
        except BaseException:
            node.stop()
            raise
        return sandbox

    @classmethod
    async def connect(cls, url: str, *, accounts: int = 0, timeout: float = _TIMEOUT) -> AsyncSandbox:
        """Uses a node that runs already. `stop` does not end it."""
        url = url.rstrip("/")
        http = Http(url, timeout)
        try:
            return cls(url, await _network(url, http), http, accounts, None)
        except BaseException:
            await http.aclose()
            raise

    @property
    def pid(self) -> Optional[int]:
        """The id of the node's process; None if it was not started here."""
        return self._node.pid if self._node else None

    @property
    def lines(self) -> Tuple[str, ...]:
        """The last lines that the node wrote."""
        return self._node.lines if self._node else ()

    async def _failure(self, err: NodeEndedError) -> NodeEndedError:
        if not self._node:
            return err
        await to_thread(self._node.wait_ended, 0.2)
        lines = "".join(f"\n  {line}" for line in self._node.lines)
        message = f"{err}: the process {self._node.status or 'runs'}; its last lines:{lines}"
        return NodeEndedError(message, self._node.lines)

    async def stop(self) -> None:
        """Ends the node and removes its chain."""
        await self._http.aclose()
        if self._node:
            await to_thread(self._node.stop)

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], err: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.stop()


async def _network(url: str, http: Http) -> str:
    status: Any = await http.call(url, "status", None)
    return str(status["chain_id"])
