#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network data-parallel with gradients that travel exactly or compressed, on emulated hosts with slow links, with fast ones, and
within one host, and shows what that does to the loss and to the time. Hosts are made as root; --links host needs none.

    ./dev perf training [OPTION...]

Exit codes: 0 trained; 1 a job failed, or ranks came to different parameters; 2 the command line is wrong; 77 hosts cannot be made here;
130 interrupted."""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "perf" / "compare"))
sys.path.insert(0, str(ROOT / "tests" / "sites"))

import curves  # noqa: E402
import losses  # noqa: E402
from compare import Watch, count_option, guarded, list_of, progress, report_option, write_report  # noqa: E402
from contenders import Place, end  # noqa: E402
from figures import Measured, quiet_line  # noqa: E402
from layout import parse_rate  # noqa: E402

CODECS = [losses.EXACT, "bf16", "int4", "thc:b=4", "thc:b=4,ef=on", "thc:b=2", "thc:b=2,ef=on"]
LINKS = ("slow", "fast", "host")
SLOW_RATE = "100M"
JOB_LIMIT_S = 400
CANNOT, CANNOT_TEXT = 77, "hosts cannot be made here"
QUICK = {"ranks": 2, "seeds": [1], "steps": 60, "codecs": [losses.EXACT, "thc:b=4"], "links": ["host"]}
QUICK_PROGRAM = ["--hidden", "128,64", "--examples", "8192", "--held-out", "1024"]


class Failed(Exception):
    """A job did not come to its end; the text says why."""


@dataclasses.dataclass(frozen=True)
class Link:
    """Where the ranks of a job are, and what starts them there."""
    title: str
    start: tuple[str, ...]  # before the program


def link_of(name: str, options: argparse.Namespace, place: Place) -> Link:
    if name == "host":
        return Link(f"{options.ranks} processes of one host", (str(place.launcher), "run", "-n", str(options.ranks), "--"))
    layout = f"{options.ranks}x1" if name == "slow" else f"1x{options.ranks}"  # hosts of one site are joined without a limit
    title = f"{options.ranks} hosts, each at {options.rate / 1e6:g} Mbit/s" if name == "slow" else f"{options.ranks} hosts, links without a limit"
    sites = (sys.executable, str(ROOT / "tests" / "sites" / "sites.py"), layout, "--rate", str(options.rate), "--timeout", str(JOB_LIMIT_S), "--")
    return Link(title, sites)


def program_of(options: argparse.Namespace, place: Place, seed: int, turn: int) -> list[str]:
    """The program's words; codecs begin with another one in every turn, so that none always has the same place."""
    words = [str(place.build / "perf" / "training" / "training_check"), "--seed", str(seed), "--steps", str(options.steps),
             "--batch", str(options.batch), "--learning-rate", str(options.learning_rate), "--report-every", str(max(1, options.steps // 20)),
             *options.program]
    turn %= len(options.codecs)
    for codec in options.codecs[turn:] + options.codecs[:turn]:
        words += ["--codec", codec]
    return words


def run_job(link: Link, words: list[str], place: Place, seed: int) -> list[dict]:
    """Starts the program where the link says; its lines of JSON. What it is at is shown meanwhile."""
    environment = {**os.environ, "PATH": os.pathsep.join([str(place.launcher.parent), os.environ.get("PATH", "")])}
    lines = []
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen([*link.start, *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, text=True)
        limit = threading.Timer(JOB_LIMIT_S, process.terminate)
        limit.start()
        try:
            for text in process.stdout:
                if not text.startswith("{"):
                    continue
                line = json.loads(text)
                lines.append(line)
                if line["event"] == "point":
                    progress(f"{link.title}, seed {seed}: {line['codec']}, step {line['step']}, held-out loss {line['held_out_loss'] or float('nan'):.4f}")
            code = process.wait()
        except BaseException:  # we are to end, and nothing that we started may go on
            end(process)
            raise
        finally:
            limit.cancel()
        complaints.seek(0)
        said = complaints.read().strip()
    if code != 0:
        raise Failed(f"{link.title}, seed {seed}: {said or f'exit code {code}'}")
    return lines


def train(options: argparse.Namespace, place: Place) -> tuple[list[losses.Run], dict]:
    """All runs, seed after seed, and what they have in common."""
    runs, job = [], {}
    for turn, seed in enumerate(options.seeds):
        for name in options.links:
            link = link_of(name, options, place)
            lines = run_job(link, program_of(options, place, seed, turn), place, seed)
            job = next(line for line in lines if line["event"] == "job")
            found = losses.read_runs(lines, link.title)
            runs += found
            progress(f"{link.title}, seed {seed}: " + ", ".join(f"{run.codec} {run.last.held_out_loss or float('nan'):.4f} in {run.last.seconds:.1f} s" for run in found),
                     keep=True)
    progress("")
    return runs, {name: job[name] for name in ("ranks", "parameters", "batch", "learning_rate", "momentum", "examples", "held_out")}


def as_json(options: argparse.Namespace, runs: list[losses.Run], rows: list[losses.Row], target: float | None, common: dict, others_share: float) -> dict:
    return {"format": "isthmus.training/1", **common, "steps": options.steps, "rate_bits_per_s": options.rate, "seeds": options.seeds,
            "cpus": len(os.sched_getaffinity(0)), "others_share": others_share, "target_loss": target, "rows": [dataclasses.asdict(row) for row in rows],
            "runs": [dataclasses.asdict(run) for run in runs]}


def draw(runs: list[losses.Run], options: argparse.Namespace) -> str:
    """Writes the curves; a line about where they are, or why there are none."""
    if not curves.available():
        return "No curves were drawn: gnuplot is not installed."
    names = []
    for name, script in (("steps", curves.steps_script(runs)), ("time", curves.time_script(runs))):
        names.append(options.curves / f"training-check-{name}.svg")
        curves.draw(script, names[-1])
    return "Curves: " + ", ".join(map(str, names))


def link_name(word: str) -> str:
    if word not in LINKS:
        raise ValueError(f"'{word}' is none of {', '.join(LINKS)}")
    return word


def seed_number(word: str) -> int:
    if not word.isdigit():
        raise ValueError(f"'{word}' is no seed: a number from 0")
    return int(word)


def rate(word: str) -> int:
    try:
        return parse_rate(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def folder(word: str) -> pathlib.Path:
    try:
        pathlib.Path(word).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot make {word}: {error.strerror}") from None
    return pathlib.Path(word)


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="training", description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[-1], allow_abbrev=False)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="the build folder (build)")
    parser.add_argument("--ranks", type=count_option, help="of a job, each on a host of its own (4)")
    parser.add_argument("--rate", type=rate, default=parse_rate(SLOW_RATE), help=f"of the slow link, of each host and each way ({SLOW_RATE})")
    parser.add_argument("--links", type=list_of(link_name), help="slow: hosts at --rate; fast: hosts without a limit; host: processes of one host (slow,fast,host)")
    parser.add_argument("--codec", dest="codecs", action="append", help=f"may be given several times; without it: {' '.join(CODECS)}")
    parser.add_argument("--seeds", type=list_of(seed_number), help="with commas between (1,2,3)")
    parser.add_argument("--steps", type=int, help="updates of the parameters (140)")
    parser.add_argument("--batch", type=int, default=32, help="examples of a step on each rank (32)")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="of the first step; it falls to 0 in a straight line (0.05)")
    parser.add_argument("--target", type=float, help="held-out loss that is to be reached (what exact gradients come to in three quarters of the steps)")
    parser.add_argument("--quick", action="store_true", help="a small model, 60 steps, two processes of one host, exact and thc:b=4, unless said otherwise")
    parser.add_argument("--curves", type=folder, help="folder for training-check-steps.svg and training-check-time.svg (the build folder)")
    parser.add_argument("--json", metavar="FILE", type=report_option, help="also write everything measured to FILE; - for standard output instead of the tables")
    options = parser.parse_args(words)
    defaults = QUICK if options.quick else {"ranks": 4, "seeds": [1, 2, 3], "steps": 140, "codecs": CODECS, "links": list(LINKS)}
    for name, value in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.program = QUICK_PROGRAM if options.quick else []
    options.curves = options.curves or options.build
    if options.steps < 1 or options.batch < 1 or options.learning_rate <= 0:
        parser.error("--steps and --batch from 1, --learning-rate above 0")
    return options


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    place = Place(options.build.resolve())
    program = place.build / "perf" / "training" / "training_check"
    for needed in (program, place.launcher):
        if not needed.exists():
            print(f"training: {needed} is missing; build first, or name the build folder with --build", file=sys.stderr)
            return 2
    began, watch = time.monotonic(), Watch()
    try:
        runs, common = train(options, place)
    except Failed as error:
        progress("")
        print(f"training: {error}", file=sys.stderr)
        return CANNOT if CANNOT_TEXT in str(error) else 1
    others_share = watch.share()
    target = options.target if options.target is not None else losses.target_of(runs)
    rows = losses.rows_of(runs, target)
    write_report(options.json, as_json(options, runs, rows, target, common, others_share))
    if options.json != "-":
        print("\n".join(losses.table(rows, target)))
        print(f"\n{common['parameters']} parameters, {common['ranks']} ranks, {common['batch']} examples of each in a step, {options.steps} steps, "
              f"{len(options.seeds)} seeds, mean ± standard deviation, in {time.monotonic() - began:.0f} s.\n"
              f"{quiet_line(Measured(others_share=others_share))}")
    drawn = draw(runs, options)
    print(drawn, file=sys.stderr if options.json == "-" else sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(guarded("training", main))
