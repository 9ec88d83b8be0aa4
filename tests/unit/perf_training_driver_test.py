#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training check's pure parts: reading what the program prints, target and arrival, spreads over seeds, tables, curves' scripts,
command lines. No program but gnuplot is started, and no clock is read. Called by the test runner with the folder of the modules."""
from __future__ import annotations

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv[1])
import curves  # noqa: E402
import losses  # noqa: E402
import training  # noqa: E402
from losses import Arrival, Point, Run, Spread  # noqa: E402


def run_of(codec: str, seed: int, losses_by_step: dict[int, float | None], step_s: float = 1, link: str = "a link", end: dict | None = None) -> Run:
    points = tuple(Point(step, step * step_s, step * step_s / 2, loss, loss, 0.5, step * 1000.0, step * 500.0) for step, loss in losses_by_step.items())
    return Run(link, codec, seed, points, end or {})


EXACT = [run_of("none", seed, {0: 3.0, 10: 2.0 + seed / 10, 20: 1.5, 30: 1.0 + seed / 10, 40: 0.9}) for seed in (1, 2, 3)]
CODED = [run_of("thc", seed, {0: 3.0, 10: 2.0, 20: 1.6, 30: 1.3, 40: 0.9 + seed / 100}, 0.25, end={"algorithm": "direct", "measured_error": 0.02})
         for seed in (1, 2, 3)]


class Reading(unittest.TestCase):
    def test_lines_become_runs(self):
        point = {"event": "point", "step": 0, "seconds": 0.0, "communication_seconds": 0.0, "training_loss": None, "held_out_loss": 2.5,
                 "held_out_accuracy": 0.1, "link_bytes": 0.0, "encoded_bytes": 0.0}
        lines = [{"event": "job", "seed": 7}, {**point, "codec": "none"}, {**point, "codec": "none", "step": 5}, {"event": "end", "codec": "none"},
                 {**point, "codec": "bf16"}, {"event": "end", "codec": "bf16"}, {**point, "codec": "int4"}]
        runs = losses.read_runs(lines, "a link")
        self.assertEqual([(run.link, run.codec, run.seed, len(run.points)) for run in runs], [("a link", "none", 7, 2), ("a link", "bf16", 7, 1)])
        self.assertEqual(runs[0].last.step, 5)


class Numbers(unittest.TestCase):
    def test_spread(self):
        self.assertEqual(Spread.of([2.0]), Spread(2, None))
        self.assertEqual(Spread.of([1.0, 2.0, 3.0]), Spread(2, 1))
        self.assertIsNone(Spread.of([]))

    def test_target_is_exact_at_three_quarters(self):
        self.assertAlmostEqual(losses.target_of([*CODED, *EXACT]), 1.2)
        self.assertIsNone(losses.target_of(CODED))

    def test_arrival_lies_between_reports(self):
        self.assertEqual(losses.arrival(CODED[0], 1.3), Arrival(30, 7.5))
        self.assertEqual(losses.arrival(run_of("x", 1, {0: 3.0, 10: 1.0}), 1.5), Arrival(7.5, 7.5))
        self.assertEqual(losses.arrival(run_of("x", 1, {0: 1.0, 10: 0.5}), 1.5), Arrival(0, 0))
        self.assertIsNone(losses.arrival(run_of("x", 1, {0: 3.0, 10: 2.0}), 1.5))
        self.assertEqual(losses.arrival(run_of("x", 1, {0: 3.0, 10: None, 20: 1.0}), 1.5), Arrival(20, 20))

    def test_rows_pair_runs_of_a_seed(self):
        row = losses.row_of([*EXACT, *CODED[:2]], "a link", "thc", 1.3)
        self.assertEqual((row.seeds, row.reached, row.algorithm, row.measured_error), (2, 2, "direct", 0.02))
        self.assertAlmostEqual(row.loss.mean, 0.915)
        self.assertAlmostEqual(row.loss_above_exact.mean, 0.015)
        self.assertAlmostEqual(row.steps_to_target.mean, 30)
        self.assertAlmostEqual(row.step_ms.mean, 250)
        self.assertAlmostEqual(row.communication_ms.mean, 125)
        self.assertAlmostEqual(row.step_bytes.mean, 1000)
        exact = [losses.arrival(run, 1.3).seconds for run in EXACT]
        self.assertAlmostEqual(row.sooner.mean, (exact[0] / 7.5 + exact[1] / 7.5) / 2)

    def test_a_codec_that_does_not_get_there(self):
        runs = [*EXACT, run_of("bad", 1, {0: 3.0, 40: 2.9}), run_of("bad", 2, {0: 3.0, 40: None})]
        row = losses.row_of(runs, "a link", "bad", 1.2)
        self.assertEqual((row.reached, row.seconds_to_target, row.sooner, row.loss), (0, None, None, Spread(2.9, None)))
        self.assertIn("0/2", "\n".join(losses.table([row], 1.2)))

    def test_table(self):
        lines = losses.table(losses.rows_of([*CODED, *EXACT], 1.2), 1.2)
        self.assertEqual(lines[0], "Target: a held-out loss of 1.2000")
        self.assertEqual([line.split()[0] for line in lines[3:]], ["codec", "exact", "thc"])
        self.assertEqual(len({len(line) for line in lines[3:]}), 1)
        self.assertIn("0.9200 ±0.0100", lines[5])


class Curves(unittest.TestCase):
    def test_means_over_seeds(self):
        self.assertEqual(curves.mean_curve(CODED, lambda point: point.seconds)[:2], [(0, 3.0), (2.5, 2.0)])
        self.assertEqual(curves.mean_curve([run_of("x", 1, {0: 3.0, 10: None})], lambda point: point.step), [(0, 3.0)])
        above = dict(curves.above_exact([*EXACT, *CODED], "a link", "thc"))
        self.assertAlmostEqual(above[20], 0.1)
        self.assertAlmostEqual(above[40], 0.02)

    def test_scripts_draw_every_codec(self):
        runs = [*EXACT, *CODED, run_of("thc", 1, {0: 3.0, 10: 2.0}, link="another")]
        for script in (curves.steps_script(runs), curves.time_script(runs)):
            self.assertEqual(script.count("\nplot "), 2)
            self.assertIn("title 'thc'", script)
            self.assertIn("title 'exact'", script)

    @unittest.skipUnless(curves.available(), "gnuplot is not installed")
    def test_gnuplot_makes_svg(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "steps.svg"
            curves.draw(curves.steps_script([*EXACT, *CODED]), path)
            self.assertIn("</svg>", path.read_text())
            self.assertIn("Held-out loss", path.read_text())
            self.assertRaises(RuntimeError, curves.draw, "nonsense", path)


class CommandLine(unittest.TestCase):
    def test_defaults(self):
        options = training.parse_arguments([])
        self.assertEqual((options.ranks, options.seeds, options.links, options.codecs), (4, [1, 2, 3], ["slow", "fast", "host"], training.CODECS))
        quick = training.parse_arguments(["--quick", "--steps", "9"])
        self.assertEqual((quick.ranks, quick.seeds, quick.links, quick.steps), (2, [1], ["host"], 9))

    def test_codecs_begin_elsewhere_in_every_turn(self):
        options = training.parse_arguments(["--codec", "none", "--codec", "bf16", "--codec", "thc:b=4,ef=on"])
        place = training.Place(pathlib.Path("nowhere"))
        order = [[word for word in training.program_of(options, place, 1, turn) if word in options.codecs] for turn in (0, 1, 3)]
        self.assertEqual(order[0], options.codecs)
        self.assertEqual(order[1], ["bf16", "thc:b=4,ef=on", "none"])
        self.assertEqual(order[2], order[0])

    def test_links(self):
        options, place = training.parse_arguments(["--rate", "50M", "--ranks", "3"]), training.Place(pathlib.Path("nowhere"))
        slow, fast, host = (training.link_of(name, options, place) for name in training.LINKS)
        self.assertEqual(slow.title, "3 hosts, each at 50 Mbit/s")
        self.assertIn("3x1", slow.start)
        self.assertIn("1x3", fast.start)
        self.assertEqual(host.start[1:], ("run", "-n", "3", "--"))

    def test_mistakes(self):
        for words, said in ((["--links", "warp"], "'warp'"), (["--seeds", "a"], "'a'"), (["--rate", "1"], "'1'"), (["--steps", "0"], "--steps"), (["x"], "x")):
            with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(SystemExit) as end:
                training.parse_arguments(words)
            self.assertEqual(end.exception.code, 2)
            self.assertIn(said, err.getvalue())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
