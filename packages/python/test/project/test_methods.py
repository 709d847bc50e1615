"""The methods of the node's OpenAPI document, and both halves of the package."""

import inspect
import json
import urllib.request
from typing import Any, Dict, List, Set

from troupe_sandbox import AsyncChain, AsyncSandbox, AsyncSubscription, AsyncWorld, Chain, Sandbox, Subscription, World


class Recorder:
    """In the place of the HTTP client: keeps the names of parameters."""

    def __init__(self) -> None:
        self.seen: Dict[str, Set[str]] = {}

    def call(self, url: str, method: str, params: Any) -> Any:
        self.seen.setdefault(method, set()).update(params or {})
        info = {"id": "1", "path": "/world/1"}
        return {**info, "name": "n", "records": [], "blocks_left": {}, "result": []}


def every_method(chain: Chain) -> None:
    snapshot: Any = {"id": "s", "height": 1, "hash": "h"}
    chain.new_world(snapshot=snapshot, port=True).end()
    chain.worlds()
    chain.snapshot("s")
    chain.snapshots()
    chain.revert(snapshot)
    chain.drop_snapshot("s")
    chain.mine(2)
    chain.mine_until("hash")
    chain.next_epoch()
    chain.fast_forward(5)
    chain.clock(advance_nanosec=1, timestamp_nanosec=2, next_timestamp_nanosec=3, frozen=False, interval_nanosec=0)
    chain.production(mode="instant", quiet=False, interval_nanosec=5)
    chain.reorg(1)
    chain.miss_chunks(1, [0])
    chain.set_balance("a", 1)
    chain.set_code("a", b"")
    chain.set_key("a", "k", 0)
    chain.remove_key("a", "k")
    chain.set_storage("a", "k", None)
    chain.patch_state([])
    chain.deal("t", "a", 1)
    chain.dump_state(["a"], height=5)
    chain.load_state([])
    chain.impersonate([])
    chain.impersonate("all")
    chain.mock_verification(ed25519_verify=True, p256_verify=False, ecrecover="k")
    chain.fork(cut=["a"], live=[], reset=[])
    chain.dump_transaction("hash")
    dump: Any = {"signed_tx_base64": "", "records": [], "outcomes": [], "absent": [], "timestamp_nanosec": "1", "height": 1}
    chain.replay(dump, replace=True)
    chain.tag("n", ["hash"])
    chain.tags()
    chain.drop_tag("n")
    chain.profile("n")


def test_methods_are_those_of_the_openapi_document(sandbox: Sandbox) -> None:
    with urllib.request.urlopen(sandbox.url + "/openapi.json") as reply:
        api = json.load(reply)

    def resolved(schema: Dict[str, Any]) -> Dict[str, Any]:
        while "$ref" in schema:
            path, schema = schema["$ref"][2:].split("/"), api
            for part in path:
                schema = schema[part]
        return schema

    documented: Dict[str, Set[str]] = {}
    for path, item in api["paths"].items():
        if path.startswith("/sandbox_"):
            body = resolved(item["post"]["requestBody"]["content"]["application/json"]["schema"])
            documented[path[1:]] = set(resolved(body["properties"]["params"]).get("properties", {}))
    assert len(documented) > 25
    http: Any = Recorder()
    every_method(Chain("http://localhost", "sandbox", http))
    assert {m: p for m, p in http.seen.items() if m.startswith("sandbox_")} == documented


def test_both_halves_have_the_same_methods() -> None:
    for asynchronous, synchronous in [
        (AsyncChain, Chain), (AsyncWorld, World), (AsyncSandbox, Sandbox), (AsyncSubscription, Subscription),
    ]:  # fmt: skip
        names: List[List[str]] = [[n for n in vars(c) if not n.startswith("_")] for c in (asynchronous, synchronous)]
        assert names[0] == names[1]
        for name in names[0]:
            a, s = getattr(asynchronous, name), getattr(synchronous, name)
            if callable(a):
                assert list(inspect.signature(a).parameters) == list(inspect.signature(s).parameters), name
                assert not inspect.iscoroutinefunction(s), name

