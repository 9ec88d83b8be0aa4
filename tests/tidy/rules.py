# SPDX-License-Identifier: Apache-2.0
"""The house rules that look at one file, or at names across the tree: sizes, headings, forbidden calls and words, settings,
names, registration in meson.build. Used by tidy.py. Each rule yields (path, line, rule, message)."""
from __future__ import annotations

import pathlib
import posixpath
import re
from typing import Iterator

from arrows import ANYTHING, ARROWS, Finding, room_of
from source import File, Tree, line_at

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_ALGORITHM_LINES = 120
SPDX = "SPDX-License-Identifier: Apache-2.0"

SETTINGS_TABLE = "src/base/settings_table.cc"
ENVIRONMENT = "src/base/settings.cc"
# Files that may touch the environment, and why.
ENVIRONMENT_ALLOWED = {
    ENVIRONMENT: "the one reader",
    "perf/sweep/launch_env.cc": "the sweeps use include/ only, so they read their launcher's rank and size themselves",
}
# Files that may use placement new, and why.
PLACEMENT_NEW_ALLOWED: dict[str, str] = {}

OWN_RULES = "tests/tidy/"  # these files spell what they forbid
ROADMAP = "docs/roadmap.md"


def _first_lines(file: File) -> list[str]:
    lines = file.lines
    return lines[1:] if lines and lines[0].startswith("#!") else lines


def _is_script(file: File) -> bool:
    return file.text.startswith("#!") or pathlib.PurePosixPath(file.path).suffix in (".py", ".sh", ".build", ".map") \
        or file.path.endswith("meson_options.txt")


def check_headings(tree: Tree) -> Iterator[Finding]:
    """SPDX line first, then a comment that says what the file is."""
    for file in tree.files.values():
        if not (file.is_cxx or _is_script(file)):
            continue
        lines = _first_lines(file)
        if not lines or not re.fullmatch(rf"(//|#|/\*) {SPDX}( \*/)?", lines[0]):
            yield file.path, 1, "licence", f"the first line must be '{'//' if file.is_cxx else '#'} {SPDX}'"
        elif len(lines) < 2 or not lines[1].startswith(("//", "/*", " *", "#", '"""')) or lines[1].startswith("#include"):
            yield file.path, 2, "opening", "an opening comment must say what the file is, who uses it and what can fail"


def check_sizes(tree: Tree) -> Iterator[Finding]:
    for file in tree.files.values():
        if not (file.is_cxx or _is_script(file)):
            continue
        parts = pathlib.PurePosixPath(file.path).parts
        is_algorithm = parts[0] == "collectives" and len(parts) > 2 and file.path.endswith(".cc")
        limit = MAX_ALGORITHM_LINES if is_algorithm else MAX_FILE_LINES
        if len(file.lines) > limit:
            yield file.path, limit + 1, "file-size", f"{len(file.lines)} lines; at most {limit}"
        if file.is_cxx:
            for function in file.functions:
                if function.lines > MAX_FUNCTION_LINES:
                    yield file.path, function.line, "function-size", f"{function.name} has {function.lines} lines; at most {MAX_FUNCTION_LINES}"


# Files and rooms that may throw, and why.
THROW_ROOMS = ("perf", "cli")  # programs, which end by an exception or tell their command line's parser with one
THROW_ALLOWED = {
    "src/base/crypto.cc": "libcrypto's lack of memory is std::bad_alloc, like everybody's",
}

