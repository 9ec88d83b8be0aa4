#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what Meson knows about the tests. Called by ./dev.

    results.py select BUILD NAME   names of the tests of suite NAME, else of that name, else containing it; fails if there are none
    results.py summary BUILD...    prints 'N passed, N failed, N skipped' of the last runs; fails if a test failed or some BUILD ran none
"""
import difflib
import json
import pathlib
import sys
import textwrap


def select(build: pathlib.Path, wanted: str) -> int:
    tests = json.loads((build / "meson-info" / "intro-tests.json").read_text())
    by_suite = [t["name"] for t in tests if wanted in [suite.split(":")[-1] for suite in t["suite"]]]
    by_name = [t["name"] for t in tests if t["name"] == wanted]
    by_part = [t["name"] for t in tests if wanted in t["name"]]
    chosen = by_suite or by_name or by_part
    if not chosen:
        known = sorted({suite.split(":")[-1] for t in tests for suite in t["suite"]} | {t["name"] for t in tests})
        alike = difflib.get_close_matches(wanted, known, n=5)
        print(f"dev: no test is or contains '{wanted}'.", file=sys.stderr)
        if alike:
            print(f"     Did you mean: {' '.join(alike)}", file=sys.stderr)
        else:
            print(textwrap.fill("Suites and tests: " + " ".join(known), width=100, initial_indent="     ", subsequent_indent="       "), file=sys.stderr)
        return 1
    print("\n".join(dict.fromkeys(chosen)))
    return 0


def results(build: pathlib.Path) -> list[str]:
    log = build / "meson-logs" / "testlog.json"
    return [json.loads(line)["result"] for line in log.read_text().splitlines()] if log.exists() else []


def is_passed(result: str) -> bool:
    return result in ("OK", "EXPECTEDFAIL")


def summary(builds: list[pathlib.Path]) -> int:
    runs = [results(build) for build in builds]
    everything = [result for run in runs for result in run]
    passed = sum(map(is_passed, everything))
    skipped = everything.count("SKIP")
    failed = len(everything) - passed - skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and all(any(map(is_passed, run)) for run in runs) else 1


def main() -> int:
    command, build, *rest = sys.argv[1:]
    return select(pathlib.Path(build), *rest) if command == "select" else summary([pathlib.Path(each) for each in (build, *rest)])


if __name__ == "__main__":
    sys.exit(main())
