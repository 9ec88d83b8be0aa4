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
            "results": [{"type": "float", "size": MIB, "codec": codec, "codec_algorithm": algorithm, "wire_bytes": None}],
            "calls": [{"type": "float", "size": MIB, "coded": coded, "calls": count} for coded, count in calls]}


class Formula(unittest.TestCase):
    def test_widths(self):
        self.assertEqual(formula.codec_named("thc", 2), formula.Codec(4, (0, 4, 8), 32 / 4096))
        self.assertEqual(formula.codec_named("thc:b=4,g=15", 8).sum(8), 7)
        self.assertEqual(formula.codec_named("thc:b=2,group=1024", 4), formula.Codec(2, (0, 2, 7, 8, 8), 32 / 1024))
        self.assertEqual(formula.codec_named("int4", 3).sum(3), 4.5)
        self.assertRaises(ValueError, formula.codec_named, "zip", 2)

    def test_bits_of_an_element(self):
        def bits(codec: str, algorithm: str, ranks: int = 4, collective: str = "allreduce", sites: int = 1) -> float:
            return formula.coded_bits(formula.Shape(collective, algorithm, ranks, sites), formula.codec_named(codec, ranks))

        scale = 32 / 4096
        self.assertAlmostEqual(bits("thc", "direct"), 3 * scale + (4 + 8) * 3 / 4)
        self.assertAlmostEqual(bits("thc", "direct", collective="reduce_scatter"), 3 * scale + 4 * 3 / 4)
        self.assertAlmostEqual(bits("thc", "root"), 3 * scale + (4 + 8) * 3 / 4)
        self.assertAlmostEqual(bits("thc", "root", collective="reduce_scatter"), 3 * scale + (4 + 8 / 4) * 3 / 4)
        self.assertAlmostEqual(bits("thc", "ring"), 3 * scale + (4 + 7 + 8) / 4 + 8 * 3 / 4)
        self.assertAlmostEqual(bits("thc", "halving"), 3 * scale + 4 / 2 + 7 / 4 + 8 * 3 / 4)
        self.assertAlmostEqual(bits("thc", "hierarchy", sites=2), (2 * scale + 4 + 8) / 2 + (2 * scale + 7 + 8) / 4)
        self.assertAlmostEqual(bits("thc", "hierarchy", 4, "reduce_scatter", 2), (2 * scale + 4) / 2 + (2 * scale + 7) / 4)
        self.assertAlmostEqual(bits("thc", "direct", 12, "reduce_scatter"), (8 * 3 + 2 * 4) / 12 * scale + 4 * 11 / 12)
        self.assertAlmostEqual(bits("bf16", "two_shot"), 2 * 16 * 3 / 4)
        self.assertAlmostEqual(bits("int8", "one_shot", collective="reduce_scatter"), 8.5 * 3 / 4)
        for algorithm, ranks in (("of tomorrow", 4), ("halving", 3), ("hierarchy", 4)):
            with self.assertRaises(ValueError, msg=algorithm):
                bits("thc", algorithm, ranks)

    def test_a_whole_sweep(self):
        elements, scales = MIB / 4, 32 / 4096
        expected = (2 * (4 + 8) / 2 + 2 * scales) / 8 * elements + 3 * MIB
        self.assertAlmostEqual(formula.Sweep(document("thc", 2, [(True, 2), (False, 3)]), 1).sent(), expected)
        self.assertAlmostEqual(formula.Sweep(document("none", 4, [(True, 1), (False, 1)], ""), 1).sent(), 2 * 1.5 * MIB)
        self.assertAlmostEqual(formula.Sweep(document("bf16", 2, [(True, 1)], "one_shot", "reduce_scatter_perf"), 1).sent(), MIB / 4)
        mixed = document("thc", 2, [(True, 1)])
        mixed["results"].append({**mixed["results"][0], "size": 2 * MIB, "codec_algorithm": "ring"})
        self.assertRaises(ValueError, formula.Sweep, mixed, 1)

    def test_the_farthest_host_counts_where_all_send_alike(self):
        sent = {"h0": 101 * MIB // 100, "h1": 97 * MIB // 100}
        host, share = formula.Sweep(document("bf16", 2, [(True, 2)], "two_shot"), 1).farthest_host(sent)
        self.assertEqual(host, "h1")
        self.assertAlmostEqual(share, -0.03, 5)
        _, share = formula.Sweep(document("thc:g=15", 2, [(True, 1)], "root"), 1).farthest_host({"h0": 0, "h1": round((4 + 5 + 2 * 32 / 4096) / 8 * MIB / 4)})
        self.assertAlmostEqual(share, 0, 5)

    def test_what_the_library_counts(self):
        sweep = document("bf16", 2, [(True, 1)], "two_shot")
        sweep["results"] = [{**sweep["results"][0], "size": size, "wire_bytes": count} for size, count in ((MIB, MIB // 2), (2 * MIB, 1.01 * MIB), (64, 999))]
        size, share = formula.Sweep(sweep, 1).farthest_row()
        self.assertEqual(size, 2 * MIB)
        self.assertAlmostEqual(share, 0.01)
        self.assertIsNone(formula.Sweep(document("none", 2, [(True, 1)], ""), 1).farthest_row())


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
