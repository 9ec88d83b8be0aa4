# SPDX-License-Identifier: Apache-2.0
"""The training check's numbers, as pure functions: curves, the target loss, when a curve gets there, means and spreads over seeds, the
tables. Used by training.py and curves.py. Nothing here runs anything; what was not measured, or not reached, is None."""
from __future__ import annotations

import dataclasses
import statistics
from typing import Iterable, Iterator

EXACT = "none"  # training_check's name for gradients that travel as they are
TARGET_SHARE = 0.75  # of the steps: what exact gradients have come to by then is the target


@dataclasses.dataclass(frozen=True)
class Point:
    """What training had come to after so many steps; seconds and bytes are of training alone. Bytes are what a rank sent, its mean."""
    step: int
    seconds: float
    communication_seconds: float
    training_loss: float | None
    held_out_loss: float | None
    held_out_accuracy: float
    link_bytes: float  # by the interfaces' counters, with headers
    encoded_bytes: float  # by the library's count; 0 where nothing is encoded


@dataclasses.dataclass(frozen=True)
class Run:
    """One training from the beginning to the end. Runs of a seed share the data, the first parameters and the mini-batches."""
    link: str
    codec: str
    seed: int
    points: tuple[Point, ...]
    end: dict = dataclasses.field(default_factory=dict)  # what the program said last: algorithm, measured error

    @property
    def last(self) -> Point:
        return self.points[-1]


@dataclasses.dataclass(frozen=True)
class Spread:
    mean: float
    deviation: float | None  # standard, of the sample; None for one value

    @staticmethod
    def of(values: Iterable[float]) -> Spread | None:
        found = list(values)
        return Spread(statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else None) if found else None


@dataclasses.dataclass(frozen=True)
class Arrival:
    step: float
    seconds: float


def read_runs(lines: Iterable[dict], link: str) -> list[Run]:
    """The runs that a job's lines of JSON tell of; one that did not come to its end is left out."""
    runs, points, seed = [], [], 0
    fields = [field.name for field in dataclasses.fields(Point)]
    for line in lines:
        if line["event"] == "job":
            seed = line["seed"]
        elif line["event"] == "point":
            points.append(Point(**{name: line[name] for name in fields}))
        elif line["event"] == "end":
            runs.append(Run(link, line["codec"], seed, tuple(points), line))
            points = []
    return runs


def of(runs: Iterable[Run], link: str, codec: str) -> list[Run]:
    return [run for run in runs if (run.link, run.codec) == (link, codec)]


def codecs_of(runs: Iterable[Run]) -> list[str]:
    """Exact first, then by name."""
    return sorted({run.codec for run in runs}, key=lambda codec: (codec != EXACT, codec))


def links_of(runs: Iterable[Run]) -> list[str]:
    return list(dict.fromkeys(run.link for run in runs))


def target_of(runs: list[Run]) -> float | None:
    """What exact gradients had come to after three quarters of the steps, mean over seeds."""
    losses = []
    for run in runs:
        if run.codec == EXACT:
            losses.append(next(point.held_out_loss for point in run.points if point.step >= TARGET_SHARE * run.last.step))
    return statistics.fmean(losses) if losses and None not in losses else None


def arrival(run: Run, target: float) -> Arrival | None:
    """When the held-out loss is at the target for the first time; between two reports in a straight line."""
    before = None
    for point in run.points:
        if point.held_out_loss is not None and point.held_out_loss <= target:
            if before is None or before.held_out_loss is None:
                return Arrival(point.step, point.seconds)
            share = (before.held_out_loss - target) / (before.held_out_loss - point.held_out_loss)
            return Arrival(before.step + share * (point.step - before.step), before.seconds + share * (point.seconds - before.seconds))
        before = point
    return None


def paired(runs: list[Run], link: str, codec: str, value) -> Iterator[tuple[float, float]]:
    """(value of the codec's run, of the exact run) for every seed that has both; runs for which `value` is None are left out."""
    exact = {run.seed: value(run) for run in of(runs, link, EXACT)}
    for run in of(runs, link, codec):
        own, other = value(run), exact.get(run.seed)
        if own is not None and other is not None:
            yield own, other


