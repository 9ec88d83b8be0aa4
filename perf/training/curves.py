# SPDX-License-Identifier: Apache-2.0
"""Draws the training check's curves with gnuplot: held-out loss over steps and over time, as SVG. Used by training.py. The scripts are
pure functions; draw() fails with RuntimeError and gnuplot's own words."""
from __future__ import annotations

import pathlib
import shutil
import statistics
import subprocess

from losses import EXACT, Run, codecs_of, links_of, of

# Of the codecs in the order of codecs_of; alike for people who see colours otherwise (Okabe and Ito).
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
PANEL_WIDTH, PANEL_HEIGHT = 470, 400


def available() -> bool:
    return shutil.which("gnuplot") is not None


def title_of(codec: str) -> str:
    return "exact" if codec == EXACT else codec


def mean_curve(runs: list[Run], x) -> list[tuple[float, float]]:
    """(mean of x, mean of the held-out loss) over the runs, report by report; reports that some run lacks are left out."""
    curve = []
    for reports in zip(*(run.points for run in runs)):
        if all(point.held_out_loss is not None for point in reports):
            curve.append((statistics.fmean(map(x, reports)), statistics.fmean(point.held_out_loss for point in reports)))
    return curve


def above_exact(runs: list[Run], link: str, codec: str) -> list[tuple[float, float]]:
    """(step, how far the held-out loss is above that of exact gradients with the same seed, mean over seeds), report by report."""
    def losses(name: str) -> dict[int, dict[int, float | None]]:
        return {run.seed: {point.step: point.held_out_loss for point in run.points} for run in of(runs, link, name)}
    own, exact = losses(codec), losses(EXACT)
    curve = []
    for step in sorted({step for points in own.values() for step in points}):
        pairs = [(own[seed].get(step), exact[seed].get(step)) for seed in own.keys() & exact.keys()]
        if pairs and all(None not in pair for pair in pairs):
            curve.append((step, statistics.fmean(mine - other for mine, other in pairs)))
    return curve


class Script:
    """A row of panels that share their lines' colours; the key is in the first."""

    def __init__(self, panels: int, codecs: list[str]):
        self._codecs = codecs
        self._lines = [f"set terminal svg size {PANEL_WIDTH * panels},{PANEL_HEIGHT} font 'sans-serif,12' background 'white'",
                       f"set multiplot layout 1,{panels}", "set grid lc '#dddddd'", "set border 3", "set tics nomirror"]

    def panel(self, title: str, x: str, y: str, curves: dict[str, list[tuple[float, float]]], key: bool, settings: tuple[str, ...] = ()) -> None:
        drawn = {codec: curve for codec, curve in curves.items() if curve}
        if not drawn:
            return
        for number, curve in enumerate(drawn.values()):
            self._lines += [f"$curve{number} << END", *(f"{at:.6g} {value:.6g}" for at, value in curve), "END"]
        self._lines += [f"set title '{title}'", f"set xlabel '{x}'", f"set ylabel '{y}'", "set key top right" if key else "unset key", *settings]
        self._lines.append("plot " + ", ".join(
            f"$curve{number} using 1:2 with lines lw 1.7 lc rgb '{COLOURS[self._codecs.index(codec) % len(COLOURS)]}' title '{title_of(codec)}' noenhanced"
            for number, codec in enumerate(drawn)))

    @property
    def text(self) -> str:
        return "\n".join([*self._lines, "unset multiplot", ""])


def steps_script(runs: list[Run]) -> str:
    """Over steps, on the first link: the loss, and how far it is above exact gradients'."""
    codecs, link = codecs_of(runs), links_of(runs)[0]
    script = Script(2, codecs)
    script.panel("Held-out loss", "steps", "nats, mean over seeds", {codec: mean_curve(of(runs, link, codec), lambda point: point.step) for codec in codecs},
                 key=True)
    script.panel("Held-out loss above that of exact gradients", "steps", "nats, mean over seeds",
                 {codec: above_exact(runs, link, codec) for codec in codecs if codec != EXACT}, key=False)
    return script.text


def time_script(runs: list[Run]) -> str:
    """Over time, a panel for each link."""
    codecs, links = codecs_of(runs), links_of(runs)
    script = Script(len(links), codecs)
    for number, link in enumerate(links):
        script.panel(link, "seconds of training", "held-out loss in nats, mean over seeds",
                     {codec: mean_curve(of(runs, link, codec), lambda point: point.seconds) for codec in codecs}, key=number == 0)
    return script.text


def draw(script: str, to: pathlib.Path) -> None:
    done = subprocess.run(["gnuplot"], input=script, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"gnuplot: {done.stderr.strip()}")
    to.write_text(done.stdout)
