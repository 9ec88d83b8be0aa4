#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the tree against the house rules: include arrows and cycles, pure rooms, sizes, headings, forbidden calls and words, the
one table of settings, names. Run by ./dev check and as a test. Prints one line per finding and fails if there is any.

    tidy.py [ROOT]     the tree to check; by default the one that this file lies in
"""
from __future__ import annotations

import pathlib
import sys

import arrows
import rules
from source import Tree, read_tree

CHECKS = [
    arrows.check_arrows,
    arrows.check_purity,
    arrows.check_cycles,
    rules.check_headings,
    rules.check_sizes,
    rules.check_code,
    rules.check_words,
    rules.check_links,
    rules.check_settings,
    rules.check_names,
    rules.check_built,
]


def findings(tree: Tree) -> list[arrows.Finding]:
    return sorted(finding for check in CHECKS for finding in check(tree))


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    tree = read_tree(root)
    found = findings(tree)
    for path, line, rule, message in found:
        print(f"{path}:{line}: {rule}: {message}")
    print(f"{len(tree.files)} files, {len(CHECKS)} checks, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
