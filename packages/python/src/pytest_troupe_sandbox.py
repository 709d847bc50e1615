"""The pytest plugin of troupe-sandbox: the fixtures `sandbox`, `world` and `async_world`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator

import pytest

if TYPE_CHECKING:
    from troupe_sandbox import AsyncWorld, Sandbox, World

# The package is imported by the fixtures, so that runs of pytest that use none of them do not wait for it.


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("is negative")
    return number


# name -> (reads it, help); each is an argument of Sandbox.start
_START: Dict[str, "tuple[Callable[[str], Any], str]"] = {
    "accounts": (_count, "how many funded accounts dev0.near, dev1.near, ... the sandbox has (default: 0)"),
    "balance": (str, "their balance in NEAR (default: 10000)"),
    "shards": (_count, "number of shards (default: 1)"),
    "fork": (str, "chain to continue: URL[@height] of a node's JSON-RPC"),
    "port": (_count, "port of JSON-RPC (default: a free one)"),
    "binary": (str, "binary of troupe (default: that of the package)"),
    "start_timeout": (float, "how long to wait for the node, in seconds (default: 60)"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, (_, text) in _START.items():
        parser.addini(f"troupe_{name}", f"troupe-sandbox: {text}", default="")
    parser.addini("troupe_url", "troupe-sandbox: use a node that runs already (default: TROUPE_SANDBOX_URL)", default="")


def _options(config: pytest.Config) -> Dict[str, Any]:
    options: Dict[str, Any] = {}
    for name, (read, _) in _START.items():
        text = str(config.getini(f"troupe_{name}")).strip()
        if not text:
            continue
        try:
            options[name] = read(text)
        except ValueError as err:
            raise pytest.UsageError(f"troupe_{name} = {text}: {err}") from None
    return options


@pytest.fixture(scope="session")
def sandbox(pytestconfig: pytest.Config) -> "Iterator[Sandbox]":
    """A sandbox for the session. Its chain is what the world of each test continues."""
    from troupe_sandbox import Sandbox

    options = _options(pytestconfig)
    url = str(pytestconfig.getini("troupe_url")).strip() or os.environ.get("TROUPE_SANDBOX_URL")
    if url:
        running = Sandbox.connect(url, accounts=options.get("accounts", 0))
    else:
        running = Sandbox.start(**options)
    with running:
        yield running


@pytest.fixture
def world(sandbox: "Sandbox") -> "Iterator[World]":
    """A chain for one test, which continues that of the sandbox and ends with the test."""
    with sandbox.new_world() as made:
        yield made


@pytest.fixture
def async_world(world: "World") -> "AsyncWorld":
    """The chain of `world`, with methods for asyncio."""
    from troupe_sandbox import as_async

    return as_async(world)
