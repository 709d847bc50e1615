"""Build hook: writes the synchronous half of the package, and adds the binary that TROUPE_WHEEL_BINARY names.

Without that variable the wheel is one for any platform, which uses a binary from elsewhere. TROUPE_WHEEL_TAG has the
platform tag of the binary, as scripts/pack.py finds it.
"""

import os
from pathlib import Path

import unasync
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# what the asynchronous names are called in the synchronous half, beside what unasync knows
NAMES = {
    "AsyncChain": "Chain",
    "AsyncClient": "Client",
    "AsyncSandbox": "Sandbox",
    "AsyncSubscription": "Subscription",
    "AsyncWorld": "World",
    "_io_async": "_io_sync",
    "aclose": "close",
}


def write_sync(root: Path) -> None:
    package = root / "src" / "troupe_sandbox"
    rule = unasync.Rule(str(package / "_async"), str(package / "_sync"), NAMES)
    unasync.unasync_files([str(f) for f in sorted((package / "_async").glob("*.py"))], [rule])


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: "dict[str, object]") -> None:
        write_sync(Path(self.root))
        binary = os.environ.get("TROUPE_WHEEL_BINARY")
        if self.target_name != "wheel" or not binary:
            return
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["TROUPE_WHEEL_TAG"]
        build_data["force_include"] = {binary: "troupe_sandbox/bin/troupe"}