@dataclasses.dataclass(frozen=True)
class Row:
    """A codec on a link, over its seeds."""
    link: str
    codec: str
    seeds: int
    algorithm: str
    loss: Spread | None  # held-out, after the last step
    loss_above_exact: Spread | None  # the same seed's
    accuracy: Spread
    reached: int  # seeds that came to the target
    steps_to_target: Spread | None  # of those
    seconds_to_target: Spread | None
    sooner: Spread | None  # times sooner at the target than exact with the same seed
    step_ms: Spread
    communication_ms: Spread  # of a step
    step_bytes: Spread  # on the link, with headers
    encoded_step_bytes: Spread
    measured_error: float | None


def row_of(runs: list[Run], link: str, codec: str, target: float | None) -> Row:
    mine = of(runs, link, codec)

    def final(run: Run) -> float | None:
        return run.last.held_out_loss

    def seconds(run: Run) -> float | None:
        found = arrival(run, target) if target is not None else None
        return found.seconds if found else None

    arrivals = [found for run in mine if target is not None and (found := arrival(run, target))]
    errors = [run.end["measured_error"] for run in mine if run.end.get("measured_error") is not None]
    return Row(link, codec, len(mine), next((run.end["algorithm"] for run in mine if run.end.get("algorithm")), ""),
               loss=Spread.of(loss for run in mine if (loss := final(run)) is not None),
               loss_above_exact=Spread.of(own - exact for own, exact in paired(runs, link, codec, final)),
               accuracy=Spread.of(run.last.held_out_accuracy for run in mine),
               reached=len(arrivals),
               steps_to_target=Spread.of(found.step for found in arrivals),
               seconds_to_target=Spread.of(found.seconds for found in arrivals),
               sooner=Spread.of(exact / own for own, exact in paired(runs, link, codec, seconds) if own > 0),
               step_ms=Spread.of(1e3 * run.last.seconds / run.last.step for run in mine),
               communication_ms=Spread.of(1e3 * run.last.communication_seconds / run.last.step for run in mine),
               step_bytes=Spread.of(run.last.link_bytes / run.last.step for run in mine),
               encoded_step_bytes=Spread.of(run.last.encoded_bytes / run.last.step for run in mine),
               measured_error=statistics.fmean(errors) if errors else None)


def rows_of(runs: list[Run], target: float | None) -> list[Row]:
    return [row_of(runs, link, codec, target) for link in links_of(runs) for codec in codecs_of(of_link(runs, link))]


def of_link(runs: list[Run], link: str) -> list[Run]:
    return [run for run in runs if run.link == link]


def _text(spread: Spread | None, decimals: int) -> str:
    if spread is None:
        return "-"
    return f"{spread.mean:.{decimals}f}" + ("" if spread.deviation is None else f" ±{spread.deviation:.{decimals}f}")


COLUMNS = ("codec", "held-out loss", "above exact", "accuracy", "reached", "steps to it", "seconds to it", "x sooner", "ms a step",
           "in the call", "KB a step")


def cells(row: Row) -> list[str]:
    return ["exact" if row.codec == EXACT else row.codec, _text(row.loss, 4), "" if row.codec == EXACT else _text(row.loss_above_exact, 4),
            f"{row.accuracy.mean:.3f}", f"{row.reached}/{row.seeds}", _text(row.steps_to_target, 0), _text(row.seconds_to_target, 2),
            "" if row.codec == EXACT else _text(row.sooner, 2), _text(row.step_ms, 1), f"{row.communication_ms.mean:.1f}",
            f"{row.step_bytes.mean / 1e3:.0f}"]


def table(rows: list[Row], target: float | None) -> list[str]:
    """A block for each link, after a line about the target."""
    lines = [] if target is None else [f"Target: a held-out loss of {target:.4f}"]
    for link in dict.fromkeys(row.link for row in rows):
        body = [list(COLUMNS)] + [cells(row) for row in rows if row.link == link]
        widths = [max(len(line[at]) for line in body) for at in range(len(COLUMNS))]
        lines += ["", link]
        lines += ["  " + "  ".join([line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]) for line in body]
    return lines
