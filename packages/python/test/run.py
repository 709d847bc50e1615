"""Tests the built wheel: installs dist/*.whl with a new HOME in a temporary folder, and runs test/project there.

The wheel's dependencies, pytest, py-near and the type checkers come from PyPI. PYTHON names another Python to test with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Sequence

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent
ROOT = PACKAGE.parent.parent
TIMEOUT = 900.0
# of the caller's variables the environment of the tests has those by which pip reaches a registry
KEPT = re.compile(r"(?i)PIP_.*|.*_PROXY|SSL_CERT_FILE|REQUESTS_CA_BUNDLE")

failed: List[str] = []


def run(what: str, command: Sequence["str | Path"], cwd: Path, env: Dict[str, str]) -> None:
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as err:
        code, output = -1, f"{err.output}\nnot done in {TIMEOUT:g} s"
    print(f"{'FAIL' if code else 'ok  '} {what}: {time.monotonic() - begin:.2f} s", flush=True)
    if code:
        failed.append(what)
        print(output, flush=True)


def examples(readme: Path, folder: Path) -> List[Path]:
    """Writes the examples of the README, each a file or a part of one."""
    found: List[Path] = []
    for name, text in re.findall(r"<!-- file (\S+) -->\n```\w+\n(.*?)```", readme.read_text(), re.S):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        found.append(path)
    return found


def left_processes(folder: Path) -> List[str]:
    left: List[str] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe").startswith(str(folder)):
                left.append(pid)
        except OSError:
            pass  # no process, one of another user, or one that has ended
    return left


def main() -> None:
    wheels = sorted((PACKAGE / "dist").glob("*.whl"))
    if len(wheels) != 1:
        sys.exit("packages/python/dist has no wheel: run make packages")
    top = Path(tempfile.mkdtemp(prefix="troupe-python-"))
    home, temp, project, readme = (top / n for n in ("home", "tmp", "project", "readme"))
    for d in (home, temp, readme):
        d.mkdir()
    shutil.copytree(HERE / "project", project, ignore=shutil.ignore_patterns("__pycache__"))
    env = {k: v for k, v in os.environ.items() if KEPT.fullmatch(k)}
    env.update(HOME=str(home), TMPDIR=str(temp), LANG="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")
    env["FT_WASM"] = str(ROOT / "internal" / "testkit" / "contracts" / "c" / "ft.wasm")
    base = os.environ.get("PYTHON", sys.executable)
    python = top / "venv" / "bin" / "python"
    env["PATH"] = f"{python.parent}:{os.environ['PATH']}"
    pytest = [python, "-m", "pytest"]
    try:
        run("a virtual environment", [base, "-m", "venv", top / "venv"], top, env)
        run(f"install {wheels[0].name}", [python, "-m", "pip", "install", "-q", wheels[0]], top, env)
        alone = "from troupe_sandbox import Sandbox\nwith Sandbox.start() as s: print(s.new_world().mine(2)['height'])"
        run("a world, before anything else is installed", [python, "-c", alone], top, env)
        tools = ["pytest", "py-near==1.2.22", "mypy", "pyright"]
        run(f"install {' '.join(tools)}", [python, "-m", "pip", "install", "-q", *tools], top, env)
        run("start, stop, errors, ends of the runner", [*pytest, "test_start.py"], project, env)
        run("every part of the API", [*pytest, "test_api.py"], project, env)
        run("the methods of /openapi.json", [*pytest, "test_methods.py"], project, env)
        run("asyncio", [*pytest, "test_async.py"], project, env)
        run("the plugin", [*pytest, "test_plugin.py"], project, env)
        run("50 tests with a world each", [*pytest, "test_worlds.py"], project, env)
        # py-near's own code warns
        run("py-near", [*pytest, "-W", "default", "test_py_near.py"], project, env)
        for example in examples(PACKAGE / "README.md", readme):
            if example.name in ("pytest.ini", "conftest.py"):
                continue
            command = [*pytest, "-q", example.name] if example.name.startswith("test_") else [python, example.name]
            run(f"README {example.name}", command, readme, env)
        shutil.copy(PACKAGE / "pyproject.toml", project)
        run("mypy", [python, "-m", "mypy", "typed.py", *sorted(p.name for p in project.glob("test_*.py"))], project, env)
        run("pyright", ["pyright", "--pythonpath", python, "typed.py"], project, env)
        run("pyright: the types are complete", ["pyright", "--pythonpath", python, "--ignoreexternal", "--verifytypes", "troupe_sandbox"], project, env)
        left = left_processes(top)
        if left:
            failed.append("processes")
            print(f"FAIL these processes of troupe are left: {left}")
        homes = [f for f in os.listdir(temp) if f.startswith("troupe-dev-")]
        if homes:
            failed.append("folders")
            print(f"FAIL left in the temporary folder: {homes}")
        version = subprocess.run([python, "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()
        print(f"{len(failed)} failed" if failed else f"all passed with {version}")
    finally:
        shutil.rmtree(top, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()
