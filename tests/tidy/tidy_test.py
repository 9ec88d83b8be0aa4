#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that every rule of tests/tidy catches what it is for, and leaves alone what merely looks like it: each case is a small
tree made in a temporary folder. Run as a test."""
from __future__ import annotations

import pathlib
import sys
import tempfile
import unittest

import arrows
import lint
from source import File, code_of, read_tree
from tidy import findings

HEAD = "// SPDX-License-Identifier: Apache-2.0\n// A file of a test.\n"
HEADER = HEAD + "#pragma once\n"
BUILD = "# SPDX-License-Identifier: Apache-2.0\n# Builds.\n"


def rules_broken(files: dict[str, str], build: bool = True) -> set[str]:
    """The rules that a tree of these files breaks. A meson.build that names every source is added."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        if build:
            files = {"meson.build": BUILD + "".join(f"'{path}'\n" for path in files)} | files
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return {rule for _, _, rule, _ in findings(read_tree(root))}


class Arrows(unittest.TestCase):
    def test_allowed_directly_and_transitively(self):
        self.assertEqual(rules_broken({
            "src/base/a.h": HEADER,
            "src/wire/f.h": HEADER + '#include "base/a.h"\n',
            "src/exec/e.cc": HEAD + '#include "base/a.h"\n#include "wire/f.h"\n',
        }), set())

    def test_against_the_arrow(self):
        self.assertEqual(rules_broken({"src/exec/e.h": HEADER, "src/plan/p.cc": HEAD + '#include "exec/e.h"\n'}), {"arrows"})

    def test_bootstrap_sees_of_transport_only_the_interface(self):
        tree = {"src/transport/interface.h": HEADER, "src/transport/tcp/tcp.h": HEADER}
        self.assertEqual(rules_broken(tree | {"src/bootstrap/b.cc": HEAD + '#include "transport/interface.h"\n'}), set())
        self.assertEqual(rules_broken(tree | {"src/bootstrap/b.cc": HEAD + '#include "transport/tcp/tcp.h"\n'}), {"arrows"})

    def test_sweeps_use_the_public_headers_only(self):
        tree = {"include/nccl.h": HEADER, "src/base/a.h": HEADER}
        self.assertEqual(rules_broken(tree | {"perf/sweep/s.cc": HEAD + "#include <nccl.h>\n"}), set())
        self.assertEqual(rules_broken(tree | {"perf/sweep/s.cc": HEAD + '#include "base/a.h"\n'}), {"arrows"})
        self.assertEqual(rules_broken(tree | {"perf/micro/m.cc": HEAD + '#include "base/a.h"\n'}), set())

    def test_nobody_includes_cuda_or_tests(self):
        tree = {"cuda/c.h": HEADER, "tests/proc/t.h": HEADER}
        self.assertEqual(rules_broken(tree | {"src/cli/m.cc": HEAD + '#include "cuda/c.h"\n'}), {"arrows"})
        self.assertEqual(rules_broken(tree | {"src/cli/m.cc": HEAD + '#include "tests/proc/t.h"\n'}), {"arrows"})

    def test_angle_brackets_hide_nothing(self):
        self.assertEqual(rules_broken({"src/exec/e.h": HEADER, "src/base/b.cc": HEAD + "#include <exec/e.h>\n"}), {"arrows"})

    def test_unknown_room_and_unknown_header(self):
        self.assertEqual(rules_broken({"src/attic/a.cc": HEAD}), {"rooms"})
        self.assertEqual(rules_broken({"src/base/a.cc": HEAD + '#include "base/nowhere.h"\n'}), {"includes"})

    def test_commented_includes_do_not_count(self):
        self.assertEqual(rules_broken({"src/exec/e.h": HEADER, "src/base/b.cc": HEAD + '// #include "exec/e.h"\n/*\n#include "exec/e.h"\n*/\n'}), set())

    def test_cycle(self):
        self.assertEqual(rules_broken({"src/base/a.h": HEADER + '#include "base/b.h"\n', "src/base/b.h": HEADER + '#include "base/a.h"\n'}), {"cycles"})

    def test_pure_rooms(self):
        self.assertEqual(rules_broken({"src/plan/p.cc": HEAD + "#include <thread>\n"}), {"purity"})
        self.assertEqual(rules_broken({"src/topology/cost.cc": HEAD + "#include <fstream>\n"}), {"purity"})
        self.assertEqual(rules_broken({"src/topology/discover/host.cc": HEAD + "#include <fstream>\n"}), set())

    def test_the_table_itself_has_no_cycle(self):
        for room, direct in arrows.ARROWS.items():
            for other in direct:
                self.assertNotIn(room, arrows.reachable(other))


