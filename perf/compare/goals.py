# SPDX-License-Identifier: Apache-2.0
"""The speed targets as data, and how measurements are held against them, as pure functions. A target over several sizes is met if the
worst size meets it. Used by targets.py."""
from __future__ import annotations

import dataclasses
import statistics
from typing import Iterator

from figures import LIBRARY, ORDINARY, Case, Measured, compare, quartiles, size_text

MIB = 1 << 20
RANGES = {LIBRARY: {"1 MiB and more": (MIB, 1 << 40), "4 KiB to 1 MiB": (4 << 10, MIB - 1), "1 KiB and less": (0, 1 << 10)},
          ORDINARY: {"1 MiB and more": (MIB, 1 << 40), "64 KiB to 1 MiB": (64 << 10, MIB - 1)}}
LARGE = {"allreduce": {2: 2.0, 4: 1.5}, "reduce_scatter": {2: 1.5, 4: 1.3}, "allgather": {2: 1.0, 4: 1.0}}
MIDDLE = {2: 0.95, 4: 1.0}
LATENCY = {2: 1.2, 4: 1.0}  # our time over the peer's
ONE_PROCESS_SHARE = 0.5     # allreduce -g 2: payload rate over that of one thread's in-place add
ALLGATHER_SHARE = 0.85      # of what two processes that copy at once reach
SITES_RING_SHARE = 1.4      # the flat ring's time over the chosen one's
PAYLOAD_SHARE = 1448 / 1514  # of a full frame at an MTU of 1500, with TCP's time stamps
SITES_COUNTER_SHARE = 0.05  # by which interface counters may differ from the formula
CODEC_KERNELS = {"encode and decode / copy": 0.4, "accumulate / decode": 4.0}  # rates, one thread
CODEC_KERNEL_RANKS = (2, 4, 8, 16)
CODEC_AGAINST = {"exact": 4.5, "bf16": 2.2}  # their time over thc's, where the links are slow
CODEC_COUNTER_SHARE = 0.02
ADDED_BYTES = 64 << 10      # what is no buffer: bookkeeping of a communicator, noise of a process's memory

PASS, MISS, SKIPPED = "pass", "MISS", "skipped"


@dataclasses.dataclass(frozen=True)
class Goal:
    part: str  # speed, budgets, memory, sites, codec
    text: str
    wanted: float
    at_least: bool
    unit: str  # "x" for ratios of times and rates

    def number(self, value: float) -> str:
        if self.unit == "x":
            return f"{value:.2f}x"
        return (f"{value:.3g}" if value < 1000 else f"{value:.0f}") + (f" {self.unit}" if self.unit else "")


@dataclasses.dataclass(frozen=True)
class Outcome:
    goal: Goal
    values: dict[str, float]  # by size or other variant
    why: str = ""             # there are no values

    @property
    def worst(self) -> tuple[str, float]:
        return (min if self.goal.at_least else max)(self.values.items(), key=lambda entry: entry[1])

    @property
    def verdict(self) -> str:
        if not self.values:
            return SKIPPED
        return PASS if (self.worst[1] >= self.goal.wanted if self.goal.at_least else self.worst[1] <= self.goal.wanted) else MISS

    def line(self) -> str:
        goal = self.goal
        wanted = f"{'>=' if goal.at_least else '<='} {goal.number(goal.wanted)}"
        if not self.values:
            return f"{self.verdict:8}{goal.text:86} {wanted:>14}  {self.why}"
        name, value = self.worst
        found = goal.number(value) + (f" at {name}" if name else "")
        spread = f"   median {goal.number(statistics.median(self.values.values()))}" if len(self.values) > 1 else ""
        return f"{self.verdict:8}{goal.text:86} {wanted:>14}  {found}{spread}"

    def as_json(self) -> dict:
        worst = self.worst if self.values else (None, None)
        return {**dataclasses.asdict(self.goal), "verdict": self.verdict, "worst": worst[1], "worst_at": worst[0],
                "median": statistics.median(self.values.values()) if self.values else None, "values": self.values, "why": self.why}


def outcome(goal: Goal, values: dict[str, float | None], why: str = "not measured") -> Outcome:
    """Of the values that there are; all must be there, or a target could be met by what was not measured."""
    missing = [name for name, value in values.items() if value is None]
    if missing or not values:
        return Outcome(goal, {}, why + (f" at {', '.join(missing)}" if any(missing) else ""))
    return Outcome(goal, dict(values))


