# SPDX-License-Identifier: Apache-2.0
"""Which room may include which, and the rules that read the include graph: arrows (transitively), cycles, the purity of the
deciding rooms. Used by tidy.py. docs/architecture.md draws the same table."""
from __future__ import annotations

import pathlib
import re
from typing import Iterator

from source import File, Tree

Finding = tuple[str, int, str, str]  # path, line, rule, message

# Left may use right, and what right may use. `interface` is src/transport/interface.h alone.
ARROWS = {
    "base": [],
    "wire": ["base"],
    "codec": ["base"],
    "memory": ["base"],
    "plan": ["codec"],
    "kernels": ["codec"],
    "interface": ["wire", "base"],
    "transport": ["interface", "memory", "wire"],
    "bootstrap": ["wire", "interface"],
    "collectives": ["plan", "codec"],
    "topology": ["collectives", "plan", "base"],
    "exec": ["plan", "transport", "memory", "kernels"],
    "comm": ["exec", "bootstrap", "collectives", "topology"],
    "federated": ["comm", "codec", "bootstrap", "wire"],
    "api": ["comm", "federated", "include"],
    "mpi": ["comm", "include"],
    "cuda": ["memory", "kernels", "exec"],
    "include": [],
    "perf": ["include"],
}
ANYTHING = {"cli", "tests", "perf/micro", "perf/tune"}  # these may use any room

# Rooms that decide and never touch the world: no I/O, threads or clocks.
PURE = {"wire", "codec", "plan", "collectives", "topology"}
IMPURE_HEADERS = re.compile(
    r"^(sys/|net/|netinet/|arpa/|linux/|hwloc|uc[pst]/|unistd\.h|fcntl\.h|poll\.h|netdb\.h|dlfcn\.h|pthread\.h|signal\.h"
    r"|chrono|ctime|time\.h|thread|mutex|shared_mutex|condition_variable|future|fstream|iostream|filesystem)")
IMPURE_FOLDERS = ("src/topology/discover/",)


def room_of(path: str) -> str | None:
    """The room that a file belongs to; None for files outside all rooms."""
    parts = pathlib.PurePosixPath(path).parts
    if path == "src/transport/interface.h":
        return "interface"
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] == "perf" and len(parts) > 2 and f"perf/{parts[1]}" in ANYTHING:
        return f"perf/{parts[1]}"
    if parts[0] in ARROWS or parts[0] in ANYTHING:
        return parts[0]
    return None


def reachable(room: str) -> set[str]:
    """Every room that `room` may include, itself among them."""
    if room in ANYTHING:  # but cuda only plugs in, and tests are for nobody else
        return (set(ARROWS) | ANYTHING) - (set() if room == "tests" else {"cuda", "tests"})
    seen: set[str] = set()
    waiting = [room]
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            waiting += ARROWS[at]
    return seen


def check_arrows(tree: Tree) -> Iterator[Finding]:
    for file in tree.files.values():
        room = room_of(file.path)
        if not file.is_cxx or room is None:
            continue
        if room not in ARROWS and room not in ANYTHING:
            yield file.path, 1, "rooms", f"'{room}' is no room; tests/tidy/arrows.py lists them"
            continue
        yield from _check_includes(tree, file, room)


def _check_includes(tree: Tree, file: File, room: str) -> Iterator[Finding]:
    allowed = reachable(room)
    for include in file.includes:
        target = tree.resolve(file, include)
        if target is None:
            if include.quoted:
                yield file.path, include.line, "includes", f'"{include.name}" is not in the tree; library headers take <>'
            continue
        to = room_of(target)
        if to not in allowed:
            yield file.path, include.line, "arrows", f"{room} may not include {to} ({target}); it may use {', '.join(sorted(allowed - {room}))}"


def check_purity(tree: Tree) -> Iterator[Finding]:
    for file in tree.files.values():
        if room_of(file.path) not in PURE or file.path.startswith(IMPURE_FOLDERS):
            continue
        for include in file.includes:
            if not include.quoted and IMPURE_HEADERS.match(include.name):
                yield file.path, include.line, "purity", f"<{include.name}>: this room decides and never touches files, threads or clocks"


def check_cycles(tree: Tree) -> Iterator[Finding]:
    done: set[str] = set()
    for start in tree.files:
        if tree.files[start].is_cxx:
            yield from _cycles_from(tree, start, [], done)


def _cycles_from(tree: Tree, at: str, path: list[str], done: set[str]) -> Iterator[Finding]:
    if at in path:
        yield at, 1, "cycles", "includes itself: " + " -> ".join(path[path.index(at):] + [at])
        return
    if at in done:
        return
    path.append(at)
    for include in tree.files[at].includes:
        target = tree.resolve(tree.files[at], include)
        if target:
            yield from _cycles_from(tree, target, path, done)
    path.pop()
    done.add(at)
