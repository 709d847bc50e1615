"""Calls of JSON-RPC over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from .._errors import NodeEndedError, RequestTimeoutError
from .._io_async import KEEPALIVE
from .._rpc import request, unwrap

_CONNECTIONS = 64
_CONNECT_TIMEOUT = 10.0


class Http:
    """The HTTP client of a sandbox and its worlds."""

    def __init__(self, url: str, timeout: float) -> None:
        self._timeout = timeout
        # a sandbox is never behind a proxy, whatever the environment says of one
        https = url.startswith("https:")
        self._client = httpx.AsyncClient(
            verify=https,
            trust_env=https,
            timeout=httpx.Timeout(timeout, connect=min(timeout, _CONNECT_TIMEOUT)),
            limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=KEEPALIVE),
        )

    async def call(self, url: str, method: str, params: Any) -> Any:
        """Calls a method at a URL. Raises RpcError, or SandboxError of several kinds."""
        if self._client.is_closed:
            raise NodeEndedError(f"{method}: the sandbox of {url} was stopped")
        headers = {"content-type": "application/json"}
        try:
            reply = await self._client.post(url, content=request(method, params), headers=headers)
        except httpx.TimeoutException as err:
            raise RequestTimeoutError(f"{method}: no reply of {url} in {self._timeout:g} s") from err
        except (httpx.HTTPError, httpx.InvalidURL) as err:
            raise NodeEndedError(f"{method}: no node answers at {url}: {err}") from err
        return unwrap(method, url, reply.status_code, reply.content)

    async def aclose(self) -> None:
        await self._client.aclose()
