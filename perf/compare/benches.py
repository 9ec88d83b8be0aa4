# SPDX-License-Identifier: Apache-2.0
"""Runs of the micro-benchmarks (perf/micro), few and interleaved. Used by targets.py and codec.py. Without Google Benchmark they are not
built and there are no numbers; one that fails is Broken."""
from __future__ import annotations

import json
import pathlib
import subprocess

import goals
from contenders import Place
from emulated import Broken

OPTIONS = ("--benchmark_format=json", "--benchmark_repetitions=7", "--benchmark_report_aggregates_only=true",
           "--benchmark_enable_random_interleaving=true", "--benchmark_min_time=0.02")
LIMIT_S = 120


def _run(program: pathlib.Path, *options: str) -> str:
    done = subprocess.run([str(program), *options], capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise Broken(f"{program.name}: {done.stderr.strip()}")
    return done.stdout


def names_of(place: Place, bench: str) -> list[str]:
    """Of its benchmarks, in its own order."""
    program = place.bench(bench)
    return _run(program, "--benchmark_list_tests=true").split() if program.exists() else []


def medians(place: Place, bench: str, pattern: str) -> dict[str, goals.Bench]:
    """By name, of those that match."""
    program = place.bench(bench)
    return goals.read_benchmarks(json.loads(_run(program, f"--benchmark_filter={pattern}", *OPTIONS))) if program.exists() else {}
