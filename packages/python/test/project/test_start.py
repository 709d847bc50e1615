"""Start, stop, errors, and what is left when the runner ends."""

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

import troupe_sandbox
from troupe_sandbox import (
    BadReplyError,
    NoBinaryError,
    NodeEndedError,
    PortTakenError,
    RequestTimeoutError,
    RpcError,
    Sandbox,
    SandboxError,
    StartFailedError,
    SubscriptionClosedError,
    TroupeError,
    WorldEndedError,
    find_binary,
)


def homes(folder: Path) -> List[str]:
    return [f for f in os.listdir(folder) if f.startswith("troupe-dev-")]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(what: str, done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, f"not in 60 s: {what}"
        time.sleep(0.02)


def test_the_binary_is_that_of_the_wheel() -> None:
    own = Path(troupe_sandbox.__file__).parent / "bin" / "troupe"
    assert find_binary({}) == str(own)
    assert find_binary({"TROUPE_BIN": sys.executable}) == sys.executable
    with pytest.raises(NoBinaryError, match="/nowhere/troupe"):
        find_binary({"TROUPE_BIN": "/nowhere/troupe"})


def test_the_command() -> None:
    command = [str(Path(sys.executable).parent / "troupe"), "version"]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.startswith("troupe (release")


def test_without_a_binary_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(troupe_sandbox.__file__).parent
    code = "import sys; sys.path.insert(0, sys.argv[1]); from troupe_sandbox import *; import platform\n"
    shutil.copytree(package, tmp_path / "troupe_sandbox", ignore=shutil.ignore_patterns("bin"))
    bindir = str(Path(sys.executable).parent)  # has the command of this package, which is no binary

    def run(more: str, env: Dict[str, str]) -> str:
        command = [sys.executable, "-c", code + more, str(tmp_path)]
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout

    assert f"has no binary for {sys.platform}-{platform.machine()}" in run("find_binary()", {"PATH": bindir})
    other = run("platform.machine = lambda: 'riscv64'; Sandbox.start()", {"PATH": bindir})
    assert f"NoBinaryError: there is no wheel of troupe-sandbox with a binary for {sys.platform}-riscv64" in other
    real = tmp_path / "path"
    real.mkdir()
    (real / "troupe").symlink_to(package / "bin" / "troupe")
    found = run("print(find_binary())", {"PATH": f"/nowhere:{bindir}:{real}"})
    assert found.strip() == str(real / "troupe")


def test_two_sandboxes_and_stop(tmp_path: Path) -> None:
    env = {"TMPDIR": str(tmp_path)}
    with Sandbox.start(env=env) as a, Sandbox.start(env=env) as b:
        assert a.url != b.url and len(homes(tmp_path)) == 2
        a.set_balance("only-a.near", 1)
        with pytest.raises(RpcError):
            b.account("only-a.near")
        with Sandbox.connect(a.url + "/") as joined:
            assert joined.balance("only-a.near") == 1 and joined.pid is None
        a.mine()
        pids = [a.pid, b.pid]
    a.stop()
    assert homes(tmp_path) == [] and not any(alive(p) for p in pids if p)
    with pytest.raises(NodeEndedError, match="exit code 0"):
        a.mine()


def test_a_fork_of_another_sandbox() -> None:
    with Sandbox.start() as origin:
        origin.create_account("alice.near", balance=7)
        origin.set_storage("alice.near", "key", "value")
        origin.mine(3)  # the state above is final
        with Sandbox.start(fork=origin.url) as fork:
            assert fork.balance("alice.near") == 7
            fork.create_account("alice.near", balance=8)
            assert (fork.balance("alice.near"), origin.balance("alice.near")) == (8, 7)
            assert fork.fork(cut=["alice.near"])["cut"] == ["alice.near"]


def test_a_port_that_is_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port: int = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"127.0.0.1:{port} is in use"):
            Sandbox.start(port=port)
    with Sandbox.start(port=port) as sandbox:
        assert sandbox.url == f"http://127.0.0.1:{port}"


def test_a_start_that_fails() -> None:
    with pytest.raises(StartFailedError, match="--shards is 0") as info:
        Sandbox.start(shards=0)
    assert any("--shards" in line for line in info.value.lines)
    with pytest.raises(StartFailedError, match="/nowhere/troupe: No such file"):
        Sandbox.start(binary="/nowhere/troupe")
    with pytest.raises(StartFailedError, match="exit code"):
        Sandbox.start(binary=sys.executable)
    with pytest.raises(StartFailedError, match="not ready after 0 s"):
        Sandbox.start(start_timeout=0)


