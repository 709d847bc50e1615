"""Finds the binary of troupe."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Mapping, Optional

from ._errors import NoBinaryError

#: The platforms that a wheel with a binary exists for.
PLATFORMS = ("linux-x86_64", "linux-aarch64")


def find_binary(env: Optional[Mapping[str, str]] = None) -> str:
    """Finds the binary: the file that TROUPE_BIN names, else that of this package, else `troupe` in PATH.

    Raises NoBinaryError if there is none. `env` is used in place of this process's variables.
    """
    env = os.environ if env is None else env
    named = env.get("TROUPE_BIN")
    if named:
        if _is_executable(named):
            return named
        raise NoBinaryError(f"TROUPE_BIN is {named}, which is not an executable file")
    own = str(Path(__file__).with_name("bin") / "troupe")
    if _is_executable(own):
        return own
    for folder in env.get("PATH", "").split(os.pathsep):
        found = folder and shutil.which("troupe", path=folder)
        # the command of this package only starts what this function finds
        if found and not _is_command_of_this_package(found):
            return found
    here = f"{sys.platform}-{platform.machine()}"
    if here in PLATFORMS:
        raise NoBinaryError(
            f"this installation of troupe-sandbox has no binary for {here}: install its wheel for this platform "
            "(pip install --force-reinstall --only-binary :all: troupe-sandbox), or set TROUPE_BIN to a binary of troupe"
        )
    raise NoBinaryError(
        f"there is no wheel of troupe-sandbox with a binary for {here}, only for {', '.join(PLATFORMS)}: "
        "build troupe from source and set TROUPE_BIN to it, or add it to PATH"
    )


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_command_of_this_package(path: str) -> bool:
    try:
        with open(path, "rb") as f:
            return b"troupe_sandbox" in f.read(4096)
    except OSError:
        return True
