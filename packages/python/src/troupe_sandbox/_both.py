"""What connects the two halves."""

from __future__ import annotations

from ._async.chain import AsyncChain, AsyncWorld
from ._async.http import Http
from ._sync.chain import World


def as_async(world: World, *, timeout: float = 120.0) -> AsyncWorld:
    """Returns the same world with methods for asyncio. `World.end` ends both."""
    base = world.url[: -len(world.info["path"])]
    return AsyncWorld(AsyncChain(base, world.network_id, Http(base, timeout)), world.info)