class Sizes(unittest.TestCase):
    def test_file(self):
        self.assertEqual(rules_broken({"src/base/a.h": HEADER + "\n" * 497}), set())
        self.assertEqual(rules_broken({"src/base/a.h": HEADER + "\n" * 498}), {"file-size"})

    def test_algorithm_file(self):
        self.assertEqual(rules_broken({"collectives/allreduce/ring.cc": HEAD + "\n" * 119}), {"file-size"})
        self.assertEqual(rules_broken({"collectives/registry.cc": HEAD + "\n" * 119}), set())

    def test_function(self):
        def function_of(lines: int) -> dict[str, str]:
            return {"src/base/a.cc": HEAD + "namespace n {\nint f(int a) {\n" + "  a++;\n" * (lines - 2) + "}\n}\n"}
        self.assertEqual(rules_broken(function_of(70)), set())
        self.assertEqual(rules_broken(function_of(71)), {"function-size"})


class Functions(unittest.TestCase):
    def found(self, code: str) -> list[tuple[str, int]]:
        return [(f.name, f.lines) for f in File("a.cc", code).functions]

    def test_members_lambdas_and_nested_types(self):
        self.assertEqual(self.found("struct S {\n  int f() const {\n    auto g = [](int x) {\n      return x;\n    };\n    return g(1);\n  }\n};\n"), [("f", 6)])

    def test_member_initialisers_in_braces(self):
        self.assertEqual(self.found("A::A(int x)\n    : a_{x}, b_(x), c_{f(x), 2}\n{\n  g();\n}\nint h() { return 1; }\n"), [("A::A", 5), ("h", 1)])

    def test_braces_in_literals_comments_and_macros(self):
        self.assertEqual(self.found("int f() {\n  // }\n  call(\"}\", '}', R\"x(})\")x\");\n  /* } */\n  int n = 1'000'000;\n}\n#define M(x) {\\\n  {\nint g() {\n}\n"),
                         [("f", 6), ("g", 2)])

    def test_tables_are_no_functions(self):
        self.assertEqual(self.found("constexpr int kTable[] = {\n  1,\n  2,\n};\nint x{3};\nenum class E : int {\n  a,\n};\n"), [])

    def test_default_arguments_templates_and_operators(self):
        self.assertEqual(self.found("template <class T, typename U = std::map<int, int>>\nT f(T a = {}, U b = U{1}) {\n  return a;\n}\n"), [("f", 4)])
        self.assertEqual(self.found("bool operator==(const A& a, const A& b) {\n  return true;\n}\nauto A::operator()(int x) noexcept -> int {\n  return x;\n}\n"),
                         [("operator==", 3), ("A::operator()", 3)])

    def test_attributes_on_types(self):
        self.assertEqual(self.found("struct alignas(64) S {\n  int a;\n  void f() {\n  }\n};\n"), [("f", 2)])

    def test_blanking_keeps_positions(self):
        text = 'int a; // "x\nconst char* s = "/* no */"; char c = \'"\'; int b;\n'
        self.assertEqual(len(code_of(text)), len(text))
        self.assertEqual(code_of(text).index("int b"), text.index("int b"))


