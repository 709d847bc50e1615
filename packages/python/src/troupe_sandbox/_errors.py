"""The errors of the package."""

from __future__ import annotations

import json
from typing import Any, Dict, Sequence, Tuple


class TroupeError(Exception):
    """Base of all errors of this package."""


class SandboxError(TroupeError):
    """An error of the sandbox itself, as opposed to an RpcError, which is the node's reply."""

    #: The last lines that the node wrote, for StartFailedError, PortTakenError and NodeEndedError.
    lines: Tuple[str, ...]

    def __init__(self, message: str, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lines = tuple(lines)


class NoBinaryError(SandboxError):
    """No binary of troupe for this platform, and none in TROUPE_BIN or PATH."""


class PortTakenError(SandboxError):
    """The port that was asked for is in use."""


class StartFailedError(SandboxError):
    """The node ended before it was ready, or was not ready in time."""


class NodeEndedError(SandboxError):
    """The node of this chain has ended, or does not answer at its address."""


class WorldEndedError(SandboxError):
    """The world was ended, or ended because no request came for ten minutes."""


class BadReplyError(SandboxError):
    """An HTTP response is not the reply of a NEAR node."""


class RequestTimeoutError(SandboxError, TimeoutError):
    """A request was not answered, or a message of a subscription did not come, in the given time."""


class SubscriptionClosedError(SandboxError):
    """A subscription ended. `reason` has the node's reason."""

    reason: str

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class RpcError(TroupeError):
    """A refusal of the node. `name` identifies it: SANDBOX_REFUSED, UNKNOWN_ACCOUNT, and so on."""

    #: The method that was called.
    method: str
    #: HANDLER_ERROR, REQUEST_VALIDATION_ERROR or INTERNAL_ERROR.
    type: str
    #: The name of the cause.
    name: str
    #: The details of the cause.
    info: Dict[str, Any]
    code: int
    #: The field `data` of the reply: a text, or for a failed transaction an object.
    data: Any

    def __init__(self, method: str, error: Dict[str, Any]) -> None:
        cause: Dict[str, Any] = error.get("cause") or {}
        self.method = method
        self.type = error.get("name") or "UNKNOWN"
        self.name = cause.get("name") or self.type
        self.info = cause.get("info") or {}
        self.code = error.get("code") or 0
        self.data = error.get("data")
        super().__init__(f"{method}: {self.name}{_describe(self.info, error)}")


def _describe(info: Dict[str, Any], error: Dict[str, Any]) -> str:
    data = error.get("data")
    for text in (info.get("reason"), info.get("error_message"), data):
        if isinstance(text, str) and text:
            return f": {text}"
    if data is not None:
        return f": {json.dumps(data)}"
    return f": {error['message']}" if error.get("message") else ""


class TransactionFailedError(TroupeError):
    """A transaction or one of its receipts failed. `status` is the status of the transaction."""

    status: Dict[str, Any]

    def __init__(self, failure: Any, status: Dict[str, Any]) -> None:
        transaction: Dict[str, Any] = status.get("transaction") or {}
        super().__init__(f"transaction {transaction.get('hash')} failed: {json.dumps(failure)}")
        self.status = status
