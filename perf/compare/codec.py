#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what compression is worth: the codec's speed on one thread, and allreduce over emulated hosts joined by slow links: exact,
through bf16 and through thc:b=4. Prints the targets with their ratios, and pass or miss; then the same over faster links, and which
stage takes longest there. Takes two to three minutes; hosts need root.

    ./dev perf codec [OPTION...]

Exit codes: 0 measured, whatever the verdicts; 1 something that must work does not, or --strict and a target is missed; 2 the command
line is wrong; 130 interrupted."""
from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import statistics
import subprocess
import sys
import time

import benches
import goals
from compare import count_option, guarded, progress, report_option, write_report
from contenders import Place
from emulated import Broken, run_sweep
from figures import parse_size, size_text

HOSTS = (2, 4)
CODECS = {"thc": ["--codec", "thc:b=4", "--codec-algorithm", "direct"], "bf16": ["--codec", "bf16", "--no-exact"]}
SLOW_BITS_PER_S, FAST_BITS_PER_S = 200_000_000, 1_000_000_000
SIZE = "64M"
ITERATIONS = 2  # out of place, and as many in place
LIMIT_S = 240
ELEMENT_BYTES = 4


@dataclasses.dataclass
class Measured:
    bytes: int
    kernels: dict[str, goals.Bench]  # codec_bench's medians; empty: it was not built
    target: str  # the instruction set
    runs: dict[int, dict[int, dict[str, goals.CodecRun]]] = dataclasses.field(default_factory=dict)  # by rate, hosts, and name
    why: str = ""  # there are no runs

    def outcomes(self) -> list[goals.Outcome]:
        what = f"allreduce of {size_text(self.bytes)}, hosts joined at {SLOW_BITS_PER_S // 1_000_000} Mbit/s"
        return [*goals.codec_kernels(self.kernels, self.target), *goals.codec_links(self.runs.get(SLOW_BITS_PER_S, {}), what, self.why)]

    def lines(self) -> list[str]:
        return [line for rate in self.runs if self.runs[rate] for line in link_lines(self.runs[rate], rate, self.bytes) + stage_lines(self, rate)]

    def as_json(self) -> dict:
        runs = [{"rate_bits_per_s": rate, "hosts": hosts, **dataclasses.asdict(run)}
                for rate, by_hosts in self.runs.items() for hosts, of in by_hosts.items() for run in of.values()]
        return {"format": "isthmus.codec/1", "bytes": self.bytes, "instruction_set": self.target, "runs": runs,
                "kernels": {name: bench.ns_per_item for name, bench in self.kernels.items()}, "targets": [one.as_json() for one in self.outcomes()]}


def measure_kernels(place: Place) -> tuple[dict[str, goals.Bench], str]:
    """codec_bench's medians, and the instruction set: the last that it has is the one that runs."""
    progress("codec_bench")
    names = benches.names_of(place, "codec_bench")
    target = names[-1].rpartition("/")[2] if names else ""
    return benches.medians(place, "codec_bench", f"^copy$|^(encode|accumulate|decode|encode_decode)/g=[0-9]+/{target}$"), target


def run_on_hosts(place: Place, hosts: int, rate_bits_per_s: int, codec: list[str], size: int, iterations: int) -> goals.CodecRun | str:
    """The run, or why there is none."""
    progress(f"{hosts} hosts at {rate_bits_per_s // 1_000_000} Mbit/s: {' '.join(codec)}")
    run = run_sweep(place, f"{hosts}x1", ["--rate", str(rate_bits_per_s)],
                    ["all_reduce_perf", "-b", str(size), "-e", str(size), "-n", str(iterations), "-w", "0", "-I", "1", *codec], LIMIT_S)
    if isinstance(run, str):
        return run
    halves = [run.row[f"{half}_per_iter"] for half in ("out_of_place", "in_place")]
    return goals.CodecRun(codec=run.row["codec"], algorithm=run.row["codec_algorithm"], us=sum((half["times_us"] for half in halves), []),
                          exact_us=sum((half.get("exact_times_us", []) for half in halves), []), wire_bytes=run.row["wire_bytes"],
                          nmse=run.row["nmse"], formula_share=run.formula_share)