# What C++ outside the tests must not say: rule, pattern over code without comments and literals, what to do, files excepted.
FORBIDDEN_CODE = [
    ("environment", re.compile(r"\b(?:secure_getenv|getenv|setenv|putenv|unsetenv|clearenv|environ)\b"),
     f"the environment is read in {ENVIRONMENT} only", ENVIRONMENT_ALLOWED),
    ("throw", re.compile(r"\bthrow\b"), "return a Status; exceptions do not cross rooms", THROW_ALLOWED),
    ("new", re.compile(r"(?<!operator )\bnew\b(?!\s*\()"), "use make_unique or a container; with a private constructor, std::unique_ptr<T>(new T)", {}),
    ("placement-new", re.compile(r"(?<!operator )\bnew\s*\("), "placement new is for the files that tests/tidy/rules.py lists", PLACEMENT_NEW_ALLOWED),
    ("delete", re.compile(r"(?<!=)(?<!= )(?<!operator )\bdelete\b"), "memory belongs to a container or a smart pointer", {}),
]


OWNED = re.compile(r"\b(?:unique|shared)_ptr<[^;]*>\s*\w*[({]\s*$")  # what precedes a new whose result is owned at once
WITHOUT_INCLUDES = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.MULTILINE)  # <new> is no allocation


def check_code(tree: Tree) -> Iterator[Finding]:
    for file in tree.files.values():
        if not file.is_cxx or room_of(file.path) in (None, "tests"):
            continue
        for rule, pattern, advice, excepted in FORBIDDEN_CODE:
            if file.path not in excepted and not (rule == "throw" and room_of(file.path) in THROW_ROOMS):
                code = WITHOUT_INCLUDES.sub("", file.code)
                for m in pattern.finditer(code):
                    if rule == "new" and OWNED.search(code[max(0, m.start() - 200):m.start()]):
                        continue
                    yield file.path, line_at(code, m.start()), rule, f"'{m[0]}': {advice}"
        for include in file.includes:
            if not include.quoted and include.name in ("source_location", "ranges", "format"):
                yield file.path, include.line, "library", f"<{include.name}> is not complete in both compilers that must build this"
        if file.path.endswith(".h") and "#pragma once" not in file.text and not file.path.startswith("include/"):
            yield file.path, 1, "header", "#pragma once is missing"


# Places and hosts that mean something on one machine only. Spelt so that no line here matches itself.
FOREIGN = re.compile(r"/wor[k]/|/far[m]/|\bfar[m]-|[.][.]/share[d]\b|[.]librar[y]/|/hom[e]/\w|/roo[t]/|https?://(?:deb|pypi|files|registry)[.]")
UNFINISHED = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b(?:\((?P<topic>[\w-]+)\))?")


def check_words(tree: Tree) -> Iterator[Finding]:
    roadmap = tree.read(ROADMAP)
    for file in tree.files.values():
        if file.path.startswith(OWN_RULES):
            continue
        for m in FOREIGN.finditer(file.text):
            yield file.path, line_at(file.text, m.start()), "foreign", f"'{m[0]}' means nothing outside one machine"
        for m in UNFINISHED.finditer(file.text):
            if not (m["topic"] and m["topic"] in roadmap):
                yield file.path, line_at(file.text, m.start()), "unfinished", f"'{m[0]}' needs its topic, '{m[1]}(topic)', and a line in {ROADMAP}"


LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
MENTION = re.compile(r"\bdocs/[\w./-]+\.md\b")


def check_links(tree: Tree) -> Iterator[Finding]:
    """Documents that are linked or mentioned exist."""
    folders = {parent.as_posix() for path in tree.files for parent in pathlib.PurePosixPath(path).parents}
    for file in tree.files.values():
        if file.path.startswith(OWN_RULES):
            continue
        folder = pathlib.PurePosixPath(file.path).parent
        links = [(m, (folder / m[1]).as_posix()) for m in LINK.finditer(file.text)] if file.path.endswith(".md") else []
        for m, target in links + [(m, m[0]) for m in MENTION.finditer(file.text)]:
            if posixpath.normpath(target) not in tree.files and posixpath.normpath(target) not in folders and not target.endswith("LICENSE"):
                yield file.path, line_at(file.text, m.start()), "links", f"there is no {target}"


