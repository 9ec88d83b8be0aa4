#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what Meson knows about the tests. Called by ./dev.

    results.py select BUILD NAME   names of the tests of suite NAME, else of that name, else containing it; fails if there are none
    results.py summary BUILD       prints 'N passed, N failed, N skipped' of the last run; fails if a test failed or none ran
"""
import json
import pathlib
import sys


def select(build: pathlib.Path, wanted: str) -> int:
    tests = json.loads((build / "meson-info" / "intro-tests.json").read_text())
    by_suite = [t["name"] for t in tests if wanted in [suite.split(":")[-1] for suite in t["suite"]]]
    by_name = [t["name"] for t in tests if t["name"] == wanted]
    by_part = [t["name"] for t in tests if wanted in t["name"]]
    chosen = by_suite or by_name or by_part
    if not chosen:
        known = sorted({suite.split(":")[-1] for t in tests for suite in t["suite"]} | {t["name"] for t in tests})
        print(f"dev: no test is or contains '{wanted}'. Suites and tests: {' '.join(known)}", file=sys.stderr)
        return 1
    print("\n".join(dict.fromkeys(chosen)))
    return 0


def summary(build: pathlib.Path) -> int:
    log = build / "meson-logs" / "testlog.json"
    results = [json.loads(line)["result"] for line in log.read_text().splitlines()] if log.exists() else []
    passed = sum(r in ("OK", "EXPECTEDFAIL") for r in results)
    skipped = sum(r == "SKIP" for r in results)
    failed = len(results) - passed - skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed > 0 else 1


def main() -> int:
    command, build, *rest = sys.argv[1:]
    return select(pathlib.Path(build), *rest) if command == "select" else summary(pathlib.Path(build))


if __name__ == "__main__":
    sys.exit(main())
