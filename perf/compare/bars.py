#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The planner's bars that need real processes: emulated hosts whose links are slow and far, probed, planned and measured. Needs root.

    ./dev bar V2        what probing says of the links, against how they were set
    ./dev bar V3        predicted times against measured ones
    ./dev bar V4        the plan's choices against the best of all algorithms, each measured (regret)
    ./dev bar V5        links that change while a job runs: how soon it follows a new plan, and how good that is
    ./dev bar V10       up to which rate of the link a codec pays, predicted and measured

Other bars (V1, V8) are programs of tests/bars. Exit codes: 0 reached, 1 missed or something that must work does not, 2 the command line
is wrong, 130 interrupted."""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Iterator

import benches
from compare import count_option, guarded, list_of, progress, report_option, write_report
from contenders import Place
from emulated import Broken, run_program, run_sweep
from figures import parse_size, quartiles, size_text

LIMIT_S = 300
SWEEPS = {"allreduce": "all_reduce_perf", "reduce_scatter": "reduce_scatter_perf", "allgather": "all_gather_perf", "broadcast": "broadcast_perf",
          "reduce": "reduce_perf", "alltoall": "alltoall_perf"}
SEGMENTS = (1, 4, 16)  # that are tried of each algorithm that has them, besides the plan's own


@dataclasses.dataclass(frozen=True)
class Setting:
    """Emulated hosts: how they are laid out and joined."""
    layout: str
    rate_mbit: int
    delay_ms: float

    @property
    def link(self) -> list[str]:
        delay = ["--delay", f"{self.delay_ms:g}ms"] if self.delay_ms else []
        return ["--rate", f"{self.rate_mbit}M", *delay]

    @property
    def ranks(self) -> int:
        sites, hosts = (int(part) for part in self.layout.split("x"))
        return sites * hosts

    @property
    def title(self) -> str:
        return f"{self.layout} {self.rate_mbit} Mbit/s {self.delay_ms:g} ms"


DRIFTS = (Setting("2x2", 200, 5), Setting("2x2", 50, 20))
CHANGES_S, DRIFT_S = 8, 24  # when links change, and how long the job goes on
CODEC, CODEC_STEPS = "thc:b=4", ("encode", "accumulate", "decode")
CODEC_RATES_MBIT = (50, 100, 200, 400, 800, 1600, 3200)
SETTINGS = [Setting("2x2", 200, 0), Setting("2x2", 200, 5), Setting("2x2", 100, 20), Setting("2x2", 800, 1), Setting("3x1", 200, 5)]


@dataclasses.dataclass
class Planned:
    profile: dict
    plan: pathlib.Path
    layout: pathlib.Path
    profile_file: pathlib.Path


def tool(place: Place, *words: str) -> str:
    done = subprocess.run([str(place.launcher), *words], capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise Broken(f"isthmus {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def plan(place: Place, setting: Setting, folder: pathlib.Path) -> Planned | str:
    """Probes the emulated job and plans it; or why there can be none."""
    progress(f"{setting.title}: probing")
    layout, profile, planned = folder / "job.json", folder / "profile.json", folder / "plan.json"
    for words, to in ((["isthmus", "topo", "--json"], layout), (["isthmus", "probe", "--json"], profile)):
        text = run_program(place, setting.layout, setting.link, words, LIMIT_S)
        if text is None:
            return "hosts cannot be made here; run as root"
        to.write_text(text[text.index("{"):text.rindex("}") + 1])
    tool(place, "plan", "make", "--layout", str(layout), "--profile", str(profile), "--format", "json", "-o", str(planned))
    return Planned(json.loads(profile.read_text()), planned, layout, profile)


@contextlib.contextmanager
def planned_job(place: Place, setting: Setting) -> Iterator[Planned]:
    """The job probed and planned; its files are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        planned = plan(place, setting, pathlib.Path(folder))
        if isinstance(planned, str):
            raise Broken(planned)
        yield planned


def choice_text(one: dict) -> str:
    leaders = one.get("leaders", 0)
    across = one.get("across", "direct")
    if across != "direct":
        return f"{one['algorithm']}/{one['segments']}/{leaders}/{across}"
    if leaders > 0:
        return f"{one['algorithm']}/{one['segments']}/{leaders}"
    return one["algorithm"] if one["segments"] == 1 else f"{one['algorithm']}/{one['segments']}"


