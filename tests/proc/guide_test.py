#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/getting-started.md does what it says: its program compiles and sums, its commands that only look at things run. Called by the test
runner with the source folder, the library's folder, the folder of the `isthmus` tool and a C compiler."""
from __future__ import annotations

import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import unittest

SOURCE, LIBRARY, TOOLS = map(pathlib.Path, sys.argv[1:4])
COMPILER = sys.argv[4:]
PAGE = (SOURCE / "docs" / "getting-started.md").read_text()
LIMIT_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(TOOLS), os.environ.get("PATH", "")])
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": path, **environment})


class Guide(unittest.TestCase):
    def test_the_program(self):
        (text,) = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder) / "job.c", pathlib.Path(folder) / "job"
            source.write_text(text)
            done = run([*COMPILER, str(source), "-o", str(program), f"-I{SOURCE / 'include'}", f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}", "-lnccl",
                        "-Wall", "-Wextra", "-Werror"])
            self.assertEqual(done.returncode, 0, done.stderr)
            done = run(["isthmus", "run", "-n", "2", "--", str(program)], NCCL_COMM_ID=f"127.0.0.1:{free_port()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["rank 0 of 2: 3", "rank 1 of 2: 3"])

    def test_what_looks_at_things(self):
        commands = [line.split("#")[0].strip() for line in PAGE.splitlines() if re.match(r" +isthmus (settings|algorithms|plan) ?", line)]
        self.assertGreaterEqual(len(commands), 3)
        for command in commands:
            done = run(shlex.split(command))
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
            self.assertNotEqual(done.stdout, "", command)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
