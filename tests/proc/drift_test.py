# SPDX-License-Identifier: Apache-2.0
"""Links that change while a job of real processes runs, on emulated hosts: all ranks measure again and follow a new plan, and every result is
right. And sites that only round trips tell. Called by the test runner: drift_test.py SOURCE_ROOT BUILD_ROOT; skipped (77) where hosts cannot
be made."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
SITES = SOURCE / "tests/sites/sites.py"
UNSUPPORTED = 77
LINK = ["--rate", "200M", "--delay", "5ms"]
CHANGE = "at 7s: delay * 20ms\nat 7s: rate out:* 50Mbit\n"


def on_hosts(layout: str, *words: str) -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(BUILD / "src/cli"), str(BUILD / "perf/compare"), str(BUILD / "tests/linkemu"), os.environ["PATH"]])
    return subprocess.run([sys.executable, str(SITES), layout, *words], env={**os.environ, "PATH": path}, capture_output=True, text=True,
                          timeout=150)


class Drift(unittest.TestCase):
    def test_job_follows_its_links(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "links").write_text(CHANGE)
            says = ["ISTHMUS_DEBUG=INFO", "ISTHMUS_DEBUG_SUBSYS=TUNING", f"ISTHMUS_DEBUG_FILE={folder}/log.%p"]
            done = on_hosts("2x2", *LINK, "--script", str(folder / "links"), "--timeout", "120", "--", "env", "ISTHMUS_PROBE=1", *says,
                            "compare_drift", "65536", "20")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            calls = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"call"')]
            epochs = [call["epoch"] for call in calls]
            self.assertEqual(epochs, sorted(epochs))
            self.assertEqual(epochs[0], 1)
            self.assertGreaterEqual(epochs[-1], 2, f"{len(calls)} calls and no new plan")
            logs = [path.read_text(encoding="utf-8") for path in folder.glob("log.*")]
            self.assertEqual(len(logs), 4)
            numbers = {tuple(line.rsplit("#", 1)[1] for line in log.splitlines() if "measured again before call" in line) for log in logs}
            self.assertEqual(len(numbers), 1, f"ranks changed over at different calls: {numbers}")

    def test_round_trips_tell_sites(self) -> None:
        done = on_hosts("2x2", *LINK, "--timeout", "60", "--", "env", "-u", "ISTHMUS_SITE", "isthmus", "probe")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"m0 +m1 +5\.\d+ ms")
        self.assertNotRegex(done.stdout, r"(?m)^(building|job) .*site0", "somebody has told the ranks where they are")


if __name__ == "__main__":
    if on_hosts("2x1", "--", "true").returncode == UNSUPPORTED:
        sys.exit(UNSUPPORTED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