def explained(place: Place, planned: Planned, collective: str, size: int) -> tuple[str, float]:
    """The plan's choice for a size, and its predicted microseconds."""
    chosen = json.loads(tool(place, "explain", collective, str(size), "--layout", str(planned.layout), "--profile", str(planned.profile_file),
                             "--plan", str(planned.plan), "--json"))["chosen"]
    return choice_text(chosen), chosen["predicted_ns"] / 1e3


def candidates(place: Place, collective: str, ranks: int) -> list[str]:
    found = []
    for one in json.loads(tool(place, "algorithms", "--json")):
        if one["collective"] != collective or one["coding"] is not None or not one["min_ranks"] <= ranks <= (one["max_ranks"] or ranks):
            continue
        most = max((tunable["max"] for tunable in one["tunables"] if tunable["name"] == "segments"), default=1)
        found += [one["name"] if segments == 1 else f"{one['name']}/{segments}" for segments in SEGMENTS if segments <= most]
    return found


def measure(place: Place, setting: Setting, collective: str, choice: str, sizes: list[int], iterations: int) -> dict[int, float]:
    """Microseconds of a forced choice, by size."""
    factor = str(sizes[1] // sizes[0]) if len(sizes) > 1 else "2"
    run = run_sweep(place, setting.layout, setting.link,
                    ["env", f"ISTHMUS_ALGO={collective}:{choice}", SWEEPS[collective], "-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", factor,
                     "-n", str(iterations), "-w", "1", "-c", "0"], LIMIT_S)
    if isinstance(run, str):
        raise Broken(run)
    return {row["size"]: row["out_of_place"]["time"] for row in run.document["results"]}


def rounds_of(place: Place, setting: Setting, collective: str, choices: list[str], options: argparse.Namespace) -> dict[str, dict[int, list[float]]]:
    """By choice and size, a time of every round; choices take turns."""
    times: dict[str, dict[int, list[float]]] = {choice: {size: [] for size in options.sizes} for choice in choices}
    for number in range(options.rounds):
        for at in range(len(choices)):
            choice = choices[(at + number) % len(choices)]
            progress(f"{setting.title}: {collective}, round {number + 1} of {options.rounds}: {choice}")
            for size, us in measure(place, setting, collective, choice, options.sizes, options.iterations).items():
                times[choice][size].append(us)
    return times


# --- the bars --------------------------------------------------------------------------------------------------------------------------

def links(place: Place, options: argparse.Namespace) -> tuple[list[dict], bool]:
    """V2: latency within 5 % or 0.2 ms, the cut within 15 %, sites told apart."""
    rows, reached = [], True
    for setting in options.settings:
        with planned_job(place, setting) as planned:
            across = [link for link in planned.profile["links"] if link["within"] == "job" and link.get("from") and link.get("to")]
        truth_rate = setting.rate_mbit * 1e6 / 8
        for link in across:
            latency_ms, rate = link["latency_ns"] / 1e6, link.get("cut_bytes_per_s") or link["stream_bytes_per_s"]
            off_ms = abs(latency_ms - setting.delay_ms)
            good = off_ms <= max(0.2, 0.05 * setting.delay_ms) and 0.85 <= rate / truth_rate <= 1.0
            reached = reached and good
            rows.append({"setting": setting.title, "link": f"{link['from']} -> {link['to']}", "latency_ms": latency_ms,
                         "rate_share": rate / truth_rate, "good": good})
            print(f"{setting.title:<24} {link['from']} -> {link['to']}: latency {latency_ms:.2f} ms (set {setting.delay_ms:g}), "
                  f"rate {rate / 1e6:.1f} MB/s, {100 * rate / truth_rate:.0f} % of the set rate with headers{'' if good else '  MISS'}")
        reached = reached and bool(across)
    return rows, reached


def predictions(place: Place, options: argparse.Namespace) -> tuple[list[dict], bool]:
    """V3: the median of |predicted / measured - 1| at most 15 %, its 90th percentile 35 %."""
    rows = []
    for setting in options.settings:
        with planned_job(place, setting) as planned:
            for collective in options.collectives:
                wanted = {size: explained(place, planned, collective, size) for size in options.sizes}
                choices = sorted({choice for choice, _ in wanted.values()})
                times = rounds_of(place, setting, collective, choices, options)
                for size, (choice, predicted_us) in wanted.items():
                    measured_us = statistics.median(times[choice][size])
                    rows.append({"setting": setting.title, "collective": collective, "size": size, "choice": choice,
                                 "predicted_us": predicted_us, "measured_us": measured_us, "error": predicted_us / measured_us - 1})
                    progress("")
                    print(f"{setting.title:<24} {collective:<15} {size_text(size):>6} {choice:<22} predicted {predicted_us:>12.1f} us, "
                          f"measured {measured_us:>12.1f} us, {100 * (predicted_us / measured_us - 1):+.0f} %", flush=True)
    errors = sorted(abs(row["error"]) for row in rows)
    median, p90 = statistics.median(errors), errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    print(f"|error|: median {100 * median:.1f} % (bar 15 %), 90th percentile {100 * p90:.1f} % (bar 35 %), {len(errors)} cases")
    return rows, median <= 0.15 and p90 <= 0.35


def regret(place: Place, options: argparse.Namespace) -> tuple[list[dict], bool]:
    """V4: the chosen one's time over the best measured one's: median at most 3 %, 95th percentile 15 %. Ties within noise (the lower
    quartile of the rounds' ratios is not above 1) count as zero."""
    rows = []
    for setting in options.settings:
        with planned_job(place, setting) as planned:
            for collective in options.collectives:
                wanted = {size: explained(place, planned, collective, size)[0] for size in options.sizes}
                choices = sorted({*candidates(place, collective, setting.ranks), *wanted.values()})
                times = rounds_of(place, setting, collective, choices, options)
                for size, chosen in wanted.items():
                    best = min(choices, key=lambda choice: statistics.median(times[choice][size]))
                    ratios = quartiles(mine / least for mine, least in zip(times[chosen][size], times[best][size]))
                    value = 0.0 if ratios.low <= 1 else ratios.median - 1
                    ring = statistics.median(times["ring"][size]) if "ring" in times else None
                    chosen_us = statistics.median(times[chosen][size])
                    rows.append({"setting": setting.title, "collective": collective, "size": size, "chosen": chosen, "best": best,
                                 "regret": value, "chosen_us": chosen_us, "over_ring": chosen_us / ring if ring else None})
                    progress("")
                    print(f"{setting.title:<24} {collective:<15} {size_text(size):>6} chosen {chosen:<20} {chosen_us:>12.1f} us, best {best:<20} "
                          f"regret {100 * value:.1f} %", flush=True)
    values = sorted(row["regret"] for row in rows)
    median, p95 = statistics.median(values), values[min(len(values) - 1, int(0.95 * len(values)))]
    over_ring = [row["over_ring"] for row in rows if row["over_ring"] is not None]
    print(f"regret: median {100 * median:.1f} % (bar 3 %), 95th percentile {100 * p95:.1f} % (bar 15 %), {len(values)} cases"
          + (f"; worst against the flat ring {max(over_ring):.2f} (bar 1.1)" if over_ring else ""))
    return rows, median <= 0.03 and p95 <= 0.15 and (not over_ring or max(over_ring) <= 1.1)


def drift(place: Place, options: argparse.Namespace) -> tuple[list[dict], bool]:
    """V5: links become four times as far and as slow while a job runs: its ranks follow a new plan within 64 calls or 5 s, whose calls take
    at most 10 % longer than the best of all algorithms there; every result is right."""
    before, after = DRIFTS
    rows = []
    for size in options.drift_sizes:
        progress(f"{before.title} becomes {after.title}: allreduce of {size_text(size)}")
        with tempfile.NamedTemporaryFile("w", suffix=".links") as script:
            script.write(f"at {CHANGES_S}s: delay * {after.delay_ms:g}ms\nat {CHANGES_S}s: rate out:* {after.rate_mbit}Mbit\n")
            script.flush()
            text = run_program(place, before.layout, [*before.link, "--script", script.name],
                               ["env", "ISTHMUS_PROBE=1", str(place.build / "perf/compare/compare_drift"), str(size), str(DRIFT_S)], LIMIT_S)
        if text is None:
            raise Broken("hosts cannot be made here; run as root")
        calls = [json.loads(line) for line in text.splitlines() if line.startswith('{"call"')]
        rows.append(drift_row(place, after, size, calls, options))
    for row in rows:
        progress("")
        print(f"allreduce {size_text(row['size']):>6}: new plan {row['calls']} calls and {row['seconds']:.1f} s after the change, held up for "
              f"{row['held_s']:.1f} s; {row['before_us']:.0f} us before, {row['between_us']:.0f} us until then, {row['after_us']:.0f} us with it; "
              f"best {row['best']} {row['best_us']:.0f} us, regret {100 * row['regret']:.1f} % (bar 10 %){'' if row['good'] else '  MISS'}")
    return rows, all(row["good"] for row in rows)


def drift_row(place: Place, after: Setting, size: int, calls: list[dict], options: argparse.Namespace) -> dict:
    usual_us = statistics.median(call["us"] for call in calls if call["at_s"] < CHANGES_S - 1)
    changed = next((call for call in calls if call["at_s"] > CHANGES_S - 2 and call["us"] > 1.5 * usual_us), None)
    planned = next((call for call in calls if changed and call["epoch"] > changed["epoch"]), None)
    if changed is None or planned is None:
        raise Broken(f"{len(calls)} calls, {'none became slower' if changed is None else 'no new plan'}")
    # The first call with the new plan waited until it was made.
    settled = [call["us"] for call in calls if call["call"] > planned["call"]]
    between = [call["us"] for call in calls if changed["call"] <= call["call"] < planned["call"]]
    choices = candidates(place, "allreduce", after.ranks)
    narrowed = argparse.Namespace(sizes=[size], rounds=options.rounds, iterations=options.iterations)
    times = {choice: statistics.median(by_size[size]) for choice, by_size in rounds_of(place, after, "allreduce", choices, narrowed).items()}
    best = min(times, key=times.__getitem__)
    after_us = statistics.median(settled)
    waited = planned["call"] - changed["call"]
    seconds = planned["at_s"] + planned["us"] / 1e6 - after_us / 1e6 - changed["at_s"]
    regret = max(0.0, after_us / times[best] - 1)
    return {"size": size, "calls": waited, "seconds": seconds, "held_s": (planned["us"] - after_us) / 1e6, "before_us": usual_us,
            "between_us": statistics.median(between or [changed["us"]]), "after_us": after_us, "best": best, "best_us": times[best],
            "regret": regret, "good": (waited <= 64 or seconds <= 5) and regret <= 0.10}


def crossover(place: Place, options: argparse.Namespace) -> tuple[list[dict], bool]:
    """V10: the rate of the link up to which a codec pays, as predicted from the profile of one rate, within 1.25 times of the rate at which calls
    with and without it are measured to take equally long."""
    base = Setting("2x1", CODEC_RATES_MBIT[len(CODEC_RATES_MBIT) // 2], 0)
    kernels = benches.medians(place, "codec_bench", "^(encode|accumulate|decode)/g=127/")
    codec = {name: max(4e9 / bench.ns_per_item for full, bench in kernels.items() if full.startswith(f"{name}/")) for name in CODEC_STEPS if kernels}
    if not codec:
        raise Broken("codec_bench is not built (Google Benchmark), so that nothing is known of the codec's speed")
    rows = []
    for size in options.codec_sizes:
        with planned_job(place, base) as planned:
            planned.profile["machine"]["codecs"] = [{"name": CODEC, **{f"{name}_bytes_per_s": int(rate) for name, rate in codec.items()}}]
            planned.profile_file.write_text(json.dumps(planned.profile))
            said = tool(place, "explain", "allreduce", str(size), "--layout", str(planned.layout), "--profile", str(planned.profile_file), "--codec", CODEC)
        found = re.search(r"carry less than ([\d.e+]+) MB/s \(now ([\d.e+]+)\)", said)
        predicted = base.rate_mbit * float(found[1]) / float(found[2]) if found else None
        measured = measured_crossover(place, size, options)
        good = predicted is not None and measured is not None and 1 / 1.25 <= predicted / measured <= 1.25
        rows.append({"size": size, "predicted_mbit": predicted, "measured_mbit": measured, "good": good})
        progress("")
        shown = [f"{one:.0f} Mbit/s" if one else "none within the rates" for one in (predicted, measured)]
        ratio = f", ratio {predicted / measured:.2f}" if predicted and measured else ""
        print(f"allreduce {size_text(size):>6} through {CODEC}: pays up to {shown[0]} as predicted, {shown[1]} as measured{ratio} (bar 0.80 to 1.25)"
              f"{'' if good else '  MISS'}", flush=True)
    return rows, all(row["good"] for row in rows)


def measured_crossover(place: Place, size: int, options: argparse.Namespace) -> float | None:
    """Mbit/s at which the codec's calls take as long as exact ones: between the rates around it, linear in the logarithms."""
    before: tuple[float, float] | None = None
    for rate in CODEC_RATES_MBIT:
        progress(f"2 hosts at {rate} Mbit/s: allreduce of {size_text(size)} through {CODEC}")
        run = run_sweep(place, "2x1", ["--rate", f"{rate}M"], ["all_reduce_perf", "-b", str(size), "-e", str(size), "-n", str(8 * options.rounds), "-w", "4",
                                                               "-c", "0", "-I", "1", "--codec", CODEC], LIMIT_S)
        if isinstance(run, str):
            raise Broken(run)
        halves = [run.row[f"{half}_per_iter"] for half in ("out_of_place", "in_place")]
        exact, coded = (statistics.median(us for half in halves for us in half[name]) for name in ("exact_times_us", "times_us"))
        gain = math.log(exact / coded)
        if before is not None and gain <= 0 < before[1]:
            share = before[1] / (before[1] - gain)
            return math.exp(before[0] + share * (math.log(rate) - before[0]))
        before = (math.log(rate), gain)
    return None


BARS = {"V2": links, "V3": predictions, "V4": regret, "V5": drift, "V10": crossover}


def setting_option(word: str) -> Setting:
    try:
        layout, rate, delay = word.split(",")
        sites, hosts = layout.split("x")
        return Setting(f"{int(sites)}x{int(hosts)}", int(rate), float(delay))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{word}' is no LAYOUT,MBIT,DELAY_MS such as 2x2,200,5") from None


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bar", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bar", choices=BARS)
    parser.add_argument("--settings", type=setting_option, nargs="+", default=SETTINGS, metavar="LAYOUT,MBIT,DELAY_MS")
    parser.add_argument("--collectives", type=list_of(str), default=list(SWEEPS), help="(all six)")
    parser.add_argument("--sizes", type=list_of(parse_size), default=[parse_size(text) for text in ("1K", "32K", "1M", "32M")],
                        help="each the same multiple of the one before (1K,32K,1M,32M)")
    parser.add_argument("--drift-sizes", type=list_of(parse_size), default=[parse_size(text) for text in ("16K", "256K", "1M")],
                        help="of V5 (16K,256K,1M)")
    parser.add_argument("--codec-sizes", type=list_of(parse_size), default=[parse_size(text) for text in ("16K", "32K", "64K")],
                        help="of V10 (16K,32K,64K)")
    parser.add_argument("--rounds", type=count_option, default=7)
    parser.add_argument("--iterations", type=count_option, default=3)
    parser.add_argument("--json", type=report_option, metavar="FILE", help="'-' for standard output")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if unknown := [name for name in options.collectives if name not in SWEEPS]:
        parser.error(f"--collectives: '{unknown[0]}' is none of {', '.join(SWEEPS)}")
    factors = {b / a for a, b in zip(options.sizes, options.sizes[1:])}
    if len(factors) > 1:
        parser.error("--sizes: each must be the same multiple of the one before")
    return options


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    place = Place(options.build.resolve())
    began = time.monotonic()
    try:
        rows, reached = BARS[options.bar](place, options)
    except (Broken, subprocess.TimeoutExpired) as error:
        print(f"bar: {error}", file=sys.stderr)
        return 1
    write_report(options.json, {"format": "isthmus.bar/1", "bar": options.bar, "reached": reached, "rows": rows})
    if options.json != "-":
        print(f"{options.bar} {'reached' if reached else 'MISSED'}, in {time.monotonic() - began:.0f} s")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(guarded("bar", main))
