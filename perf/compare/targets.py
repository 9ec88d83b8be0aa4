#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures everything that has a target and prints every target with its ratio, and pass or miss. Takes about a quarter of an hour.

    ./dev perf --targets [OPTION...]

Exit codes: 0 measured, whatever the verdicts; 1 something that must work does not, or --strict and a target is missed; 2 the command
line is wrong; 130 interrupted."""
from __future__ import annotations

import argparse
import dataclasses
import pathlib
import subprocess
import sys
import time

import benches
import codec
import contenders
import goals
from compare import COLLECTIVES, SIZES, Plan, count_option, guarded, list_of, measure, memory_lines, progress, report_option, write_report
from contenders import Place, run_lines
from emulated import Broken, run_on_hosts, run_sweep
from figures import LIBRARY, ORDINARY, parse_size, quiet_line, table

PARTS = ("speed", "budgets", "memory", "sites", "codec")
# What the budgets are read from, with the benchmarks that matter.
BENCHES = {"dispatch_bench": "dispatch/one_rank/in_place", "exec_bench": "(steps|kernel)/(copy|reduce)", "plan_bench": "build/[a-z_]+/[a-z_]+/4096$"}
LIMIT_S = 120
SITE_MTU_BYTES = 1500
SLOW_BITS_PER_S, FAST_BITS_PER_S = 200_000_000, 1_000_000_000
# Where ranks of two sites call, and with how many bytes; with the first of these the flat ring is measured, too.
CROSSINGS = {goals.Crossing("2x2", False, SLOW_BITS_PER_S, 0.9): (4 << 20, 64 << 20), goals.Crossing("2x2", False, FAST_BITS_PER_S, 0.75): (4 << 20, 64 << 20),
             goals.Crossing("2x4", True, SLOW_BITS_PER_S, 0.85): (4 << 20, 16 << 20), goals.Crossing("3+5", False, SLOW_BITS_PER_S, 0.85): (4 << 20, 16 << 20)}
CROSSING_SWEEPS = {"allreduce": "all_reduce_perf", "reduce_scatter": "reduce_scatter_perf", "allgather": "all_gather_perf"}
SITE_TRAFFIC_BYTES = 64 << 20  # calls of a size together; two at least


def speed(place: Place, rounds: int) -> tuple[list[goals.Outcome], list[str]]:
    sizes = [parse_size(word) for word in SIZES.split(",")]
    plan = Plan(place, [2, 4], list(COLLECTIVES), sizes, rounds, (LIBRARY, ORDINARY), one_process=True)
    measured = measure(plan)
    details = memory_lines(measured) + table(measured.samples) + ["", quiet_line(measured), ""]
    return [*goals.against_peers(measured, sizes, LIBRARY), *goals.against_peers(measured, sizes, ORDINARY),
            *goals.against_memory(measured, sizes)], details


def budgets(place: Place) -> list[goals.Outcome]:
    found: dict[str, goals.Bench] = {}
    for bench, pattern in BENCHES.items():
        progress(f"budgets: {bench}")
        found |= benches.medians(place, bench, pattern)
    return list(goals.budgets(found))


def memory(place: Place) -> list[goals.Outcome]:
    progress("memory: a million calls")
    lines, problem = run_lines([str(place.program("growth"))], LIMIT_S)
    if problem:
        raise Broken(f"compare_growth: {problem}")
    return list(goals.growth(lines))


def run_on_sites(place: Place, crossing: goals.Crossing, collective: str, size: int, forced: str = "") -> goals.Site | str:
    """The run, or why there is none."""
    algorithm = ["env", f"ISTHMUS_ALGO={collective}:{forced}"] if forced else []
    calls = str(max(2, SITE_TRAFFIC_BYTES // size))
    run = run_sweep(place, crossing.layout, crossing.link(SITE_MTU_BYTES), [*algorithm, CROSSING_SWEEPS[collective], "-b", str(size), "-e", str(size),
                                                                            "-n", calls, "-w", "2", "-c", "1", "-a", "3"], LIMIT_S)
    if isinstance(run, str):
        return run
    times = {title: run.row[half]["time"] for half, title in (("out_of_place", "out of place"), ("in_place", "in place"))}
    return goals.Site(crossing, collective, size, run.calls, times, run.uplink_bytes)


def peers_on_sites(place: Place, crossing: goals.Crossing, size: int) -> dict[str, dict[str, float]]:
    """Open MPI's microseconds by collective and algorithm, the default first; nothing where it is not installed."""
    found: dict[str, dict[str, float]] = {collective: {} for collective in CROSSING_SWEEPS}
    if not place.program("openmpi").exists():
        return found
    for contender in contenders.open_mpi_on_hosts(place, crossing.hosts):
        progress(f"sites: {contender.title}, {crossing.title}")
        items = [f"{collective}:{size}:{SITE_TRAFFIC_BYTES // size}" for collective in contender.names]
        for collective, us in (run_on_hosts(place, crossing.layout, crossing.link(SITE_MTU_BYTES), contender, items, LIMIT_S) or {}).items():
            found[collective.removesuffix("_counts")].setdefault(contender.name(collective), us)
    return found


