#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training check end to end, small: ranks end with the same parameters or it fails, the loss falls, compressed gradients come to where
exact ones do. No time is judged. Called by the test runner with the source and the build folder."""
from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
LAUNCHER, PROGRAM = BUILD / "src/cli/isthmus", BUILD / "perf/training/training_check"
SMALL = ("--hidden", "64,32", "--examples", "4096", "--held-out", "512", "--steps", "20")
LIMIT_S, CANNOT = 100, 77


def run(*command: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S)


def train(ranks: int, *options: str) -> subprocess.CompletedProcess:
    return run(LAUNCHER, "run", "-n", ranks, "--", PROGRAM, *SMALL, *options)


def lines_of(done: subprocess.CompletedProcess) -> list[dict]:
    return [json.loads(line) for line in done.stdout.splitlines()]


class Driver(unittest.TestCase):
    def check(self, report: dict) -> None:
        self.assertIsNotNone(report["target_loss"])
        for found in report["runs"]:
            first, last = found["points"][0], found["points"][-1]
            self.assertLess(last["held_out_loss"], first["held_out_loss"] - 0.5, found["codec"])
            self.assertGreater(last["held_out_accuracy"], 0.3, found["codec"])
            self.assertTrue(found["end"]["same_parameters"])
        for row in report["rows"]:
            self.assertLess(abs(row["loss_above_exact"]["mean"]), 0.05, row["codec"])
            self.assertEqual(row["encoded_step_bytes"]["mean"] > 0, row["codec"] != "none")

    def test_compressed_gradients_come_to_where_exact_ones_do(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(sys.executable, SOURCE / "perf/training/training.py", "--build", BUILD, "--quick", "--codec", "none", "--codec", "thc:b=4",
                       "--codec", "thc:b=4,ef=on", "--json", "-", "--curves", f"{folder}/made")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual([row["codec"] for row in report["rows"]], ["none", "thc:b=4", "thc:b=4,ef=on"])
            self.check(report)

    def test_on_emulated_hosts(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(sys.executable, SOURCE / "perf/training/training.py", "--build", BUILD, "--quick", "--links", "slow", "--json", "-",
                       "--curves", folder)
        if done.returncode == CANNOT:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.check(report)
        exact, thc = (row["step_bytes"]["mean"] for row in report["rows"])
        self.assertLess(thc, 0.5 * exact)  # the interfaces' counters

    def test_wrong_use(self):
        done = run(sys.executable, SOURCE / "perf/training/training.py", "--build", SOURCE / "include")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("training_check is missing", done.stderr)
        for wrong in (("--json", "/nowhere/report.json"), ("--curves", "/proc/nowhere")):
            done = run(sys.executable, SOURCE / "perf/training/training.py", "--build", BUILD, *wrong)
            self.assertEqual(done.returncode, 2, "said before training, not after it")
            self.assertIn(wrong[1], done.stderr)


class Program(unittest.TestCase):
    def test_other_parameters_on_a_rank_fail(self):
        done = train(2, "--inject-wrong")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("codec none: after 20 steps the parameters of rank 1 are not those of rank 0", done.stderr)

    def test_a_seed_fixes_everything(self):
        def hashes(*options: str) -> list[int]:
            done = train(2, "--codec", "none", "--codec", "none", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [line["parameters_hash"] for line in lines_of(done) if line["event"] == "end"]
        first, again = hashes(), hashes()
        self.assertEqual(first, again)
        self.assertEqual(first[0], first[1])  # each codec begins from the beginning
        self.assertNotEqual(first, hashes("--seed", "2"))

    def test_alone(self):
        done = run(PROGRAM, *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        job, *points, end = lines_of(done)
        self.assertEqual((job["ranks"], job["parameters"], end["event"]), (1, 64 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10, "end"))
        self.assertEqual([point["step"] for point in points], [0, 10, 20])
        self.assertIsNone(points[0]["training_loss"])
        self.assertTrue(all(math.isfinite(point["training_loss"]) for point in points[1:]))

    def test_mistakes(self):
        self.assertEqual(train(2, "--steps", "0").returncode, 2)
        self.assertEqual(train(2, "--help").returncode, 0)
        few = run(LAUNCHER, "run", "-n", 3, "--", PROGRAM, "--examples", "2")
        self.assertEqual(few.returncode, 2, few.stderr)
        self.assertIn("2 examples are not one for each of 3 ranks", few.stderr)
        unknown = train(2, "--codec", "zip")
        self.assertEqual(unknown.returncode, 3, unknown.stderr)
        self.assertIn("zip", unknown.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
