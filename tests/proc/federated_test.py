# SPDX-License-Identifier: Apache-2.0
"""`isthmus federated`: a small simulation as text, JSON and drawing, plans of files, refusals with their exit codes. Usage:
federated_test.py ISTHMUS."""
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
SMALL = ("--seeds", "2", "--rounds", "20", "--clients", "24")
GROUPS = {0: (0.5, 0.5, 0, 0), 1: (0, 0, 0.5, 0.5)}


def clients(swapped: int = 0, first: str = "client,samples,group,a,b,c,d") -> str:
    """Twelve clients in two groups, of which the first `swapped` are in the other one."""
    lines = [first]
    for client in range(12):
        group = (client % 2) ^ (client < swapped)
        shares = list(GROUPS[group])
        shares[2 * group] += 0.01 * client
        shares[2 * group + 1] -= 0.01 * client
        lines.append(",".join(map(str, (client, 40, group, *shares))))
    return "\n".join(lines) + "\n"


class Federated(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.images = self.path("images.csv", "".join(",".join([str((7 * i + row * row) % 17) for i in range(64)] + [str(row % 10)]) + "\n"
                                                      for row in range(200)))

    def path(self, name: str, text: str | None = None) -> str:
        path = pathlib.Path(self.folder.name) / name
        if text is not None:
            path.write_text(text, encoding="utf-8")
        return str(path)

    def federated(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([ISTHMUS, "federated", *words], capture_output=True, text=True, timeout=100)

    def refused(self, code: int, said: str, *words: str) -> None:
        ended = self.federated(*words)
        self.assertEqual(ended.returncode, code, ended.stderr)
        self.assertIn(said, ended.stderr)
        self.assertEqual(ended.stdout, "")

    def test_simulation(self) -> None:
        drawing = self.path("t.svg")
        text = self.federated("simulate", "label", *SMALL, "--data", self.images, "--timeline", drawing)
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        rows = [line.split()[0] for line in text.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual(rows, ["fedavg", "ifca", "static", "migrate_only", "recluster_always", "isthmus", "oracle"])
        xml.etree.ElementTree.parse(drawing)
        ended = self.federated("simulate", "label", *SMALL, "--data", self.images, "--json", "--methods", "isthmus,ifca")
        methods = json.loads(ended.stdout)["methods"]
        self.assertEqual(list(methods), ["isthmus", "ifca"])
        for name in ("mean_accuracy", "final_accuracy", "global_reclusterings"):
            seeds = methods["isthmus"]["per_seed"][name]
            self.assertEqual(len(seeds), 2)
            self.assertAlmostEqual(methods["isthmus"][name], sum(seeds) / 2)

    def test_without_a_file_it_says_which_images(self) -> None:
        ended = self.federated("simulate", "dirichlet", *SMALL)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout, "# images: (scikit-learn's digits|made-up images, since)")
        self.assertNotIn("oracle", ended.stdout)

    def test_refusals_of_simulations(self) -> None:
        self.refused(2, "there is no scenario 'labels'", "simulate", "labels")
        self.refused(2, "there is no method 'fedprox'", "simulate", "label", "--methods", "fedprox")
        self.refused(2, "without groups there is no oracle", "simulate", "dirichlet", "--methods", "oracle")
        self.refused(2, "'elbow' is no rule", "simulate", "label", "--k-rule", "elbow")
        self.refused(2, "only 10 clients", "simulate", "label", "--k", "11", "--clients", "10")
        self.refused(2, "--seeds", "simulate", "label", "--seeds", "0")
        self.refused(2, "only 8 clients", "simulate", "label", "--k", "9", "--clients", "8", "--data", self.images)
        self.refused(2, "there is no scenario 'foo'", "simulate", "foo", "--data", self.images)
        for option in ("--alpha", "--tau", "--target"):
            self.refused(2, f"{option}: nan: a number from", "simulate", "dirichlet", option, "nan")
        self.refused(2, "--tau: 101: a number from 0 to 100", "simulate", "label", "--tau", "101")
        for seed in ("-1", "18446744073709551616", "1.5"):
            self.refused(2, f"--seed: {seed}: a whole number from 0 to 18446744073709551615", "simulate", "label", "--seed", seed)
        self.refused(1, "nothing.csv", "simulate", "label", "--data", self.path("nothing.csv"))
        self.refused(1, "bad.csv: line 2, column 3: 'x' is no finite number", "simulate", "label", "--data",
                     self.path("bad.csv", "1,2,3\n1,2,x\n"))
        self.refused(1, "cannot write", "simulate", "label", *SMALL, "--data", self.images, "--timeline", self.path("no/such/folder.svg"))

    def test_plan(self) -> None:
        first, later = self.path("first.csv", clients()), self.path("later.csv", clients(swapped=3))
        ended = self.federated("plan", first, "--after", later, "--json", "--k", "2", "--assignment")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        plan = json.loads(ended.stdout)
        self.assertEqual([step["k"] for step in plan["steps"]], [2, 2])
        self.assertEqual([step["agreement"] for step in plan["steps"]], [1, 1])
        self.assertEqual([cluster["size"] for cluster in plan["steps"][0]["clusters"]], [6, 6])
        self.assertEqual(plan["steps"][1]["migrated"], 3)
        self.assertFalse(plan["steps"][1]["reclustered"])
        self.assertLess(plan["steps"][1]["rho"], 1 / 3)
        self.assertEqual(len(plan["assignment"]), 12)
        text = self.federated("plan", first, "--k", "2").stdout
        self.assertIn("agreement with groups 1.000", text)

    def test_names_that_are_no_utf8(self) -> None:
        name = os.fsencode(self.folder.name) + b"/n\xff\x01.csv"
        for text, words in ((clients(), (b"plan", name, b"--k", b"2")),
                            (pathlib.Path(self.images).read_text(encoding="utf-8"),
                             (b"simulate", b"label", *map(os.fsencode, SMALL), b"--methods", b"fedavg", b"--tau", b"0", b"--data", name,
                              b"--timeline", os.fsencode(self.path("named.svg"))))):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
            ended = subprocess.run([ISTHMUS, "federated", *words, "--json"], capture_output=True, timeout=100)
            self.assertEqual((ended.returncode, ended.stderr), (0, b""))
            self.assertIn("n\ufffd\x01.csv", str(json.loads(ended.stdout)).replace("\\x01", "\x01"))
        drawing = pathlib.Path(self.path("named.svg")).read_text(encoding="utf-8")
        xml.etree.ElementTree.fromstring(drawing)
        self.assertNotRegex(drawing, "[,-]nan")

    def test_plan_without_samples_goes_by_silhouette(self) -> None:
        rows = "".join(f"{client},{(1, 0, 0)[client % 3]},{(0, 1, 0)[client % 3]},{(0, 0, 1)[client % 3]}\n" for client in range(30))
        path = self.path("silent.csv", "client,a,b,c\n" + rows)
        ended = self.federated("plan", path, "--json")
        self.assertEqual(json.loads(ended.stdout)["steps"][0]["k"], 3)
        self.assertIn("no column 'samples'", ended.stderr)
        self.assertEqual(self.federated("plan", path, "--k-rule", "split").stderr, "")

    def test_refusals_of_plans(self) -> None:
        good = self.path("good.csv", clients())
        self.refused(1, "bad.csv: line 3, column 4: 'x' is no finite number", "plan",
                     self.path("bad.csv", "client,samples,group,a\n1,40,0,1\n2,40,0,x\n"))
        self.refused(1, "sums.csv: line 2: client 7: shares of labels sum to 0.9 instead of 1", "plan",
                     self.path("sums.csv", "client,a,b\n7,0.5,0.4\n"))
        self.refused(1, "short.csv: representations of 1 numbers, where the first file has 4", "plan", good, "--k", "2", "--after",
                     self.path("short.csv", "client,a\n1,1\n"))
        for name, first in (("other.csv", "client,samples,group,a,b,x,d"), ("order.csv", "client,samples,group,a,b,d,c")):
            self.refused(1, f"{name}: column '{first[-3]}', where the first file has 'c'", "plan", good, "--k", "2", "--after",
                         self.path(name, clients(first=first)))
        self.refused(2, "--tau: nan: a number", "plan", good, "--tau", "nan")
        self.refused(2, "--seed: -1: a whole number", "plan", good, "--seed", "-1")
        self.refused(2, "--k 5 says how many", "plan", good, "--k", "5", "--k-max", "2")
        self.refused(1, "12 clients cannot make 13 clusters", "plan", good, "--k", "13")
        self.refused(2, "'colour' is no representation", "plan", good, "--rep", "colour")
        self.refused(2, "file is required", "plan")

    def test_help(self) -> None:
        for words, said in ((["simulate"], "recluster_always"), (["plan"], "--after"), ([], "simulate")):
            ended = self.federated(*words, "--help")
            self.assertEqual(ended.returncode, 0)
            self.assertIn(said, ended.stdout)


if __name__ == "__main__":
    ISTHMUS = sys.argv.pop(1)
    unittest.main(argv=sys.argv[:1])
