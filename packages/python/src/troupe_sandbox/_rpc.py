"""Requests and replies of JSON-RPC, without I/O."""

from __future__ import annotations

import itertools
import json
from typing import Any, Dict, Union, cast

from ._errors import BadReplyError, RpcError, WorldEndedError

_ids = itertools.count(1)


def encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def request(method: str, params: Any) -> bytes:
    return encode({"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params})


def unwrap(method: str, url: str, status: int, body: bytes) -> Any:
    """Returns the result of a reply. Raises RpcError, WorldEndedError or BadReplyError."""
    try:
        reply: Any = json.loads(body)
    except ValueError as err:
        text = body[:200].decode("utf-8", "replace")
        raise BadReplyError(f"{method}: the reply of {url} is not JSON (HTTP {status}): {text}") from err
    if isinstance(reply, dict):
        envelope = cast("Dict[str, Any]", reply)
        if isinstance(envelope.get("error"), dict):
            raise as_error(method, url, envelope["error"])
        if "result" in envelope:
            return envelope["result"]
    raise BadReplyError(f"{method}: the reply of {url} has no result")


def as_error(method: str, url: str, error: Dict[str, Any]) -> Union[RpcError, WorldEndedError]:
    """Turns the error of a reply into an RpcError, or a WorldEndedError if the world has ended."""
    rpc = RpcError(method, error)
    if rpc.name != "UNKNOWN_WORLD":
        return rpc
    ended = WorldEndedError(f"{method}: the world at {url} has ended")
    ended.__cause__ = rpc
    return ended
