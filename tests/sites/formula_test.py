#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The formulas of what hosts send, on numbers worked out by hand. Needs no hosts and no root."""
from __future__ import annotations

import argparse
import pathlib
import tempfile
import unittest

import formula
from sites import Report

MIB = 1 << 20


def document(codec: str, ranks: int, calls: list[tuple[bool, int]], algorithm: str = "direct", program: str = "/bin/all_reduce_perf") -> dict:
    """Of a sweep over 1 MiB of floats."""
    return {"args": [program, "-J", "x"], "config": {"devices": [{}] * ranks},
            "results": [{"type": "float", "size": MIB, "codec": codec, "codec_algorithm": algorithm}],
            "calls": [{"type": "float", "size": MIB, "coded": coded, "calls": count} for coded, count in calls]}


class Formula(unittest.TestCase):
    def test_widths(self):
        self.assertEqual(formula.codec_named("thc", 2), formula.Codec(4, (0, 4, 8), 32 / 4096))
        self.assertEqual(formula.codec_named("thc:b=4,g=15", 8).sum(8), 7)
        self.assertEqual(formula.codec_named("thc:b=2,group=1024", 4), formula.Codec(2, (0, 2, 7, 8, 8), 32 / 1024))
        self.assertEqual(formula.codec_named("int4", 3).sum(3), 4.5)
        self.assertRaises(ValueError, formula.codec_named, "zip", 2)

    def test_bits_of_an_element(self):
        thc, bf16 = formula.codec_named("thc", 4), formula.codec_named("bf16", 4)
        scales = 3 * 32 / 4096
        self.assertAlmostEqual(formula.coded_bits("allreduce", "direct", thc, 4), scales + (4 + 8) * 3 / 4)
        self.assertAlmostEqual(formula.coded_bits("reduce_scatter", "direct", thc, 4), scales + 4 * 3 / 4)
        self.assertAlmostEqual(formula.coded_bits("allreduce", "ring", thc, 4), scales + (4 + 7 + 8) / 4 + 8 * 3 / 4)
        self.assertAlmostEqual(formula.coded_bits("allreduce", "halving", thc, 4), scales + 4 / 2 + 7 / 4 + 8 * 3 / 4)
        self.assertAlmostEqual(formula.coded_bits("allreduce", "two_shot", bf16, 4), 2 * 16 * 3 / 4)
        for algorithm, ranks in (("of tomorrow", 4), ("halving", 3), ("direct", 9)):
            with self.assertRaises(ValueError, msg=algorithm):
                formula.coded_bits("allreduce", algorithm, formula.codec_named("thc", ranks), ranks)

    def test_a_whole_sweep(self):
        elements, scales = MIB / 4, 32 / 4096
        expected = (2 * (4 + 8) / 2 + 2 * scales) / 8 * elements + 3 * MIB
        self.assertAlmostEqual(formula.sent_by_each(document("thc", 2, [(True, 2), (False, 3)])), expected)
        self.assertAlmostEqual(formula.sent_by_each(document("none", 4, [(True, 1), (False, 1)], "")), 2 * 1.5 * MIB)
        self.assertAlmostEqual(formula.sent_by_each(document("bf16", 2, [(True, 1)], "two_shot", "reduce_scatter_perf")), MIB / 4)
        mixed = document("thc", 2, [(True, 1)])
        mixed["results"].append({**mixed["results"][0], "size": 2 * MIB, "codec_algorithm": "ring"})
        self.assertRaises(ValueError, formula.sent_by_each, mixed)

    def test_the_farthest_host_counts(self):
        host, share = formula.distance({"h0": 101, "h1": 97}, 100)
        self.assertEqual(host, "h1")
        self.assertAlmostEqual(share, -0.03)


class Reports(unittest.TestCase):
    @staticmethod
    def options(*program: str, bare: bool = False) -> argparse.Namespace:
        return argparse.Namespace(program=list(program), bare=bare)

    def test_a_sweep_with_a_codec_is_made_to_write_one(self):
        options = self.options("/x/all_reduce_perf", "--codec", "thc")
        with Report(options) as report:
            self.assertEqual(options.program[-2:], ["-J", str(report.path)])
            self.assertTrue(report.path.parent.exists())
        self.assertFalse(report.path.parent.exists())

    def test_others_are_left_alone(self):
        for options in (self.options("all_reduce_perf"), self.options("sh", "--codec", "thc"), self.options("all_reduce_perf", "--codec=thc", bare=True)):
            before = list(options.program)
            with Report(options) as report:
                self.assertIsNone(report.path)
            self.assertEqual(options.program, before)

    def test_the_users_file_is_read_whatever_its_number(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "x.json")
            for name, text in (("x.json", '"old"'), ("x.json.0", '"old"'), ("x.json.1", '"new"')):
                pathlib.Path(folder, name).write_text(text)
            options = self.options("reduce_scatter_perf", "--codec=thc", "-J", str(path))
            with Report(options) as report:
                self.assertEqual(options.program[-1], str(path))
                self.assertEqual(report.document(), "new")
            self.assertTrue(path.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