def against_peers(measured: Measured, sizes: list[int], memory: str) -> Iterator[Outcome]:
    for collective, large in LARGE.items():
        for processes in large:
            for title, (low, high) in RANGES[memory].items():
                chosen = [size for size in sizes if low <= size <= high]
                ratios = {size_text(size): found and found.ratio.median
                          for size in chosen for found in [compare(measured.samples, Case(processes, collective, size, memory))]}
                text = f"{collective}, {processes} processes, {title}{kind_of(memory)}: "
                if high <= 1 << 10:
                    goal = Goal("speed", text + "our time / best peer's", LATENCY[processes], False, "x")
                    ratios = {name: ratio and 1 / ratio for name, ratio in ratios.items()}
                else:
                    goal = Goal("speed", text + "best peer's time / ours", large[processes] if low >= MIB else MIDDLE[processes], True, "x")
                yield outcome(goal, ratios)


def kind_of(memory: str) -> str:
    return ", ordinary memory" if memory == ORDINARY else ""


def against_memory(measured: Measured, sizes: list[int]) -> Iterator[Outcome]:
    def of_memory(work: str, processes: int, size: int) -> float | None:
        times = measured.memory.get((work, processes, size))
        return quartiles(times).median if times else None

    large = [size for size in sizes if size >= MIB]
    both = {size: (of_memory("add", 1, size), of_memory("allreduce -g 2", 1, size)) for size in large}
    yield outcome(Goal("speed", "allreduce -g 2: payload rate / in-place add of one thread", ONE_PROCESS_SHARE, True, "x"),
                  {size_text(size): add / ours if add and ours else None for size, (add, ours) in both.items()})
    for memory in RANGES:
        gathers = {size: (of_memory("copy", 2, size), measured.samples.time(Case(2, "allgather", size, memory), "Isthmus")) for size in large}
        yield outcome(Goal("speed", f"allgather, 2 processes{kind_of(memory)}: rate / two processes copying", ALLGATHER_SHARE, True, "x"),
                      {size_text(size): copy / ours.median if copy and ours else None for size, (copy, ours) in gathers.items()})


@dataclasses.dataclass
class Bench:
    """A line of Google Benchmark: nanoseconds per iteration and per item, and counters."""
    ns: float
    ns_per_item: float | None
    counters: dict[str, float]


def read_benchmarks(document: dict) -> dict[str, Bench]:
    """Medians by name."""
    units = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    found = {}
    for entry in document["benchmarks"]:
        if entry.get("aggregate_name") != "median" or entry.get("error_occurred"):
            continue
        rate = entry.get("items_per_second")
        found[entry["run_name"]] = Bench(entry["real_time"] * units[entry["time_unit"]], 1e9 / rate if rate else None,
                                         {name: value for name, value in entry.items() if name in ("bytes", "steps")})
    return found


def budgets(found: dict[str, Bench]) -> Iterator[Outcome]:
    """`found`: dispatch_bench, exec_bench and plan_bench together."""
    dispatch = found.get("dispatch/one_rank/in_place")
    yield outcome(Goal("budgets", "dispatch: a call on one rank without work", 100, False, "ns"), {"": dispatch and dispatch.ns})
    steps = {}
    for kind in ("copy", "reduce"):
        step, kernel = found.get(f"steps/{kind}"), found.get(f"kernel/{kind}")
        steps[kind] = step.ns_per_item - kernel.ns_per_item if step and kernel and step.ns_per_item and kernel.ns_per_item else None
    yield outcome(Goal("budgets", "a step beside transport and kernels", 20, False, "ns"), steps)
    plans = {name.removeprefix("build/").removesuffix("/4096"): bench for name, bench in found.items()
             if name.startswith("build/") and name.endswith("/4096")}
    yield outcome(Goal("budgets", "one rank's plan at 4096 ranks, every algorithm: time", 1, False, "ms"),
                  {name: bench.ns / 1e6 for name, bench in plans.items()})
    yield outcome(Goal("budgets", "one rank's plan at 4096 ranks, every algorithm: memory", 1, False, "MiB"),
                  {name: bench.counters["bytes"] / MIB if "bytes" in bench.counters else None for name, bench in plans.items()})