def sites(place: Place) -> tuple[list[goals.Outcome], list[str]]:
    runs: list[goals.Site] = []
    for crossing, sizes in CROSSINGS.items():
        peers = None
        for collective in CROSSING_SWEEPS:
            for size in sizes:
                progress(f"sites: {collective} of {size} bytes, {crossing.title}")
                run = run_on_sites(place, crossing, collective, size)
                if isinstance(run, str):
                    return list(goals.sites([], run, SITE_MTU_BYTES)), []
                if size == sizes[0]:
                    ring = run_on_sites(place, crossing, collective, size, "ring")
                    peers = peers_on_sites(place, crossing, size) if peers is None else peers
                    run = dataclasses.replace(run, ring_us=ring.us["out of place"], peers_us=peers[collective])
                runs.append(run)
    return list(goals.sites(runs, "", SITE_MTU_BYTES)), [*goals.beside_peers(runs), ""]


def part(word: str) -> str:
    if word not in PARTS:
        raise ValueError(f"'{word}' is none of {', '.join(PARTS)}")
    return word


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="targets", description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[-1], allow_abbrev=False)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="the build folder (build)")
    parser.add_argument("--only", type=list_of(part), default=list(PARTS), help=f"parts with commas between ({','.join(PARTS)})")
    parser.add_argument("--rounds", type=count_option, default=7, help="rounds of the comparison (7)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--json", metavar="FILE", type=report_option, help="also write the targets to FILE; - for standard output instead of the lines")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    place = Place(options.build.resolve())
    needed = place.missing("isthmus", "memory", "growth")
    if needed:
        print(f"targets: {needed} is missing; build first, or name the build folder with --build", file=sys.stderr)
        return 2
    began = time.monotonic()
    outcomes: list[goals.Outcome] = []
    details: list[str] = []
    try:
        if "speed" in options.only:
            outcomes, details = speed(place, options.rounds)
        for name, run in (("budgets", budgets), ("memory", memory)):
            if name in options.only:
                outcomes += run(place)
        if "sites" in options.only:
            of_sites, lines = sites(place)
            outcomes, details = outcomes + of_sites, details + lines
        if "codec" in options.only:
            measured = codec.measure(place)
            outcomes += measured.outcomes()
            details += measured.lines()
    except (Broken, subprocess.TimeoutExpired) as error:
        print(f"targets: {error}", file=sys.stderr)
        return 1
    progress("")
    write_report(options.json, {"format": "isthmus.targets/1", "targets": [one.as_json() for one in outcomes]})
    counts = {verdict: sum(one.verdict == verdict for one in outcomes) for verdict in (goals.PASS, goals.MISS, goals.SKIPPED)}
    if options.json != "-":
        print("\n".join(details + [one.line() for one in outcomes]))
        print(f"\n{counts[goals.PASS]} passed, {counts[goals.MISS]} missed, {counts[goals.SKIPPED]} skipped, in {time.monotonic() - began:.0f} s. "
              "The worst size decides.")
    return 1 if options.strict and counts[goals.MISS] else 0


if __name__ == "__main__":
    sys.exit(guarded("targets", main))
