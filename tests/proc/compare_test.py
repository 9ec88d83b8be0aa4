#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The comparison end to end, small: what it measures of Isthmus, and of each MPI that was found when this was built, is there; wrong
use is refused. No time is judged. Called by the test runner with the source and the build folder."""
from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

SOURCE, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
PROGRAMS = BUILD / "perf" / "compare"
LIMIT_S = 150


def run(*command: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S)


def lines_of(done: subprocess.CompletedProcess) -> list[dict]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def members_of(session: int) -> set[int]:
    """The processes that are alive in a session."""
    found = set()
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(its_session) == session and state != "Z":
            found.add(int(stat.parent.name))
    return found


class Compare(unittest.TestCase):
    def test_a_small_comparison(self):
        done = run(sys.executable, SOURCE / "perf/compare/compare.py", "--build", BUILD, "--json", "-", "-n", "2", "--sizes", "8,64K", "--rounds", "1",
                   "--only-defaults")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual({(row["collective"], row["bytes"], row["memory"]) for row in report["rows"]},
                         {(name, size, memory) for name in ("allreduce", "reduce_scatter", "allgather")
                          for size, memory in ((8, "library"), (65536, "library"), (65536, "ordinary"))})
        for row in report["rows"]:
            self.assertGreater(row["us"]["Isthmus"][0], 0)
        self.assertTrue(all(us > 0 for entry in report["memory"] for us in entry["us"]))
        built = [name for name in ("openmpi", "mpich") if (PROGRAMS / f"compare_{name}").exists()]
        self.assertEqual(len([note for note in report["notes"] if "left out" in note]), 2 - len(built), report["notes"])
        if built:
            self.assertTrue(all(row["ratio"] > 0 and row["best_peer"] for row in report["rows"]), report["rows"])

    def test_an_interruption_ends_everything_quietly(self):
        for script, options in (("compare", ["--only-defaults", "-n", "2"]), ("targets", ["--only", "speed"])):
            with subprocess.Popen([sys.executable, SOURCE / f"perf/compare/{script}.py", "--build", BUILD, *options], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as job:
                while not (started := members_of(job.pid) - {job.pid}):
                    self.assertIsNone(job.poll(), "it ended by itself")
                    time.sleep(0.02)
                os.kill(job.pid, signal.SIGINT)
                out, err = job.communicate(timeout=LIMIT_S)
            self.assertEqual((job.returncode, out), (130, ""), err)
            self.assertTrue(err.endswith(f"{script}: interrupted; nothing was measured to the end\n"), err)
            self.assertNotIn("Traceback", err)
            self.assertEqual(started & members_of(job.pid), set())

    def test_calls_that_begin_together(self):
        done = run(BUILD / "src/cli/isthmus", "run", "-n", "2", "--", PROGRAMS / "compare_isthmus", "--together", "allgather:4096:50")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(lines_of(done)[0]["us"], 0)

    def test_ranks_in_one_process(self):
        done = run(PROGRAMS / "compare_isthmus", "-g", "3", "reduce_scatter:1200:5", "allreduce:4:5", "allgather:4:5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line["bytes"] for line in lines_of(done)], [1200, 4, 4])

    def test_memory_growth(self):
        one, calls = lines_of(run(PROGRAMS / "compare_growth", "1000"))
        self.assertEqual((one["what"], calls["calls"]), ("one_rank", 1000))

    def test_wrong_use(self):
        for command in ((PROGRAMS / "compare_isthmus",), (PROGRAMS / "compare_isthmus", "allreduce:8"), (PROGRAMS / "compare_isthmus", "allreduce:8:0"),
                        (PROGRAMS / "compare_isthmus", "--fast", "allreduce:8:1"),
                        (PROGRAMS / "compare_isthmus", "--memory", "own", "allreduce:8:1"), (PROGRAMS / "compare_memory", "move:1:8"),
                        (PROGRAMS / "compare_memory", "copy:0:8"), (PROGRAMS / "compare_growth", "many"),
                        (sys.executable, SOURCE / "perf/compare/compare.py", "--build", SOURCE / "include")):
            done = run(*command)
            self.assertEqual((done.returncode, done.stdout), (2, ""), command)
            self.assertNotEqual(done.stderr, "", command)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