def growth(lines: list[dict]) -> Iterator[Outcome]:
    found = {line["what"]: line for line in lines}
    one, calls = found.get("one_rank", {}), found.get("calls", {})
    yield outcome(Goal("memory", "a one-rank communicator allocates no buffers: address space", ADDED_BYTES, False, "B"),
                  {"": one.get("mapped_bytes")})
    yield outcome(Goal("memory", "10^6 calls add nothing: resident memory", ADDED_BYTES, False, "B"), {"": calls.get("resident_bytes")})
    yield outcome(Goal("memory", "10^6 calls add nothing: descriptors", 0, False, "open"), {"": calls.get("descriptors")})


@dataclasses.dataclass(frozen=True)
class Crossing:
    """Hosts at two sites, and what of the physical bound calls between them must reach."""
    layout: str  # as sites.py takes it
    cyclic: bool
    rate_bits_per_s: int
    share: float

    @property
    def sites(self) -> list[int]:
        """Hosts by site."""
        if "+" in self.layout:
            return [int(part) for part in self.layout.split("+")]
        sites, hosts = (int(part) for part in self.layout.split("x"))
        return [hosts] * sites

    @property
    def hosts(self) -> list[str]:
        """In the order of their ranks, as sites.py names and places them."""
        first = [sum(self.sites[:site]) for site in range(len(self.sites))]
        places = [(site, place) for site, count in enumerate(self.sites) for place in range(count)]
        if self.cyclic:
            places.sort(key=lambda each: (each[1], each[0]))
        return [f"h{first[site] + place}" for site, place in places]

    @property
    def title(self) -> str:
        return f"{self.layout}{' cyclic' if self.cyclic else ''} at {self.rate_bits_per_s // 1_000_000} Mbit/s"

    def link(self, mtu_bytes: int) -> list[str]:
        """Options of sites.py."""
        return ["--rate", str(self.rate_bits_per_s), "--mtu", str(mtu_bytes), *(["--cyclic"] if self.cyclic else [])]

    def leaving(self, collective: str, size: int, site: int) -> float:
        """The least bytes that leave a site: of two sites, its own blocks, the sums of the other's, or the sum of everything."""
        share = {"allreduce": 1.0, "allgather": self.sites[site] / sum(self.sites), "reduce_scatter": 1 - self.sites[site] / sum(self.sites)}
        return size * share[collective]


@dataclasses.dataclass(frozen=True)
class Site:
    """A run on two sites: `calls` calls of a collective with `bytes` in its larger buffer."""
    crossing: Crossing
    collective: str
    bytes: int
    calls: int
    us: dict[str, float]  # out of place, in place: the slowest rank's mean
    uplink_bytes: dict[str, int]  # "site 0 out", "site 0 in", ...
    ring_us: float | None = None  # the flat ring's, out of place; None: not measured
    peers_us: dict[str, float] = dataclasses.field(default_factory=dict)  # other libraries', by algorithm, out of place

    @property
    def title(self) -> str:
        return f"{self.collective} of {size_text(self.bytes)}, {self.crossing.title}"


def beside_peers(runs: list[Site]) -> Iterator[str]:
    """A line for each run that others have run as well."""
    for run in runs:
        if run.peers_us:
            ours, best = run.us["out of place"], min(run.peers_us, key=run.peers_us.get)
            times = [(name, run.peers_us[name]) for name in dict.fromkeys([next(iter(run.peers_us)), best])]
            yield f"{run.title}: {ours / 1e3:.0f} ms; " + "; ".join(f"{name} {us / 1e3:.0f} ms, {us / ours:.2f} times" for name, us in times)


