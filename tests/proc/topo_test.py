# SPDX-License-Identifier: Apache-2.0
"""`isthmus topo` alone and as the ranks of a job: text, JSON, drawing, and how it refuses. Usage: topo_test.py ISTHMUS."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ISTHMUS = ""
SVG = "{http://www.w3.org/2000/svg}"


def clean() -> dict[str, str]:
    """The environment without what says where this is. HWLOC_COMPONENTS is the test runner's."""
    said = ("ISTHMUS_", "SLURM_", "HWLOC_")
    return {name: value for name, value in os.environ.items() if name == "HWLOC_COMPONENTS" or not name.startswith(said)}


class Topo(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name: str, text: str | None = None) -> str:
        path = pathlib.Path(self.folder.name) / name
        if text is not None:
            path.write_text(text, encoding="utf-8")
        return str(path)

    def run_topo(self, *words: str, ranks: int = 0, **environment: str) -> subprocess.CompletedProcess:
        start = [ISTHMUS, "run", "-n", str(ranks), "--"] if ranks else []
        return subprocess.run(start + [ISTHMUS, "topo", *words], env=clean() | environment, capture_output=True, text=True, timeout=50)

    def ranks_at(self, places: list[dict[str, str]], *words: str) -> subprocess.CompletedProcess:
        """A job whose rank r has places[r] in its environment, each on a host of its own."""
        lines = ["#!/bin/sh", "case $ISTHMUS_RUN_RANK in"]
        for rank, place in enumerate(places):
            lines.append(f"{rank}) export ISTHMUS_HOSTID=h{rank} " + " ".join(f"{name}='{value}'" for name, value in place.items()) + ";;")
        script = self.path("rank.sh", "\n".join([*lines, "esac", 'exec "$@"', ""]))
        command = [ISTHMUS, "run", "-n", str(len(places)), "--", "/bin/sh", script, ISTHMUS, "topo", *words]
        return subprocess.run(command, env=clean(), capture_output=True, text=True, timeout=50)

    def test_alone(self) -> None:
        ended = self.run_topo(ISTHMUS_SITE="fra1", ISTHMUS_REGION="eu")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        lines = ended.stdout.splitlines()
        self.assertEqual(lines[0], "region eu  [ISTHMUS_REGION]")
        self.assertEqual(lines[1], "└─ building fra1  [ISTHMUS_SITE]")
        self.assertIn("host ", lines[2])
        self.assertIn("CPUs ", lines[2])

    def test_nobody_says_anything(self) -> None:
        ended = self.run_topo()
        self.assertEqual(ended.returncode, 0)
        self.assertIn("Nobody says which building this is", ended.stdout)
        self.assertTrue(ended.stdout.startswith("host "))

    def test_job(self) -> None:
        ended = self.run_topo(ranks=2, ISTHMUS_SITE="fra1")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("job  1 host, ranks 0-1\n└─ building fra1  1 host, ranks 0-1  [ISTHMUS_SITE]\n", ended.stdout)
        self.assertIn("one site", ended.stdout)
        self.assertNotIn("package", ended.stdout)
        self.assertEqual(ended.stdout.count("job"), 1, "rank 0 speaks for all")

    def test_job_in_several_places_as_json(self) -> None:
        file = self.path("places.json", '{"schema": "isthmus.topology/1", "places": {"*": "eu/ams2"}}')
        ended = self.ranks_at([{"ISTHMUS_SITE": "fra1", "ISTHMUS_REGION": "eu"}, {"ISTHMUS_TOPOLOGY_FILE": file},
                               {"ISTHMUS_SITE": "fra1", "ISTHMUS_REGION": "eu", "ISTHMUS_ZONE": "r1"}], "--json")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        document = json.loads(ended.stdout)
        self.assertEqual(document["schema"], "isthmus.topo/1")
        self.assertEqual([row["site"] for row in document["ranks"]], [0, 1, 0])
        self.assertEqual(document["ranks"][1]["levels"]["building"]["rung"], "file")
        self.assertEqual(document["ranks"][1]["levels"]["building"]["source"], f'{file}: "*"')
        self.assertEqual(document["divided_by"], "building")
        region = document["tree"]["children"][0]
        self.assertEqual([(child["name"], child["ranks"]) for child in region["children"]], [("fra1", [0, 2]), ("ams2", [1])])
        self.assertEqual(document["warnings"], ["ranks 0-1: the zone is not known, which others know; they are taken to be elsewhere"])

    def test_ucx_between_hosts(self) -> None:
        agent = self.path("agent.sh", '#!/bin/sh\nISTHMUS_HOSTID=$1; export ISTHMUS_HOSTID; shift; exec sh -c "$*"\n')
        job = [ISTHMUS, "run", "-n", "2", "--hosts", "a,b", "--agent", f"/bin/sh {agent} {{host}}", "--", ISTHMUS, "topo"]
        ended = subprocess.run([*job, "--json"], env=clean(), capture_output=True, text=True, timeout=50)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        document = json.loads(ended.stdout)
        parts = [part for host in document["hosts"] for part in host["children"] if part["kind"] == "ucx"]
        if not parts:
            self.skipTest("UCX is not there")
        devices = {device["name"] for device in parts[0]["children"]}
        self.assertEqual(len(document["ucx"]), 1)
        self.assertTrue(document["ucx"][0]["lanes"], "one host is reached by shared memory, whatever it is called")
        self.assertLessEqual(set(document["ucx"][0]["lanes"]), devices)
        ended = subprocess.run(job, env=clean(), capture_output=True, text=True, timeout=50)
        self.assertRegex(ended.stdout, r"UCX from \S+ to \S+: \S+/\S+")
        ended = subprocess.run(job, env=clean() | {"UCX_TLS": "self"}, capture_output=True, text=True, timeout=50)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout, r"UCX from \S+ to \S+: .*(reach|Dest)")
        ended = subprocess.run([*job, "--no-ucx", "--inside"], env=clean(), capture_output=True, text=True, timeout=50)
        self.assertNotIn("ucx", ended.stdout.lower())

    def test_contradictions_are_said_once(self) -> None:
        file = self.path("places.json", '{"schema": "isthmus.topology/1", "places": {"*": "/ams2"}}')
        ended = self.ranks_at([{"ISTHMUS_SITE": "fra1", "ISTHMUS_TOPOLOGY_FILE": file}] * 2)
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stderr.count("warning: "), 1, ended.stderr)
        self.assertIn("ranks 0-1: ISTHMUS_SITE says building 'fra1', which counts", ended.stderr)

    def test_drawing(self) -> None:
        for environment in ({"ISTHMUS_SITE": 'a<b>&"c\x01'}, {"HWLOC_SYNTHETIC": "pack:2 [numa] l3:2 core:4 pu:2"}):
            file = self.path("topo.svg")
            self.assertEqual(self.run_topo("--svg", file, **environment).returncode, 0)
            root = xml.etree.ElementTree.parse(file).getroot()
            self.assertEqual(root.tag, SVG + "svg")
            texts = [text.text for text in root.iter(SVG + "text")]
            self.assertTrue(any(text.startswith("host ") for text in texts), texts)
            if "ISTHMUS_SITE" in environment:
                self.assertIn('building a<b>&"c?', texts)
        file = self.path("job.svg")
        self.assertEqual(self.run_topo("--svg", file, "--inside", ranks=2).returncode, 0)
        self.assertIn("job", [text.text for text in xml.etree.ElementTree.parse(file).getroot().iter(SVG + "text")])

    def test_files_that_cannot_be_used(self) -> None:
        bad = self.path("bad.json", '{"schema": "isthmus.topology/1",\n "places": {"a*": 7}}')
        ended = self.run_topo(ISTHMUS_TOPOLOGY_FILE=bad)
        self.assertEqual((ended.returncode, ended.stdout), (1, ""))
        self.assertIn(f'isthmus topo: ISTHMUS_TOPOLOGY_FILE: {bad}: places: "a*": the path must be text', ended.stderr)
        cut = self.path("cut.json", '{"schema": "isthmus.topology/1",\n "places": {')
        self.assertIn("line 2", self.run_topo(ISTHMUS_TOPOLOGY_FILE=cut).stderr)
        missing = self.path("missing")
        self.assertIn("No such file", self.run_topo(ISTHMUS_TOPOLOGY_LABELS=missing).stderr)
        ended = self.run_topo("--svg", self.path("no") + "/such/folder.svg")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("cannot write", ended.stderr)

    def test_a_rank_that_fails_ends_the_job(self) -> None:
        ended = self.ranks_at([{}, {"ISTHMUS_TOPOLOGY_FILE": self.path("missing")}])
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("ISTHMUS_TOPOLOGY_FILE", ended.stderr)
        self.assertEqual(ended.stdout, "")

    def test_command_line(self) -> None:
        ended = self.run_topo("--help")
        self.assertEqual(ended.returncode, 0)
        self.assertIn("--svg", ended.stdout)
        self.assertNotIn("--exchange", ended.stdout)
        for words in (["--yaml"], ["--svg"], ["nonsense"]):
            self.assertEqual(self.run_topo(*words).returncode, 2, words)


if __name__ == "__main__":
    ISTHMUS = sys.argv.pop(1)
    unittest.main()
