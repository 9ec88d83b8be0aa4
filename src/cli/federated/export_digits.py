#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the digits that come with scikit-learn: 1797 lines of 64 grey values (8 rows of 8, 0 to 16) and the digit, with commas between.
`isthmus federated simulate` holds a copy of this script and runs it; by hand: python3 export_digits.py > digits.csv. Nothing of
scikit-learn is run, only its file is read. Exit code 3: scikit-learn is not installed."""
import gzip
import pathlib
import sys


DIGITS = pathlib.Path("sklearn/datasets/data/digits.csv.gz")
SYSTEM = "/usr/lib/python3/dist-packages"  # where Debian's packages are, whichever python3 runs this


def main() -> int:
    found = [path for path in (pathlib.Path(folder or ".") / DIGITS for folder in [*sys.path, SYSTEM]) if path.is_file()]
    if not found:
        print("scikit-learn is not installed (Debian: python3-sklearn)", file=sys.stderr)
        return 3
    for line in gzip.decompress(found[0].read_bytes()).decode().splitlines():
        print(",".join(str(int(float(cell))) for cell in line.split(",")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