@pytest.mark.parametrize("line", ["unknown flag: --exit-with-stdin", 'unknown command "dev" for "troupe"'])
def test_a_binary_that_is_older_than_the_package(line: str, tmp_path: Path) -> None:
    binary = tmp_path / "troupe"
    binary.write_text(f"#!/bin/sh\necho 'troupe: {line}' >&2\nexit 2\n")
    binary.chmod(0o755)
    with pytest.raises(StartFailedError, match=f"exit code 2; {binary} is older than this package"):
        Sandbox.start(binary=str(binary))


def test_a_node_that_is_killed() -> None:
    with Sandbox.start() as sandbox:
        world = sandbox.new_world()
        events = world.subscribe("blocks", finality="optimistic")
        assert sandbox.pid
        os.kill(sandbox.pid, signal.SIGKILL)
        with pytest.raises(NodeEndedError, match="ended by SIGKILL"):
            for _ in range(1000):
                world.mine()
        with pytest.raises(SubscriptionClosedError):
            list(events)
        with pytest.raises(NodeEndedError, match="ended by SIGKILL"):
            world.subscribe("blocks")
        with pytest.raises(NodeEndedError):
            world.end()


def test_output_reaches_on_line() -> None:
    lines: List[str] = []

    def on_line(line: str) -> None:
        lines.append(line)

    with Sandbox.start(on_line=on_line, accounts=1, balance="1.5") as sandbox:
        assert any(sandbox.url in line for line in lines)
        assert any(sandbox.url in line for line in sandbox.lines)
        assert sandbox.balance("dev0.near") == 15 * 10**23


def serve(reply: bytes) -> "tuple[str, threading.Thread]":
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with server, server.accept()[0] as connection:
            connection.settimeout(60)
            if reply:
                connection.sendall(reply)
            while connection.recv(1 << 16):  # until the client closes
                pass

    thread = threading.Thread(target=answer)
    thread.start()
    return "http://127.0.0.1:%d" % server.getsockname()[1], thread


def test_servers_that_are_no_node() -> None:
    for body, text in [(b"<html>", "not JSON"), (b"[]", "no result"), (b'{"result":', "not JSON")]:
        url, thread = serve(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        with pytest.raises(BadReplyError, match=text):
            Sandbox.connect(url)
        thread.join()
    url, thread = serve(b"")
    with pytest.raises(RequestTimeoutError, match="no reply of"):
        Sandbox.connect(url, timeout=0.2)
    thread.join()
    for url in ("http://127.0.0.1:1", "nonsense", "http://[::1"):
        with pytest.raises(NodeEndedError, match="no node answers"):
            Sandbox.connect(url)


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Sandbox.start() as sandbox, sandbox.subscribe("blocks", finality="optimistic") as blocks:
        sandbox.mine()
        assert next(blocks)["block"]["header"]["height"] > 0


def test_errors_have_a_common_base() -> None:
    for error in (NoBinaryError, PortTakenError, StartFailedError, NodeEndedError, WorldEndedError, BadReplyError):
        assert issubclass(error, SandboxError)
    assert issubclass(SandboxError, TroupeError) and issubclass(RpcError, TroupeError)
    assert not issubclass(RpcError, SandboxError) and issubclass(RequestTimeoutError, TimeoutError)


RUNNER = """
import sys, time
from troupe_sandbox import Sandbox
both = [Sandbox.start(), Sandbox.start()]
both[0].new_world()
print(*[s.pid for s in both], flush=True)
if sys.argv[1] != "end":
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["end", "SIGKILL", "SIGTERM"])
def test_nothing_is_left_when_the_runner_ends(how: str, tmp_path: Path) -> None:
    env: Dict[str, Any] = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", RUNNER, how], env=env, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout
        pids = [int(n) for n in runner.stdout.readline().split()]
        assert len(pids) == 2
        if how != "end":
            assert all(map(alive, pids)) and len(homes(tmp_path)) == 2
            runner.send_signal(signal.Signals[how])
        runner.wait(60)
    until("both nodes end", lambda: not any(map(alive, pids)))
    assert homes(tmp_path) == []