def measure_links(place: Place, rate_bits_per_s: int, size: int, iterations: int) -> tuple[dict[int, dict[str, goals.CodecRun]], str]:
    """thc beside exact calls, and the other codec by itself. Over the slow links, bytes are counted of the codecs' calls alone: exact ones would
    hide what is amiss."""
    runs: dict[int, dict[str, goals.CodecRun]] = {}
    for hosts in HOSTS:
        for name, codec in CODECS.items():
            run = run_on_hosts(place, hosts, rate_bits_per_s, codec, size, iterations)
            counted = rate_bits_per_s == SLOW_BITS_PER_S and "--no-exact" not in codec
            alone = run_on_hosts(place, hosts, rate_bits_per_s, [*codec, "--no-exact"], size, 1) if counted else run
            if isinstance(run, str) or isinstance(alone, str):
                return {}, run if isinstance(run, str) else alone
            runs.setdefault(hosts, {})[name] = dataclasses.replace(run, formula_share=alone.formula_share)
    return runs, ""


def link_lines(runs: dict[int, dict[str, goals.CodecRun]], rate_bits_per_s: int, size: int) -> list[str]:
    lines = ["", f"allreduce of {size_text(size)}, float sum, hosts joined at {rate_bits_per_s // 1_000_000} Mbit/s; medians of single calls:",
             f"{'hosts':>7}  {'codec':8}  {'algorithm':10}  {'ms':>8}  {'exact ms':>8}  {'exact / ms':>10}  {'wire MiB':>8}  {'nmse':>8}"]
    for hosts, of in runs.items():
        for run in of.values():
            exact = f"{statistics.median(run.exact_us) / 1e3:>8.0f}  {run.against_exact:>10.2f}" if run.exact_us else f"{'-':>8}  {'-':>10}"
            lines.append(f"{hosts:>7}  {run.codec:8}  {run.algorithm:10}  {run.median_us / 1e3:>8.0f}  {exact}"
                         f"  {run.wire_bytes / (1 << 20):>8.2f}  {run.nmse:>8.1e}")
    return lines


def stage_lines(measured: Measured, rate_bits_per_s: int) -> list[str]:
    lines = [""]
    cpus = len(os.sched_getaffinity(0))
    for hosts, of in measured.runs[rate_bits_per_s].items():
        if not measured.kernels:
            return ["Which stage takes longest is not known: codec_bench was not built."]
        stages = goals.seconds_of_stages(of["thc"], measured.bytes // ELEMENT_BYTES, hosts, cpus, rate_bits_per_s, measured.kernels, measured.target)
        longest = max(stages, key=stages.__getitem__)
        shared = f" ({hosts} ranks on {cpus} CPUs)" if hosts > cpus else ""
        lines.append(f"{hosts:>7} hosts: by themselves " + ", ".join(f"{name} {1e3 * seconds:.0f} ms" for name, seconds in stages.items())
                     + f"{shared}: {longest} takes longest, together {1e3 * sum(stages.values()):.0f} ms of {of['thc'].median_us / 1e3:.0f} measured")
    return lines


def measure(place: Place, size: int = parse_size(SIZE), iterations: int = ITERATIONS) -> Measured:
    measured = Measured(size, *measure_kernels(place))
    for rate_bits_per_s in (SLOW_BITS_PER_S, FAST_BITS_PER_S):
        if not measured.why:
            measured.runs[rate_bits_per_s], measured.why = measure_links(place, rate_bits_per_s, size, iterations)
    return measured


def size_option(word: str) -> int:
    try:
        return parse_size(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="codec", description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[-1], allow_abbrev=False)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="the build folder (build)")
    parser.add_argument("--size", type=size_option, default=parse_size(SIZE), help=f"bytes of the allreduce ({SIZE})")
    parser.add_argument("--iterations", type=count_option, default=ITERATIONS, help=f"timed out of place, and as many in place ({ITERATIONS})")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--json", metavar="FILE", type=report_option, help="also write everything measured to FILE; - for standard output instead of the lines")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    place = Place(options.build.resolve())
    if needed := place.missing():
        print(f"codec: {needed} is missing; build first, or name the build folder with --build", file=sys.stderr)
        return 2
    began = time.monotonic()
    try:
        measured = measure(place, options.size, options.iterations)
    except (Broken, subprocess.TimeoutExpired) as error:
        print(f"codec: {error}", file=sys.stderr)
        return 1
    progress("")
    write_report(options.json, measured.as_json())
    if options.json != "-":
        print("\n".join([one.line() for one in measured.outcomes()] + measured.lines() + [f"\nMeasured in {time.monotonic() - began:.0f} s."]))
    return 1 if options.strict and any(one.verdict == goals.MISS for one in measured.outcomes()) else 0


if __name__ == "__main__":
    sys.exit(guarded("codec", main))
