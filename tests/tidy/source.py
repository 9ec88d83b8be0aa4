# SPDX-License-Identifier: Apache-2.0
"""The tree as the rules see it: files with their text, C++ with comments and literals blanked out, includes, and functions with
their lengths. Used by tidy.py, lint.py and tidy_test.py. Nothing here judges; malformed C++ gives fewer functions, never an error."""
from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import subprocess
from typing import Iterator

CXX_SUFFIXES = {".cc", ".h", ".c", ".cu", ".inc"}
TEXT_SUFFIXES = CXX_SUFFIXES | {".py", ".sh", ".md", ".build", ".txt", ".map", ".svg", ".yml", ".json", ".csv", ""}
INCLUDE_FOLDERS = ("src/", "", "include/", "perf/")  # perf/ for the sweeps, which see nothing of src/
SKIPPED_FOLDERS = re.compile(r"^(build.*|\.git|\.cache|__pycache__)$")

# Comments, raw strings, strings and character literals; a digit separator (1'000) is no literal.
TOKENS = re.compile(
    r"//(?:[^\n\\]|\\.|\\\n)*"
    r"|/\*.*?\*/"
    r'|\bR"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:[^"\\\n]|\\.|\\\n)*"'
    r"|(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+'",
    re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)', re.MULTILINE)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def strip_comments(text: str) -> str:
    """Comments become spaces; lines stay where they are."""
    return TOKENS.sub(lambda m: _blank(m[0]) if m[0].startswith("/") else m[0], text)


def code_of(text: str) -> str:
    """Comments and the insides of literals become spaces; lines and columns stay where they are."""
    return TOKENS.sub(lambda m: _blank(m[0]) if m[0].startswith("/") else '"' + _blank(m[0][1:-1]) + '"', text)


def line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


@dataclasses.dataclass(frozen=True)
class Include:
    line: int
    name: str
    quoted: bool


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    line: int
    lines: int


@dataclasses.dataclass(frozen=True)
class File:
    path: str  # from the root of the tree, with forward slashes
    text: str

    @property
    def is_cxx(self) -> bool:
        return pathlib.PurePosixPath(self.path).suffix in CXX_SUFFIXES

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @functools.cached_property
    def code(self) -> str:
        return code_of(self.text)

    @functools.cached_property
    def includes(self) -> list[Include]:
        text = strip_comments(self.text)
        return [Include(line_at(text, m.start()), m["quoted"] or m["angled"], m["quoted"] is not None) for m in INCLUDE.finditer(text)]

    @functools.cached_property
    def functions(self) -> list[Function]:
        return list(_functions(DIRECTIVE.sub(lambda m: _blank(m[0]), self.code)))


def _matching_brace(code: str, start: int) -> int:
    """The position of the brace that closes the one at `start`, or the end of the text."""
    depth = 0
    for m in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if m[0] == "{" else -1
        if depth == 0:
            return m.start()
    return len(code)


TYPE_HEAD = re.compile(r"(?:^|[\s>;])(?:class|struct|union|enum)\b(?!.*\))", re.DOTALL)
PARENTHESISED_ATTRIBUTE = re.compile(r"\b(?:alignas|__attribute__|__declspec)\s*(\((?:[^()]|\([^()]*\))*\))")


def _opens_scope(head: str) -> bool:
    head = PARENTHESISED_ATTRIBUTE.sub(" ", head)
    return bool(re.search(r"\bnamespace\b|\bextern\s*\"\s*\"\s*$", head) or TYPE_HEAD.search(head))


def _name_of(head: str) -> str:
    m = re.search(r"((?:[\w:]*::)?operator\s*\(\)|(?:[\w:]*::)?operator[^\w\s(]+|[~\w:]+)\s*\(", head)
    return m[1] if m else head.strip()[:40]


def _functions(code: str) -> Iterator[Function]:
    """Every outermost brace pair that follows a parameter list outside functions; lambdas count to the function around them."""
    head_start = position = parens = 0
    while position < len(code):
        c = code[position]
        if c in "()":
            parens += 1 if c == "(" else -1
        elif c in ";}" and parens <= 0:
            head_start = position + 1
        elif c == "{":
            head = code[head_start:position]
            if parens <= 0 and _opens_scope(head):
                head_start = position + 1
            else:
                end = _matching_brace(code, position)
                after = code[end + 1:end + 200].lstrip()[:1]
                if parens <= 0 and ")" in head and after not in (",", "{"):  # those follow a member initialiser
                    first = head_start + len(head) - len(head.lstrip())
                    yield Function(_name_of(head), line_at(code, first), line_at(code, end) - line_at(code, first) + 1)
                    head_start = end + 1
                position = end
        position += 1


@dataclasses.dataclass
class Tree:
    root: pathlib.Path
    files: dict[str, File]

    def read(self, path: str) -> str:
        return self.files[path].text if path in self.files else ""

    def resolve(self, source: File, include: Include) -> str | None:
        """The project file that an include names, or None. Tests also reach helpers in folders of their own meson.build's choice."""
        beside = str(pathlib.PurePosixPath(source.path).parent / include.name)
        for candidate in ([beside] if include.quoted else []) + [f"{folder}{include.name}" for folder in INCLUDE_FOLDERS]:
            if candidate in self.files:
                return candidate
        if include.quoted and source.path.startswith("tests/"):
            return next((path for path in self.files if path.startswith("tests/") and path.endswith("/" + include.name)), None)
        return None

    def closure(self, path: str) -> list[str]:
        """The file and every project file that it includes, directly or not, sorted."""
        seen, waiting = set(), [path]
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            waiting += [to for inc in self.files[at].includes if (to := self.resolve(self.files[at], inc))]
        return sorted(seen)


def _tracked(root: pathlib.Path) -> list[str]:
    listing = subprocess.run(["git", "-C", str(root), "-c", f"safe.directory={root}", "ls-files", "-z", "--cached", "--others",
                              "--exclude-standard"], capture_output=True, text=True, check=False)
    if listing.returncode == 0 and (root / ".git").exists():
        return [p for p in listing.stdout.split("\0") if p]
    found = (p.relative_to(root) for p in root.rglob("*") if p.is_file())
    return [p.as_posix() for p in found if not any(SKIPPED_FOLDERS.match(part) for part in p.parts)]


def read_tree(root: pathlib.Path) -> Tree:
    """Every text file that git knows or would add; without git, every text file outside build folders."""
    files = {}
    for path in sorted(_tracked(root)):
        full = root / path
        if full.is_file() and not full.is_symlink() and full.suffix in TEXT_SUFFIXES:
            files[path] = File(path, full.read_text(encoding="utf-8", errors="replace"))
    return Tree(root, files)
