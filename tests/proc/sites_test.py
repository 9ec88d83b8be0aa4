# SPDX-License-Identifier: Apache-2.0
"""Jobs whose ranks are processes at several sites, each rank on a host of its own: the sweeps verify what the hierarchies that are chosen
give, and traces say that they were. Called by the test runner: sites_test.py ISTHMUS FOLDER_OF_PROGRAMS. Fails with the output of a program
that found wrong values or did not end well."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL, PROGRAMS = sys.argv[1], pathlib.Path(sys.argv[2])
SWEEPS = {
    "AllReduce": ["all_reduce_perf", "-o", "all", "-d", "float"],
    "ReduceScatter": ["reduce_scatter_perf", "-o", "avg", "-d", "half"],
    "AllGather": ["all_gather_perf", "-d", "int8"],
    "Broadcast": ["broadcast_perf", "-r", "-1"],
    "Reduce": ["reduce_perf", "-r", "-1", "-o", "mulsum"],
}
LAYOUTS = {"2x2 cyclic": "abab", "2+3": "aabbb", "three sites": "abcab"}
SIZES = ["-b", "8", "-e", "1M", "-f", "64", "-n", "1", "-w", "0", "-c", "1"]


class Sites(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_at(self, sites: str, *command: str, **settings: str) -> subprocess.CompletedProcess:
        """Rank r is at site sites[r]."""
        script = self.folder / "rank.sh"
        lines = ["#!/bin/sh", "case $ISTHMUS_RUN_RANK in"]
        lines += [f"{rank}) export ISTHMUS_HOSTID=h{rank} ISTHMUS_SITE={site};;" for rank, site in enumerate(sites)]
        script.write_text("\n".join([*lines, "esac", 'exec "$@"', ""]), encoding="utf-8")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ISTHMUS_", "NCCL_", "SLURM_"))}
        start = [TOOL, "run", "-n", str(len(sites)), "--", "/bin/sh", str(script)]
        return subprocess.run([*start, *command], env=clean | settings, capture_output=True, text=True, timeout=100)

    def test_hierarchies_give_right_results(self) -> None:
        for layout, sites in LAYOUTS.items():
            for collective, (program, *options) in SWEEPS.items():
                with self.subTest(layout=layout, collective=collective):
                    trace = self.folder / f"{program}.%p.json"
                    done = self.run_at(sites, str(PROGRAMS / program), *options, *SIZES, ISTHMUS_TRACE_FILE=str(trace))
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn("Out of bounds values : 0 OK", done.stdout)
                    traces = [path.read_text(encoding="utf-8") for path in self.folder.glob(f"{program}.*.json")]
                    self.assertEqual(len(traces), len(sites))
                    for text in traces:
                        self.assertIn("hierarchy", text)
                    for path in self.folder.glob(f"{program}.*.json"):
                        path.unlink()

    def test_one_site_has_none(self) -> None:
        trace = self.folder / "trace.%p.json"
        done = self.run_at("aaa", str(PROGRAMS / "all_reduce_perf"), *SIZES, ISTHMUS_TRACE_FILE=str(trace))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        traces = [path.read_text(encoding="utf-8") for path in self.folder.glob("trace.*.json")]
        self.assertEqual(len(traces), 3)
        for text in traces:
            self.assertNotIn("hierarchy", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
