"""What the asynchronous half does in its own way. _io_sync.py has the same names for the synchronous half."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Optional, TypeVar

from websockets.asyncio.client import ClientConnection, connect

__all__ = ["KEEPALIVE", "ClientConnection", "connect", "receive", "to_thread"]

T = TypeVar("T")

#: Idle HTTP connections. None, since each would belong to one event loop, and tests have a loop each.
KEEPALIVE = 0


async def to_thread(function: Callable[..., T], *args: Any) -> T:
    return await asyncio.to_thread(function, *args)


async def receive(socket: ClientConnection, timeout: Optional[float]) -> str:
    try:
        return str(await asyncio.wait_for(socket.recv(), timeout))
    except asyncio.TimeoutError:
        raise TimeoutError() from None
