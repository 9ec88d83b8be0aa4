#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev before it builds: help, wrong arguments, and a checkout that is somebody else's. Meson and ninja are replaced by programs that
only leave word that they were called. Called by the test runner with the source folder."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
NOBODY = 65534
BUILDERS = ("meson", "ninja", "dpkg-query")


class DevScript(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        for name in BUILDERS:
            stub = self.folder / name
            stub.write_text(f"#!/bin/sh\necho BUILDS with {name}\nexit 1\n")
            stub.chmod(0o755)

    def dev(self, *words: str, script: pathlib.Path = SOURCE / "dev", become=None) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        return subprocess.run(["bash", str(script), *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, preexec_fn=become)

    def test_help_of_every_command(self):
        for words, said in ((["build"], "build/stage"), (["test"], "./dev test plan"), (["perf"], "perf --targets"), (["check"], "clang-format"),
                            (["clean"], "Remove build/"), (["fuzz"], "RUNS inputs"), (["sanitize"], "TSan"), (["sites"], "--ranks-per-host"),
                            (["sites"], "--rate"), (["perf", "compare"], "--only-defaults"), (["perf", "--targets"], "--strict"), (["perf", "codec"], "--iterations"),
                            (["perf", "training"], "--quick")):
            for option in ("-h", "--help"):
                done = self.dev(*words, option)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn(said, done.stdout)
                self.assertNotIn("BUILDS", done.stdout)

    def test_wrong_arguments_are_refused_before_anything_is_built(self):
        for words, said in (("build now", "'now'"), ("clean -x", "'-x'"), ("perf targets", "./dev perf --targets"), ("perf --bogus", "'--bogus'"),
                            ("perf -b 8 -Q 3", "'-Q'"), ("perf plan", "'plan'"), ("perf compare --bogus", "--bogus"), ("perf --targets --only x", "'x'"), ("perf codec --size 3", "'3'"), ("perf training --links x", "'x'"),
                            ("sites", "after --"), ("sites 2x2 --ratee 3 -- true", "--ratee"), ("sites 9z -- true", "'9z'"), ("fuzz many", "'many'"),
                            ("fuzz 10 nothing", "'nothing'"), ("check nothing.cc", "'nothing.cc'"), ("nonsense", "'nonsense'")):
            done = self.dev(*words.split())
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(said, done.stdout)
            self.assertNotIn("BUILDS", done.stdout, words)

    def test_what_is_right_goes_on_to_the_build(self):
        script = self.folder / "dev"
        shutil.copy(SOURCE / "dev", script)
        shutil.copytree(SOURCE / "perf" / "sweep", self.folder / "perf" / "sweep")
        done = self.dev("perf", "-b", "8", "--maxbytes=1M", "-r", "-1", script=script)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("BUILDS", done.stdout)

    def test_a_checkout_of_somebody_else(self):
        script, logs = self.folder / "dev", self.folder / "build" / "logs"
        shutil.copy(SOURCE / "dev", script)
        shutil.copytree(SOURCE / "perf" / "sweep", self.folder / "perf" / "sweep")
        logs.mkdir(parents=True)
        for log in ("Configuring-build.log", "Installing-1-packages.log"):
            (logs / log).write_text("an old run's words\n")
        for folder in (logs, logs.parent, self.folder):
            folder.chmod(0o555)

        def somebody() -> None:
            if os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
        for command in ("build", "test", "perf", "clean"):
            done = self.dev(command, script=script, become=somebody)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(f"may not write to {self.folder}", done.stdout)
            self.assertNotIn("old run", done.stdout)
            self.assertNotIn("tee:", done.stdout)
            self.assertLess(len(done.stdout.splitlines()), 6, done.stdout)
        for folder in (self.folder, logs.parent, logs):
            folder.chmod(0o755)


class Results(unittest.TestCase):
    def select(self, wanted: str) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as build:
            info = pathlib.Path(build) / "meson-info"
            info.mkdir()
            tests = [{"name": f"a_long_test_name_{number}", "suite": ["isthmus:unit"]} for number in range(40)]
            (info / "intro-tests.json").write_text(json.dumps([*tests, {"name": "launcher", "suite": ["isthmus:proc"]}]))
            return subprocess.run([sys.executable, SOURCE / "tests/results.py", "select", build, wanted], capture_output=True, text=True, timeout=60)

    def test_selection(self):
        self.assertEqual(self.select("launch").stdout, "launcher\n")
        near = self.select("lancher")
        self.assertEqual((near.returncode, near.stdout), (1, ""))
        self.assertIn("Did you mean: launcher\n", near.stderr)
        far = self.select("qqqqq")
        self.assertIn("a_long_test_name_39", far.stderr)
        self.assertLessEqual(max(map(len, far.stderr.splitlines())), 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
