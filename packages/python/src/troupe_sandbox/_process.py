"""The process of a node, and what is known about its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
import traceback
from collections import deque
from typing import Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple

from ._errors import PortTakenError, SandboxError, StartFailedError

_KEPT_LINES = 50
_LONGEST_LINE = 1 << 16
_STOP_TIMEOUT = 10.0
_READY = re.compile(r"JSON-RPC  (http:\S+)")


class NodeProcess:
    """A node. It stops when its stdin ends: the kernel closes the pipe however this process ends."""

    def __init__(
        self,
        command: Sequence[str],
        env: Optional[Mapping[str, str]] = None,
        on_line: Optional[Callable[[str], object]] = None,
    ) -> None:
        variables: Dict[str, str] = {**os.environ, **(env or {})}
        try:
            # a session of its own, so that Ctrl-C in the terminal lets tests finish first
            self._child = subprocess.Popen(
                list(command),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=variables,
            )
        except OSError as err:
            raise StartFailedError(f"{command[0]}: {err.strerror}") from err
        self._command = command
        self._on_line = on_line
        self._lines: Deque[str] = deque(maxlen=_KEPT_LINES)
        self._url: Optional[str] = None
        self._changed = threading.Condition()
        self._stopping = threading.Lock()
        self._reader = threading.Thread(target=self._read, name=f"troupe {self._child.pid}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def lines(self) -> Tuple[str, ...]:
        """The last lines that the node wrote."""
        with self._changed:
            return tuple(self._lines)

    @property
    def status(self) -> Optional[str]:
        """How the process ended; None while it runs."""
        code = self._child.poll()
        if code is None:
            return None
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _read(self) -> None:
        # os.read and not a buffered reader: Python ends with a fatal error if a thread holds a buffer's lock then
        assert self._child.stdout is not None
        fd, rest = self._child.stdout.fileno(), b""
        while True:
            try:
                data = os.read(fd, 1 << 16)
            except OSError:
                data = b""
            *lines, rest = (rest + data).split(b"\n")
            if rest and (not data or len(rest) > _LONGEST_LINE):
                lines, rest = [*lines, rest], b""
            self._add([line.decode("utf-8", "replace") for line in lines])
            if not data:
                return

    def _add(self, lines: List[str]) -> None:
        with self._changed:
            self._lines.extend(lines)
            for line in lines:
                m = None if self._url else _READY.fullmatch(line)
                if m:
                    self._url = m[1]
            self._changed.notify_all()
        for line in lines if self._on_line else ():
            try:
                assert self._on_line is not None
                self._on_line(line)
            except Exception:  # the node would wait for a reader
                traceback.print_exc()

    def wait_ready(self, address: str, limit: float) -> str:
        """Waits for the URL of JSON-RPC. Raises PortTakenError or StartFailedError, and ends the process then."""
        end = time.monotonic() + limit
        with self._changed:
            while self._url is None and self.status is None and (left := end - time.monotonic()) > 0:
                self._changed.wait(min(left, 0.1))
        if self._url is not None:
            return self._url
        status = self.status
        self.stop()
        raise self._start_error(address, status or f"was not ready after {limit:g} s")

    def _start_error(self, address: str, why: str) -> SandboxError:
        lines = self.lines
        if any(re.search(r"--rpc-addr: .* is in use", line) for line in lines):
            return PortTakenError(f"{address} is in use: choose another port, or 0 for a free one", lines)
        binary = self._command[0]
        # all flags are this package's
        if any(re.match('troupe: unknown (flag: --|command "dev")', line) for line in lines):
            why += f"; {binary} is older than this package"
        return StartFailedError(f"{binary} {why}; its last lines:{self.text}", lines)

    @property
    def text(self) -> str:
        return "".join(f"\n  {line}" for line in self.lines)

    def wait_ended(self, limit: float) -> None:
        """Waits for the end: a connection fails before the process is known to have ended."""
        try:
            self._child.wait(limit)
        except subprocess.TimeoutExpired:
            return
        self._reader.join(limit)

    def stop(self) -> None:
        """Closes stdin, and kills the process if it has not ended in time."""
        with self._stopping:
            assert self._child.stdin is not None and self._child.stdout is not None
            self._child.stdin.close()
            try:
                self._child.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            self._reader.join(1.0)
            if not self._reader.is_alive():
                self._child.stdout.close()