def sites(runs: list[Site], why: str, mtu_bytes: int) -> Iterator[Outcome]:
    """A full frame of `mtu` carries mtu - 52 bytes (IPv4 and TCP with time stamps) and is mtu + 14 long on the wire."""
    payload_share = (mtu_bytes - 52) / (mtu_bytes + 14)

    def bound_us(run: Site) -> float:
        most = max(run.crossing.leaving(run.collective, run.bytes, site) for site in (0, 1))
        return most * 8 / (payload_share * run.crossing.rate_bits_per_s) * 1e6

    def formula(run: Site, name: str) -> float:
        _, number, way = name.split()
        site = int(number) if way == "out" else 1 - int(number)
        return run.calls * run.crossing.leaving(run.collective, run.bytes, site) / payload_share

    for crossing in dict.fromkeys(run.crossing for run in runs):
        yield outcome(Goal("sites", f"{crossing.title}: physical bound / time", crossing.share, True, "x"),
                      {f"{run.collective} {size_text(run.bytes)} {name}": bound_us(run) / us
                       for run in runs if run.crossing == crossing for name, us in run.us.items()}, why)
    if not runs:
        yield outcome(Goal("sites", "two sites: physical bound / time", 0.9, True, "x"), {}, why)
    yield outcome(Goal("sites", "two sites: time of the flat ring / time", SITES_RING_SHARE, True, "x"),
                  {run.title: run.ring_us / run.us["out of place"] for run in runs if run.ring_us is not None}, why)
    yield outcome(Goal("sites", "two sites: best peer's time / time", 1.0, True, "x"),
                  {run.title: min(run.peers_us.values()) / run.us["out of place"] for run in runs if run.peers_us}, why)
    yield outcome(Goal("sites", "two sites: interface counters' distance from the formula", SITES_COUNTER_SHARE, False, ""),
                  {f"{run.title} {name}": abs(count / formula(run, name) - 1) for run in runs for name, count in run.uplink_bytes.items()}, why)


@dataclasses.dataclass(frozen=True)
class CodecRun:
    """Calls with a codec on hosts joined by slow links: the slowest rank's microseconds, call by call."""
    codec: str
    algorithm: str
    us: list[float]
    exact_us: list[float]  # of the exact calls, each right after; empty: there were none
    wire_bytes: int  # that a rank sends in a call
    nmse: float
    formula_share: float | None  # by which the farthest host's counter is off the formula

    @property
    def median_us(self) -> float:
        return statistics.median(self.us)

    @property
    def against_exact(self) -> float:
        return statistics.median(exact / own for exact, own in zip(self.exact_us, self.us))


def kernel_name(name: str, ranks: int, target: str) -> str:
    """codec_bench's name of thc:b=4 by itself for so many ranks, with an instruction set."""
    return f"{name}/g={max(255 // ranks, 15)}/{target}"


def codec_kernels(found: dict[str, Bench], target: str) -> Iterator[Outcome]:
    """`found`: codec_bench; `target`: the instruction set."""
    def rate(name: str) -> float | None:
        bench = found.get(name)
        return 1 / bench.ns_per_item if bench and bench.ns_per_item else None

    for goal, wanted in CODEC_KERNELS.items():
        ratios = {}
        for ranks in CODEC_KERNEL_RANKS:
            encode_decode, accumulate, decode = (rate(kernel_name(name, ranks, target)) for name in ("encode_decode", "accumulate", "decode"))
            over, under = (encode_decode, rate("copy")) if "copy" in goal else (accumulate, decode)
            ratios[f"{ranks} ranks"] = over / under if over and under else None
        yield outcome(Goal("codec", f"thc:b=4, 64 MiB, one thread: rate of {goal}", wanted, True, "x"), ratios)


def codec_links(runs: dict[int, dict[str, CodecRun]], what: str, why: str) -> Iterator[Outcome]:
    """`runs`: by hosts and name ("thc", "bf16")."""
    for peer, wanted in CODEC_AGAINST.items():
        yield outcome(Goal("codec", f"{what}: time of {peer} / of thc:b=4", wanted, True, "x"),
                      {f"{hosts} hosts": of["thc"].against_exact if peer == "exact" else of[peer].median_us / of["thc"].median_us
                       for hosts, of in runs.items()}, why)
    yield outcome(Goal("codec", "the same: interface counters' distance from the formula", CODEC_COUNTER_SHARE, False, ""),
                  {f"{hosts} hosts {name}": run.formula_share and abs(run.formula_share) for hosts, of in runs.items() for name, run in of.items()}, why)


def seconds_of_stages(run: CodecRun, elements: int, hosts: int, cpus: int, rate_bits_per_s: int, found: dict[str, Bench], target: str) -> dict[str, float]:
    """What each stage of a direct allreduce takes by itself: the link's share of a rank's bytes, and the codec's arithmetic, all of whose
    ranks share this machine's CPUs. `found`: codec_bench."""
    def arithmetic(name: str, share: float) -> float:
        return found[kernel_name(name, hosts, target)].ns_per_item * 1e-9 * elements * share * max(1.0, hosts / cpus)

    return {"link": run.wire_bytes * 8 / (PAYLOAD_SHARE * rate_bits_per_s), "encode": arithmetic("encode", 1),
            "accumulate": arithmetic("accumulate", (hosts - 1) / hosts), "decode": arithmetic("decode", 1)}
