"""Builds dist/*.whl with the binary that the argument names, and dist/*.tar.gz without one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
DIST = HERE / "dist"

# what PEP 600 lets a binary of a manylinux wheel need, as far as a Go program needs it
ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libresolv.so.2"}
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}


def readelf(*args: str) -> str:
    env = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(["readelf", "-W", *args], check=True, stdout=subprocess.PIPE, text=True, env=env).stdout


def platform_tag(binary: str) -> str:
    """Returns the tag of the oldest systems that the binary can run on: that of the newest symbol of glibc it needs."""
    with open(binary, "rb") as f:
        if f.read(4) != b"\x7fELF":
            sys.exit(f"{binary}: not a binary for Linux: there are wheels for Linux only")
    found = re.search(r"Machine:\s+(.+)", readelf("-h", binary))
    machine = MACHINES.get(found[1].strip() if found else "")
    if not machine:
        sys.exit(f"{binary}: is for {found and found[1]}, must be for one of {', '.join(MACHINES)}")
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", binary)))
    if not needed and "INTERP" not in readelf("-l", binary):
        # it needs no C library; these are the oldest tags that pip knows
        return f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    extra = {n for n in needed if n not in ALLOWED and not n.startswith("ld-linux")}
    if extra:
        sys.exit(f"{binary}: needs {', '.join(sorted(extra))}, which manylinux does not allow")
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", readelf("--version-info", binary))]
    newest = max([(2, 17), *((v + (0,))[:2] for v in versions)])
    return f"manylinux_{newest[0]}_{newest[1]}_{machine}"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: pack.py BINARY")
    binary = os.path.abspath(sys.argv[1])
    tag = platform_tag(binary)
    for old in [*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")]:
        old.unlink()
    stage = DIST / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    generated = shutil.ignore_patterns("_sync", "__pycache__")
    shutil.copytree(HERE / "src", stage / "src", ignore=generated)
    for f in [HERE / "pyproject.toml", HERE / "hatch_build.py", HERE / "README.md", ROOT / "LICENSE-MIT", ROOT / "LICENSE-APACHE"]:
        shutil.copy(f, stage)
    python = DIST / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(DIST / "venv", with_pip=True)
    requires = re.search(r"^requires = \[(.*)\]$", (HERE / "pyproject.toml").read_text(), re.M)
    assert requires
    backend = [r.strip(' "') for r in requires[1].split(",")]
    subprocess.run([python, "-m", "pip", "install", "-q", "build>=1.2", *backend], check=True)
    epoch = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=HERE, stdout=subprocess.PIPE, text=True).stdout.strip()
    env = {**os.environ, "TROUPE_WHEEL_BINARY": binary, "TROUPE_WHEEL_TAG": tag, "SOURCE_DATE_EPOCH": epoch or "315532800"}
    subprocess.run([python, "-m", "build", "--no-isolation", "--outdir", DIST, stage], check=True, stdout=subprocess.DEVNULL, env=env)
    shutil.rmtree(stage)
    size = os.path.getsize(binary) / (1 << 20)
    for f in sorted([*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")]):
        print(f"{f.relative_to(HERE)}  {f.stat().st_size / (1 << 20):.2f} MiB")
    print(f"the binary has {size:.2f} MiB")


main()
