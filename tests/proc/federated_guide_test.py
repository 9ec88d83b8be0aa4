#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/federated-guide.md does what it says: its commands run on emulated hosts, models get better, clusters follow the drift, all sums are
masked and whole, and members end with the coordinator's models. Called by the test runner with the source and build folders, and how many
times longer than usual rounds may take; skipped (77) where hosts cannot be made."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD, PATIENCE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
SITES = SOURCE / "tests/sites/sites.py"
UNSUPPORTED = 77
PAGE = (SOURCE / "docs/federated-guide.md").read_text(encoding="utf-8")
SECRET, *RUNS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


def run(command: str, folder: str) -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(BUILD / "src/cli"), str(BUILD / "tests/linkemu"), os.environ["PATH"]])
    if PATIENCE > 1:
        longer = lambda m: f"{m[1]} --deadline {PATIENCE * int(m[3] or 10)}s &"
        command = re.sub(r"(--rounds 40.*?)( --deadline (\d+)s)? &", longer, command)
    command = command.replace("/tmp/", f"{folder}/").replace("./dev sites", f"{sys.executable} {SITES}")  # in this order: SITES may be in /tmp
    return subprocess.run(["sh", "-c", command], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=110 * PATIENCE)


def sums_of(row: list[str]) -> list[str]:
    """Survivors/members of each sum."""
    return [cell for cell in row if "/" in cell]


class Guide(unittest.TestCase):
    def follow(self, command: str) -> tuple[list[list[str]], str]:
        """Runs it; the rows of the coordinator's table, and all that was said."""
        with tempfile.TemporaryDirectory() as folder:
            done = run(SECRET + command, folder)
            said = done.stdout + done.stderr
            self.assertEqual(done.returncode, 0, said)
            rows = [line.split() for line in done.stdout.splitlines() if re.match(r" +\d+ +\d+ +\d+ ", line)]
            self.assertEqual([int(row[0]) for row in rows], list(range(1, 41)), said)
            for member in range(4):
                lines = (pathlib.Path(folder) / f"member{member}").read_text(encoding="utf-8").splitlines()
                mine = [int(line.split()[0]) for line in lines if not line.startswith("#")]
                self.assertEqual(mine, list(range(mine[0], 41)), lines[-3:])
        return rows, said

    def test_softmax(self) -> None:
        rows, said = self.follow(RUNS[0])
        self.assertIn("softmax of 650 parameters", said)
        self.check(rows, said, clustered_by=1, accuracy=0.9)
        self.assertEqual(len([row for row in rows if "moved" in row]), 1, said)  # "centres moved"

    def test_mlp(self) -> None:
        rows, said = self.follow(RUNS[1])
        self.assertIn("mlp of 2410 parameters", said)
        self.check(rows, said, clustered_by=4, accuracy=0.8)

    def check(self, rows: list[list[str]], said: str, clustered_by: int, accuracy: float) -> None:
        self.assertIn("sums masked among at least 3", said)
        self.assertEqual(rows[clustered_by - 1][6], "first", said)
        self.assertEqual(rows[-1][2], "4", said)
        self.assertGreater(float(rows[-1][-4]), accuracy, said)
        for row in rows:
            self.assertEqual(set(sums_of(row)), {"4/4"}, said)

    def test_a_member_dies(self) -> None:
        rows, said = self.follow(RUNS[2])
        self.assertIn("Killed", said)
        self.assertIn("member 2 is gone", said)
        self.assertTrue(any(set(sums_of(row)) == {"3/3"} for row in rows), said)
        self.assertEqual(set(sums_of(rows[-1])), {"4/4"}, said)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as nothing:
        if run("./dev sites 2x1 -- true", nothing).returncode == UNSUPPORTED:
            sys.exit(UNSUPPORTED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
