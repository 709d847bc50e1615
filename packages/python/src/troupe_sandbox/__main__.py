"""The command `troupe`: becomes the binary."""

import os
import sys

from ._binary import find_binary
from ._errors import NoBinaryError


def main() -> None:
    try:
        binary = find_binary()
    except NoBinaryError as err:
        sys.exit(f"troupe: {err}")
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    main()