STRING = re.compile(r'"((?:ISTHMUS|NCCL)_[A-Z0-9_]+)\b')
PROSE = re.compile(r"\b(ISTHMUS_[A-Z0-9_]+)\b")
NOT_SETTINGS = re.compile(r"^ISTHMUS_((DEV|RUN|TEST)_\w*|TRY|ASSIGN|CONCAT\w*|\w+_INITIALIZER)$")  # what ./dev, `isthmus run` and tests hand on; macros


def check_settings(tree: Tree) -> Iterator[Finding]:
    """Every ISTHMUS_* name that the code or the documentation speaks of is a row of the one table."""
    table = tree.read(SETTINGS_TABLE)
    if not table:
        return
    known = set(STRING.findall(table)) | {f"ISTHMUS_{name}" for name in re.findall(r'"([A-Z0-9_]+)"', table)}
    for file in tree.files.values():
        in_code = file.is_cxx and room_of(file.path) not in (None, "tests")
        in_docs = file.path.endswith(".md")
        pattern = STRING if in_code else PROSE if in_docs else None
        if pattern is None or file.path == SETTINGS_TABLE:
            continue
        for m in pattern.finditer(file.text):
            if m[1].startswith("ISTHMUS_") and m[1] not in known and not NOT_SETTINGS.match(m[1]):
                yield file.path, line_at(file.text, m.start()), "settings", f"{m[1]} is no row of {SETTINGS_TABLE}"


SNAKE = re.compile(r"^[a-z0-9][a-z0-9_]*$")
KEBAB = re.compile(r"^[a-z0-9][a-z0-9-]*$")


def check_names(tree: Tree) -> Iterator[Finding]:
    """snake_case sources and folders, kebab-case documents, tests named after a room."""
    for file in tree.files.values():
        path = pathlib.PurePosixPath(file.path)
        folders_ok = all(SNAKE.match(part) for part in path.parts[:-1] if not part.startswith("."))
        if file.is_cxx or path.suffix == ".py":
            if not (SNAKE.match(path.stem.replace(".", "_")) and folders_ok):
                yield file.path, 1, "names", "files and folders of source are snake_case"
        if path.suffix == ".md" and path.parts[0] == "docs" and not KEBAB.match(path.stem):
            yield file.path, 1, "names", "documents are named in kebab-case"
        if path.parts[:2] == ("docs", "decisions"):
            twins = [other for other in tree.files if other.startswith(f"docs/decisions/{path.name[:4]}")]
            if not re.match(r"\d{4}-", path.name) or len(twins) > 1:
                yield file.path, 1, "names", "decisions are numbered, NNNN-topic.md, each number once"
        if path.parts[:2] == ("tests", "unit") and path.name.endswith("_test.cc"):
            room = path.name.split("_")[0]
            if room not in ARROWS and room not in ANYTHING and room not in ("linkemu",):
                yield file.path, 1, "names", f"unit tests are named ROOM_TOPIC_test.cc, and '{room}' is no room"


def _names(build: str, path: pathlib.PurePosixPath) -> bool:
    """True if the text of a meson.build names the source: whole, or in parts that a loop puts together ('target_' + name)."""
    if path.as_posix() in build:
        return True
    words = re.findall(r"'(\w+)'", build)
    return any(path.stem == word or path.stem.startswith(word + "_") or path.stem.endswith("_" + word) for word in words)


def check_built(tree: Tree) -> Iterator[Finding]:
    """Every source is named in a meson.build between it and the root, so nothing lies about that no build ever sees."""
    for file in tree.files.values():
        path = pathlib.PurePosixPath(file.path)
        if path.suffix not in (".cc", ".c", ".cu") or room_of(file.path) is None:
            continue
        builds = [(folder, tree.read((folder / "meson.build").as_posix().removeprefix("./"))) for folder in path.parents]
        if not any(_names(text, path.relative_to(folder)) for folder, text in builds if text):
            yield file.path, 1, "built", "no meson.build names this file"
