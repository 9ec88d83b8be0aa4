#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every algorithm of the registry through the library: the *_perf programs verify the results of three ranks in one process with the
algorithm forced. Called by the test runner with the isthmus tool and the folder of the programs; fails with the output of a program
that found wrong values or did not end well."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import unittest

TOOL, PROGRAMS = sys.argv[1], pathlib.Path(sys.argv[2])
SWEEPS = {
    "allreduce": ["all_reduce_perf", "-o", "avg"],
    "reduce_scatter": ["reduce_scatter_perf", "-o", "sum"],
    "allgather": ["all_gather_perf"],
    "broadcast": ["broadcast_perf", "-r", "-1"],
    "alltoall": ["alltoall_perf"],
    "reduce": ["reduce_perf", "-r", "-1", "-o", "mulsum"],
}
SIZES = ["-b", "12", "-e", "768K", "-f", "64", "-n", "1", "-w", "0", "-c", "1", "-g", "3"]


def registry() -> list[dict]:
    return json.loads(subprocess.run([TOOL, "algorithms", "--json"], check=True, capture_output=True, text=True).stdout)


def run_sweep(collective: str, algorithm: str) -> subprocess.CompletedProcess:
    program, *options = SWEEPS[collective]
    environment = {**os.environ, "ISTHMUS_ALGO": f"{collective}:{algorithm}"}
    return subprocess.run([PROGRAMS / program, *options, *SIZES], env=environment, capture_output=True, text=True, timeout=60)


class Algorithms(unittest.TestCase):
    def test_all_give_right_results(self):
        tried = set()
        for entry in registry():
            if entry["collective"] not in SWEEPS or entry["coding"]:
                continue
            for suffix in ["", "/3"] if entry["tunables"] else [""]:
                with self.subTest(collective=entry["collective"], algorithm=entry["name"] + suffix):
                    done = run_sweep(entry["collective"], entry["name"] + suffix)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn("Out of bounds values : 0 OK", done.stdout)
            tried.add(entry["collective"])
        self.assertEqual(tried, set(SWEEPS))

    def test_an_unknown_name_is_refused_with_the_known_ones(self):
        done = run_sweep("allreduce", "rung")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('allreduce has no algorithm "rung"; it has one_shot', done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
