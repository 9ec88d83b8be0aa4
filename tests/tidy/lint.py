#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has clang read every header on its own and every source, in parallel, remembering what passed by content. Called by ./dev check.

    lint.py BUILD JOBS CACHE [FILE...]   BUILD holds clang's compile_commands.json

Sources go through clang-tidy, which reports clang's own errors and warnings too; those of tests/ through clang alone, as their macros
cost clang-tidy much time and yield little (name a test to have it checked). Named sources get the slow checks too. A header that a source
includes first is compiled alone by that source already. A file is checked again when it, a project header that it includes, its flags,
.clang-tidy or the compiler changes.
Prints the output of what failed, and fails then.
"""
from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys

from source import Tree, read_tree

HEADER_CHECK = ["clang++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DISTHMUS_WITHOUT_CUDA", "-x", "c++", "-"]
C_HEADER_CHECK = ["clang", "-std=c99", "-pedantic", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DISTHMUS_WITHOUT_CUDA", "-x", "c", "-"]


# For sources that are named.
SLOW_CHECKS = ",".join(("performance-unnecessary-value-param", "misc-unused-using-decls", "readability-container-size-empty",
                        "bugprone-infinite-loop", "modernize-use-nullptr"))


@dataclasses.dataclass(frozen=True)
class Task:
    name: str
    key: str
    command: list[str]
    text: str = ""  # standard input
    folder: pathlib.Path | None = None


def content_key(tree: Tree, path: str, extra: str) -> str:
    digest = hashlib.sha256(extra.encode())
    for name in tree.closure(path):
        digest.update(name.encode() + b"\0" + tree.files[name].text.encode() + b"\0")
    return digest.hexdigest()


def _commands(build: pathlib.Path) -> dict[str, str]:
    """How the build compiles each source, by absolute path."""
    return {str((build / entry["file"]).resolve()): entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())}


def first_includes(tree: Tree) -> set[str]:
    """Headers that some source includes before anything else."""
    sources = (file for file in tree.files.values() if file.path.endswith(".cc") and file.includes)
    return {tree.resolve(file, file.includes[0]) for file in sources} - {None}


def _header_tasks(tree: Tree, compiler: str, chosen: list[str]) -> list[Task]:
    tasks = []
    alone = first_includes(tree)
    for path in chosen:
        if path in alone:
            continue
        languages = [("header", HEADER_CHECK)] + ([("C header", C_HEADER_CHECK)] if path.startswith("include/") else [])
        for kind, check in languages if path.endswith(".h") else []:
            command = check + [f"-I{tree.root}{folder}" for folder in ("", "/src", "/include")]
            key = content_key(tree, path, compiler + " ".join(command))
            tasks.append(Task(f"{kind} {path}", key, command, f'#include "{tree.root / path}"\n'))
    return tasks


def _tidy_tasks(tree: Tree, build: pathlib.Path, compiler: str, chosen: list[str], more_checks: list[str]) -> list[Task]:
    commands = _commands(build)
    config = tree.read(".clang-tidy")
    tasks = []
    for path in chosen:
        full = str((tree.root / path).resolve())
        if full in commands:
            command = ["clang-tidy", "--quiet", *more_checks, "-p", str(build), full]
            key = content_key(tree, path, compiler + config + " ".join(command) + commands[full])
            tasks.append(Task(f"clang-tidy {path}", key, command))
    return tasks


@functools.cache
def _googletest(flags: tuple[str, ...], build: pathlib.Path, cache: pathlib.Path) -> pathlib.Path:
    """Googletest's headers, half of what most tests consist of, read once. Made anew in every run."""
    path = cache / f"googletest-{hashlib.sha256(' '.join(flags).encode()).hexdigest()[:16]}.pch"
    headers = "#include <gmock/gmock.h>\n#include <gtest/gtest.h>\n"
    subprocess.run([*flags, "-x", "c++-header", "-", "-o", str(path)], input=headers, text=True, check=True, cwd=build)
    return path


def _clang_command(command: str, build: pathlib.Path, cache: pathlib.Path) -> list[str]:
    """How a source is compiled, without what would be written."""
    arguments = shlex.split(re.sub(r" -(o|MQ|MF) \S+| -MD", "", command.removeprefix("ccache "))) + ["-fsyntax-only"]
    if "-DGTEST_HAS_PTHREAD=1" in arguments and "-std=c++20" in arguments:
        flags = tuple(word for word in arguments[: arguments.index("-c")] if not re.match("-I|-isystem", word))
        arguments += ["-include-pch", str(_googletest(flags, build, cache))]
    return arguments


def _test_tasks(tree: Tree, build: pathlib.Path, cache: pathlib.Path, compiler: str) -> list[Task]:
    commands = _commands(build)
    tasks = []
    for path in tree.files:
        full = str((tree.root / path).resolve())
        if path.startswith("tests/") and full in commands:
            key = content_key(tree, path, compiler + commands[full])
            passed = (cache / key).exists()
            tasks.append(Task(f"clang {path}", key, [] if passed else _clang_command(commands[full], build, cache), folder=build))
    return tasks


def _run(task: Task, cache: pathlib.Path) -> tuple[Task, str | None]:
    """None if it passed, now or before; else what it printed."""
    done = cache / task.key
    if done.exists():
        return task, None
    result = subprocess.run(task.command, input=task.text, capture_output=True, text=True, check=False, cwd=task.folder)
    if result.returncode == 0:
        done.touch()
        return task, None
    return task, result.stdout + result.stderr


def _report(results, total: int) -> int:
    failed = []
    for number, (task, output) in enumerate(results, 1):
        print(f"[{number}/{total}] {task.name}{'' if output is None else ' FAILED'}", flush=True)
        if output is not None:
            failed.append(task.name)
            print(output, flush=True)
    print(f"{total} checks, {len(failed)} failed" + "".join(f"\n  {name}" for name in failed))
    return 1 if failed else 0


def main() -> int:
    build, jobs, cache = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    tree = read_tree(pathlib.Path(__file__).resolve().parents[2])
    named = [pathlib.Path(name).resolve().relative_to(tree.root).as_posix() for name in sys.argv[4:]]
    headers = named or [path for path, file in tree.files.items() if file.is_cxx]
    sources = named or [path for path in headers if not path.startswith("tests/")]
    compiler = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    cache.mkdir(parents=True, exist_ok=True)
    tasks = _header_tasks(tree, compiler, headers) + _tidy_tasks(tree, build, compiler, sources, [f"--checks={SLOW_CHECKS}"] if named else [])
    if not named:
        tasks += _test_tasks(tree, build, cache, compiler)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return _report(pool.map(lambda task: _run(task, cache), tasks), len(tasks))


if __name__ == "__main__":
    sys.exit(main())
