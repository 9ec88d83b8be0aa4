# SPDX-License-Identifier: Apache-2.0
"""libnccl.so.2 as a loader sees it: what it needs, and what it shows. Usage: api_library_test.py READELF LIBRARY."""
import re
import subprocess
import sys

NEEDED = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"}
SHOWN = re.compile(r"^(p?nccl|isthmus)[A-Z]")


def main() -> int:
    readelf, library = sys.argv[1:]

    def read(*options: str) -> str:
        return subprocess.run([readelf, *options, library], check=True, capture_output=True, text=True).stdout

    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", read("--dynamic")))
    rows = [line.split() for line in read("--dyn-syms", "--wide").splitlines()]
    shown = {row[7] for row in rows if len(row) == 8 and row[6].isdigit() and row[4] in ("GLOBAL", "WEAK")}
    wrong = [f"it needs {name}" for name in sorted(needed - NEEDED)] + [f"it shows {name}" for name in sorted(shown) if not SHOWN.match(name)]
    if "ncclAllReduce" not in shown or "isthmusAggregatorSum" not in shown or "libc.so.6" not in needed:
        wrong.append("it does not show its calls, or readelf speaks another language")
    for line in wrong:
        print(line)
    print(f"{len(needed)} libraries needed, {len(shown)} symbols shown")
    return 1 if wrong else 0


sys.exit(main())
