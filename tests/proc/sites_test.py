# SPDX-License-Identifier: Apache-2.0
"""Jobs whose ranks are processes at several sites, each rank on a host of its own: the sweeps verify what the hierarchies that are chosen
give, and traces say that they were. Called by the test runner: sites_test.py ISTHMUS FOLDER_OF_PROGRAMS. Fails with the output of a program
that found wrong values or did not end well."""
from __future__ import annotations

import json
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
    "AlltoAll": ["alltoall_perf", "-d", "bfloat16"],
    "Reduce": ["reduce_perf", "-r", "-1", "-o", "mulsum"],
}
LAYOUTS = {"2x2 cyclic": "abab", "2+3": "aabbb", "three sites": "abcab"}
# Region, site, host of each rank: two ranks of a host, hosts of a site, sites of a region, and another region with a host of two.
TREE = ["r a 0", "s c 3", "r a 0", "r a 1", "s c 3", "r b 2"]
SIZES = ["-b", "8", "-e", "1M", "-f", "64", "-n", "1", "-w", "0", "-c", "1"]


class Sites(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_at(self, sites: str | list[str], *command: str, **settings: str) -> subprocess.CompletedProcess:
        """Rank r is at site sites[r], on a host of its own, or in that region, site and host."""
        script = self.folder / "rank.sh"
        lines = ["#!/bin/sh", "case $ISTHMUS_RUN_RANK in"]
        for rank, place in enumerate(sites):
            words = place.split()
            region, site, host = words if len(words) == 3 else ("", place, str(rank))
            lines += [f"{rank}) export ISTHMUS_HOSTID=h{host} ISTHMUS_SITE={site}{f' ISTHMUS_REGION={region}' if region else ''};;"]
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

    def test_hierarchies_of_four_levels_give_right_results(self) -> None:
        for collective, (program, *options) in SWEEPS.items():
            for tunables in ("", "/2" if collective in ("Broadcast", "Reduce") else "/2/1"):
                algorithm = f"{collective.lower()}:hierarchy{tunables}"
                with self.subTest(algorithm=algorithm):
                    done = self.run_at(TREE, str(PROGRAMS / program), *options, *SIZES, ISTHMUS_ALGO=algorithm, ISTHMUS_CHECK_PLANS="1")
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn("Out of bounds values : 0 OK", done.stdout)

    def test_measured_plans_are_followed(self) -> None:
        says = {"ISTHMUS_DEBUG": "INFO", "ISTHMUS_DEBUG_SUBSYS": "TUNING", "ISTHMUS_DEBUG_FILE": str(self.folder / "log.%p")}
        for sites in ("aabb", "abc"):
            with self.subTest(sites=sites):
                done = self.run_at(sites, str(PROGRAMS / "all_reduce_perf"), *SIZES, ISTHMUS_PROBE="1", **says)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("Out of bounds values : 0 OK", done.stdout)
                logs = list(self.folder.glob("log.*"))
                self.assertEqual(len(logs), len(sites))
                for log in logs:
                    text = log.read_text(encoding="utf-8")
                    self.assertIn("follows the plan", text)
                    self.assertIn("chosen by the plan", text)
                    log.unlink()

    def test_rules_of_compression_do_not_hinder(self) -> None:
        done = self.run_at("aab", TOOL, "probe", ISTHMUS_COMPRESSION="thc min=0", ISTHMUS_COMPRESSION_REQUIRED="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("measured", done.stdout)

    def test_not_measured_where_it_is_forbidden(self) -> None:
        plain = {"ISTHMUS_PROBE": "1", "ISTHMUS_DEBUG": "INFO", "ISTHMUS_DEBUG_SUBSYS": "TUNING"}
        for forbidden in ({"ISTHMUS_DETERMINISTIC": "1"}, {"ISTHMUS_PROBE_BUDGET": "0"}):
            done = self.run_at("ab", str(PROGRAMS / "all_reduce_perf"), *SIZES, **plain, **forbidden)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotIn("follows the plan", done.stdout + done.stderr)

    def test_probe_writes_what_others_read(self) -> None:
        profile, plan = self.folder / "profile.json", self.folder / "plan.json"
        done = self.run_at("aabb", TOOL, "probe", "-o", str(profile), "--plan", str(plan))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("measured", done.stdout)
        links = json.loads(profile.read_text(encoding="utf-8"))["links"]
        measured = [(link["within"], link.get("from"), link.get("to")) for link in links if link["confidence"] == "measured"]
        self.assertEqual(measured, [("building", None, None), ("job", "a", "b"), ("job", "b", "a")])
        made = subprocess.run([TOOL, "plan", "make", "--layout", "2x2", "--profile", str(profile)], capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, 0, made.stderr)
        says = {"ISTHMUS_DEBUG": "INFO", "ISTHMUS_DEBUG_SUBSYS": "TUNING"}
        done = self.run_at("aabb", str(PROGRAMS / "all_reduce_perf"), *SIZES, ISTHMUS_PLAN_FILE=str(plan), **says)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("follows the plan", done.stdout + done.stderr)

    def test_probe_says_why_not(self) -> None:
        alone = subprocess.run([TOOL, "probe"], capture_output=True, text=True, timeout=60)
        self.assertEqual(alone.returncode, 2, alone.stderr)
        self.assertIn("isthmus run", alone.stderr)
        together = subprocess.run([TOOL, "run", "-n", "2", "--", TOOL, "probe"], capture_output=True, text=True, timeout=60)
        self.assertEqual(together.returncode, 1, together.stderr)
        self.assertEqual(together.stderr.count("all ranks are on one host"), 1, together.stderr)

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
