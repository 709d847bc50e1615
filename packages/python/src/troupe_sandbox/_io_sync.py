"""What the synchronous half does in its own way. _io_async.py has the same names for the asynchronous half."""

from __future__ import annotations

from typing import Any, Callable, Optional, TypeVar

from websockets.sync.client import ClientConnection, connect

__all__ = ["KEEPALIVE", "ClientConnection", "connect", "receive", "to_thread"]

T = TypeVar("T")

#: Idle HTTP connections.
KEEPALIVE = 8


def to_thread(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


def receive(socket: ClientConnection, timeout: Optional[float]) -> str:
    return str(socket.recv(timeout))
