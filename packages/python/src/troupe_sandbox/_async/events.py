"""Subscriptions over WebSocket."""

from __future__ import annotations

import json
import time
from types import TracebackType
from typing import Any, Dict, Optional, Type, cast

from websockets.exceptions import ConnectionClosed, WebSocketException

from .._errors import BadReplyError, NodeEndedError, RequestTimeoutError, SubscriptionClosedError
from .._io_async import ClientConnection, connect, receive
from .._rpc import as_error, encode
from ..types import Cursor, Message

_OPEN_TIMEOUT = 30.0
_LARGEST_MESSAGE = 256 << 20


class AsyncSubscription:
    """Messages of a topic, as an iterator. Close it, or use it as a context manager."""

    def __init__(self, socket: ClientConnection, url: str, cursor: Cursor) -> None:
        self._socket = socket
        self._url = url
        self._ended = False
        #: Where the subscription began.
        self.cursor = cursor

    async def receive(self, timeout: Optional[float] = None) -> Optional[Message]:
        """Waits for the next message, at most for `timeout` seconds (RequestTimeoutError). None: there are no more."""
        if self._ended:
            return None
        try:
            reply: Dict[str, Any] = json.loads(await receive(self._socket, timeout))
        except TimeoutError:
            raise RequestTimeoutError(f"no message of the subscription at {self._url} in {timeout} s") from None
        except ConnectionClosed as err:
            reason = (err.rcvd and err.rcvd.reason) or "the connection was closed"
            raise SubscriptionClosedError(f"the subscription at {self._url} ended: {reason}", reason) from err
        message: Dict[str, Any] = reply.get("params") or {}
        if "closed" not in message:
            return cast(Message, message)
        await self.close()
        closed: Any = message["closed"]
        reason = closed if isinstance(closed, str) else str(closed["reason"])
        if reason == "DONE":
            return None
        raise SubscriptionClosedError(f"the node closed the subscription: {reason}", reason)

    async def close(self) -> None:
        """Ends the subscription."""
        self._ended = True
        await self._socket.close()

    def __aiter__(self) -> AsyncSubscription:
        return self

    async def __anext__(self) -> Message:
        message = await self.receive()
        if message is None:
            raise StopAsyncIteration
        return message

    async def __aenter__(self) -> AsyncSubscription:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], err: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()


async def subscribe(url: str, topic: Dict[str, Any]) -> AsyncSubscription:
    """Opens a WebSocket and subscribes. Raises RpcError if the node refuses."""
    begin = time.monotonic()
    try:
        proxy: Any = True if url.startswith("wss:") else None
        opening = connect(url, open_timeout=_OPEN_TIMEOUT, max_size=_LARGEST_MESSAGE, proxy=proxy)
        socket = await opening.__aenter__()  # the synchronous connect warns of other uses; close() is its end
    except TimeoutError as err:
        raise RequestTimeoutError(f"subscribe: no reply of {url} in {time.monotonic() - begin:.0f} s") from err
    except OSError as err:
        raise NodeEndedError(f"subscribe: no node answers at {url}: {err}") from err
    except WebSocketException as err:
        raise BadReplyError(f"subscribe: {url} accepts no WebSocket: {err}") from err
    try:
        await socket.send(encode({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": topic}).decode())
        reply: Dict[str, Any] = json.loads(await receive(socket, _OPEN_TIMEOUT))
        if "error" in reply:
            raise as_error("subscribe", url, reply["error"])
        return AsyncSubscription(socket, url, reply["result"]["cursor"])
    except TimeoutError:
        await socket.close()
        raise RequestTimeoutError(f"subscribe: no reply of {url} in {_OPEN_TIMEOUT:g} s") from None
    except ConnectionClosed as err:
        reason = (err.rcvd and err.rcvd.reason) or "the connection was closed"
        raise SubscriptionClosedError(f"the subscription at {url} ended: {reason}", reason) from err
    except BaseException:
        await socket.close()
        raise
