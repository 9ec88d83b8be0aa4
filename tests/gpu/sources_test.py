#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/run.sh links kernels/ and codec/ with a list of sources from base/, on machines where nobody wants to mend it. This asks
the built libraries whether the list is enough. Called with nm, run.sh and the libraries: kernels, codec, and base as the last."""
import collections
import pathlib
import re
import subprocess
import sys


def symbols(nm: str, library: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Per object of the library: what it defines, and what it lacks."""
    defined, lacking = collections.defaultdict(set), collections.defaultdict(set)
    listing = subprocess.run([nm, "-A", library], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        m = re.fullmatch(r".*?([\w.-]+)\.cc\.o:\s*[0-9a-f]*\s+(\w) (\S+)", line)
        if m:
            (lacking if m[2] in "Uvw" else defined)[m[1]].add(m[3])
    return defined, lacking


def needed(wanted: set[str], defined: dict[str, set[str]], lacking: dict[str, set[str]]) -> set[str]:
    """Objects that a linker takes from a library to define what is wanted, and what they want in turn."""
    taken: set[str] = set()
    waiting = list(wanted)
    while waiting:
        symbol = waiting.pop()
        for name, has in defined.items():
            if symbol in has and name not in taken:
                taken.add(name)
                waiting += lacking[name]
    return taken


def main() -> int:
    nm, script, *libraries, base = sys.argv[1:]
    listed = set(re.search(r"^base=\(([^)]*)\)", pathlib.Path(script).read_text(), re.MULTILINE)[1].split())
    wanted = {symbol for library in libraries for lacks in symbols(nm, library)[1].values() for symbol in lacks}
    defined, lacking = symbols(nm, base)
    missing = needed(wanted, defined, lacking) - listed - {"fmt"}
    if not wanted or not defined or not needed(wanted, defined, lacking):
        print("nothing was found: are these the libraries?")
        return 1
    print(f"run.sh must link base's {', '.join(sorted(missing))} too" if missing else f"run.sh's list is enough: {', '.join(sorted(listed))}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
