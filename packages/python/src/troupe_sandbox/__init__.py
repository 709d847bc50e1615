"""A NEAR chain for tests: starts a Troupe node and controls its chain.

Sandbox, World and Chain are synchronous; AsyncSandbox, AsyncWorld and AsyncChain have the same methods for asyncio.
"""

from . import types
from ._async.chain import AsyncChain, AsyncWorld
from ._async.events import AsyncSubscription
from ._async.sandbox import AsyncSandbox
from ._both import as_async
from ._binary import PLATFORMS, find_binary
from ._errors import (
    BadReplyError,
    NoBinaryError,
    NodeEndedError,
    PortTakenError,
    RequestTimeoutError,
    RpcError,
    SandboxError,
    StartFailedError,
    SubscriptionClosedError,
    TransactionFailedError,
    TroupeError,
    WorldEndedError,
)
from ._keys import (
    Account,
    KeyPair,
    base58,
    from_base58,
    key_pair_from_secret,
    key_pair_from_seed,
    near,
    random_key_pair,
)
from ._sync.chain import Chain, World
from ._sync.events import Subscription
from ._sync.sandbox import Sandbox
from ._transactions import Action, deploy_contract, function_call, return_value, sign_transaction, transfer

__all__ = [
    "PLATFORMS",
    "Account",
    "Action",
    "AsyncChain",
    "AsyncSandbox",
    "AsyncSubscription",
    "AsyncWorld",
    "BadReplyError",
    "Chain",
    "KeyPair",
    "NoBinaryError",
    "NodeEndedError",
    "PortTakenError",
    "RequestTimeoutError",
    "RpcError",
    "Sandbox",
    "SandboxError",
    "StartFailedError",
    "Subscription",
    "SubscriptionClosedError",
    "TransactionFailedError",
    "TroupeError",
    "World",
    "WorldEndedError",
    "as_async",
    "base58",
    "deploy_contract",
    "find_binary",
    "from_base58",
    "function_call",
    "key_pair_from_secret",
    "key_pair_from_seed",
    "near",
    "random_key_pair",
    "return_value",
    "sign_transaction",
    "transfer",
    "types",
]