class Words(unittest.TestCase):
    def broken(self, body: str, path: str = "src/base/a.cc") -> set[str]:
        return rules_broken({path: HEAD + body})

    def test_headings(self):
        self.assertEqual(rules_broken({"src/base/a.cc": "// A file.\n"}), {"licence"})
        self.assertEqual(rules_broken({"src/base/a.cc": "// SPDX-License-Identifier: Apache-2.0\n#include <span>\n"}), {"opening"})
        self.assertEqual(rules_broken({"tool.py": "print(1)\n"}), {"licence"})
        self.assertEqual(rules_broken({"tool": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n# A tool.\n"}), set())

    def test_environment(self):
        for call in ("std::getenv(x)", "::setenv(x, y, 1)", "extern char** environ"):
            self.assertEqual(self.broken(f"int a = f({call});\n"), {"environment"})
        self.assertEqual(self.broken("auto* a = getenv(x);\n", "src/base/settings.cc"), set())
        self.assertEqual(self.broken("auto* a = getenv(x);\n", "perf/sweep/launch_env.cc"), set())
        self.assertEqual(self.broken("auto* a = getenv(x);\n", "tests/proc/a.cc"), set())
        self.assertEqual(self.broken("// getenv\nauto a = \"getenv\";\n"), set())

    def test_memory_and_exceptions(self):
        self.assertEqual(self.broken("auto* a = new int;\n"), {"new"})
        self.assertEqual(self.broken("auto* a = f(std::unique_ptr<A>(), new A);\n"), {"new"})
        self.assertEqual(self.broken("std::unique_ptr<A> a(new A(1));\nauto b = std::unique_ptr<B<C>>(new B<C>);\n"), set())
        self.assertEqual(self.broken("auto* a = new (place) int;\n"), {"placement-new"})
        self.assertEqual(self.broken("void f() { delete a; }\n"), {"delete"})
        self.assertEqual(self.broken("void f() { throw 1; }\n"), {"throw"})
        self.assertEqual(self.broken("struct A { A(const A&) = delete; };  // a new one, to throw away\n"), set())

    def test_headers(self):
        self.assertEqual(rules_broken({"src/base/a.h": HEAD}), {"header"})
        self.assertEqual(self.broken("#include <ranges>\n"), {"library"})

    def test_unfinished(self):
        mark = "TO" + "DO"
        self.assertEqual(self.broken(f"// {mark}: later\n"), {"unfinished"})
        self.assertEqual(self.broken(f"// {mark}(links): later\n"), {"unfinished"})
        self.assertEqual(rules_broken({"src/base/a.cc": HEAD + f"// {mark}(links): later\n", "docs/roadmap.md": "- links\n"}), set())

    def test_foreign_places(self):
        for place in ("/wor" + "k/x", "../sha" + "red/y", "/hom" + "e/me", "https://de" + "b.debian.org"):
            self.assertEqual(self.broken(f"// see {place}\n"), {"foreign"}, place)
        self.assertEqual(self.broken("// shared memory, frame-work\n"), set())

    def test_links(self):
        self.assertEqual(rules_broken({"docs/a.md": "[b](b.md), [up](../README.md), [web](https://x.org), [folder](decisions/)\n", "docs/b.md": "x\n",
                                       "README.md": "[a](docs/a.md#part)\n", "docs/decisions/0001-c.md": "x\n"}), set())
        self.assertEqual(rules_broken({"docs/a.md": "[b](b.md)\n"}), {"links"})
        self.assertEqual(self.broken("// see docs/nowhere.md\n"), {"links"})

    def test_settings(self):
        table = {"src/base/settings_table.cc": HEAD + 'auto a = "ISTHMUS_DEBUG";\n'}
        self.assertEqual(rules_broken(table | {"src/exec/e.cc": HEAD + 'auto a = "set ISTHMUS_DEBUG";\n'}), set())
        self.assertEqual(rules_broken(table | {"src/exec/e.cc": HEAD + 'auto a = "ISTHMUS_NOWHERE=1";\n'}), {"settings"})
        self.assertEqual(rules_broken(table | {"docs/a.md": "Set ISTHMUS_NOWHERE.\n"}), {"settings"})

    def test_names(self):
        self.assertEqual(rules_broken({"src/base/BigFile.cc": HEAD}), {"names"})
        self.assertEqual(rules_broken({"docs/Big_File.md": "x\n"}), {"names"})
        self.assertEqual(rules_broken({"docs/decisions/topic.md": "x\n"}), {"names"})
        self.assertEqual(rules_broken({"docs/decisions/0001-a.md": "x\n", "docs/decisions/0001-b.md": "x\n"}), {"names"})
        self.assertEqual(rules_broken({"tests/unit/attic_topic_test.cc": HEAD}), {"names"})

    def test_every_source_is_built(self):
        self.assertEqual(rules_broken({"src/base/a.cc": HEAD, "src/base/meson.build": BUILD}, build=False), {"built"})
        self.assertEqual(rules_broken({"src/base/a.cc": HEAD, "src/base/meson.build": BUILD + "files('a.cc')\n"}, build=False), set())


class Lint(unittest.TestCase):
    def test_key_follows_what_a_file_includes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/base").mkdir(parents=True)
            (root / "src/base/a.h").write_text(HEADER)
            (root / "src/base/a.cc").write_text(HEAD + '#include "base/a.h"\n')
            before = lint.content_key(read_tree(root), "src/base/a.cc", "flags")
            self.assertEqual(before, lint.content_key(read_tree(root), "src/base/a.cc", "flags"))
            self.assertNotEqual(before, lint.content_key(read_tree(root), "src/base/a.cc", "others"))
            (root / "src/base/a.h").write_text(HEADER + "int f();\n")
            self.assertNotEqual(before, lint.content_key(read_tree(root), "src/base/a.cc", "flags"))


    def test_headers_that_a_source_includes_first_are_alone_already(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/base").mkdir(parents=True)
            (root / "src/base/a.h").write_text(HEADER)
            (root / "src/base/b.h").write_text(HEADER)
            (root / "src/base/a.cc").write_text(HEAD + '#include "base/a.h"\n#include "base/b.h"\n')
            self.assertEqual(lint.first_includes(read_tree(root)), {"src/base/a.h"})


if __name__ == "__main__":
    sys.exit(unittest.main())
