# SPDX-License-Identifier: Apache-2.0
"""The comparison's numbers, as pure functions: quartiles, who is the best peer, ratios, which contenders stay in the race, the table.
Used by compare.py and targets.py. Nothing here runs anything; what was not measured is None."""
from __future__ import annotations

import collections
import dataclasses
import re
from typing import Iterable

OURS = "Isthmus"
LIBRARY, ORDINARY = "library", "ordinary"  # where buffers come from: each library's own allocator (as in nccl-tests), or malloc
QUIET_SHARE = 0.05  # what others may use of the CPUs before the numbers are not to be trusted


@dataclasses.dataclass(frozen=True, order=True)
class Case:
    """What one row compares."""
    processes: int
    collective: str  # allreduce, reduce_scatter, allgather
    bytes: int
    memory: str = LIBRARY


@dataclasses.dataclass(frozen=True)
class Quartiles:
    low: float
    median: float
    high: float


def quartiles(values: Iterable[float]) -> Quartiles:
    """Of at least one value; between two values linearly."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return Quartiles(at(0.25), at(0.5), at(0.75))


class Samples:
    """Microseconds by case, contender and round. A contender that did not finish in a round has no sample there."""

    def __init__(self) -> None:
        self._times: dict[Case, dict[str, dict[int, float]]] = collections.defaultdict(lambda: collections.defaultdict(dict))

    def add(self, case: Case, contender: str, round_number: int, us: float) -> None:
        """Of several measurements of a contender in a round (MPI has two calls for reduce-scatter) the fastest counts."""
        rounds = self._times[case][contender]
        rounds[round_number] = min(us, rounds.get(round_number, us))

    def cases(self) -> list[Case]:
        order = {"allreduce": 0, "reduce_scatter": 1, "allgather": 2}
        return sorted(self._times, key=lambda case: (case.processes, case.memory, order.get(case.collective, 9), case.bytes))

    def contenders(self, case: Case) -> list[str]:
        return list(self._times[case])

    def rounds(self, case: Case, contender: str) -> dict[int, float]:
        return dict(self._times.get(case, {}).get(contender, {}))

    def time(self, case: Case, contender: str) -> Quartiles | None:
        rounds = self.rounds(case, contender)
        return quartiles(rounds.values()) if rounds else None


@dataclasses.dataclass
class Measured:
    """All that a run of the comparison found."""
    samples: Samples = dataclasses.field(default_factory=Samples)
    memory: dict[tuple[str, int, int], list[float]] = dataclasses.field(default_factory=dict)  # (work, processes, bytes) -> us by round
    notes: list[str] = dataclasses.field(default_factory=list)
    starts: dict[str, str] = dataclasses.field(default_factory=dict)  # how each library was started
    others_share: float | None = None  # of the CPUs' time that went to other processes, or to other machines of this host, meanwhile


@dataclasses.dataclass(frozen=True)
class Comparison:
    case: Case
    ours: Quartiles
    peer: str
    peers: Quartiles
    ratio: Quartiles  # of times, peer's to ours, round by round: above 1 we are faster


def compare(samples: Samples, case: Case) -> Comparison | None:
    """Ours against the peer with the lowest median. None where one of them is missing or they share no round."""
    ours = samples.time(case, OURS)
    medians = {name: time.median for name in samples.contenders(case) if name != OURS and (time := samples.time(case, name))}
    if ours is None or not medians:
        return None
    peer = min(medians, key=medians.__getitem__)
    own_rounds, peer_rounds = samples.rounds(case, OURS), samples.rounds(case, peer)
    shared = own_rounds.keys() & peer_rounds.keys()
    if not shared:
        return None
    ratio = quartiles(peer_rounds[number] / own_rounds[number] for number in shared)
    return Comparison(case, ours, peer, samples.time(case, peer), ratio)


def still_racing(screened: Samples, within: float) -> dict[str, set[Case]]:
    """The cases that each peer goes on with after the screening: those where it was within this factor of the fastest."""
    racing: dict[str, set[Case]] = collections.defaultdict(set)
    for case in screened.cases():
        times = {name: time.median for name in screened.contenders(case) if (time := screened.time(case, name))}
        for name, time in times.items():
            if time <= within * min(times.values()):
                racing[name].add(case)
    return racing


def parse_size(text: str) -> int:
    """'4K' is 4096."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip(), re.IGNORECASE)
    size = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()] if match else 0
    if not 4 <= size <= 1 << 30:
        raise ValueError(f"'{text}' is no size: write bytes from 4 to 1G, such as 8, 4K, 16M")
    return size


def size_text(size: int) -> str:
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def time_text(us: float) -> str:
    return f"{us:.2f}" if us < 100 else f"{us:.0f}"


def busy_seconds(stat: str, ticks_per_s: int) -> float:
    """CPU time that anybody has used, from the text of /proc/stat: user, nice, system, irq, softirq, and steal (another machine's)."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(word) for word in stat.splitlines()[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / ticks_per_s


def quiet_line(measured: Measured) -> str:
    if measured.others_share is None:
        return "Whether the machine was quiet is not known."
    share = f"Others used {measured.others_share:.0%} of the CPUs meanwhile"
    return share + ("." if measured.others_share <= QUIET_SHARE else ": THE MACHINE WAS NOT QUIET, do not trust these numbers.")


def table(samples: Samples) -> list[str]:
    """The comparison for people: per case our time, the best peer's, and the ratio with its quartiles."""
    lines: list[str] = []
    heading = None
    for case in samples.cases():
        if heading != (case.processes, case.collective, case.memory):
            heading = (case.processes, case.collective, case.memory)
            kind = "float sum" if "reduce" in case.collective else "float"
            where = ", ordinary memory" if case.memory == ORDINARY else ""
            lines += ["", f"{case.collective}, {kind}, {case.processes} process{'es' if case.processes > 1 else ''}{where}",
                      f"{'size':>6} {'Isthmus us':>12} {'best peer us':>13} {'ratio':>7} {'quartiles':>13}  best peer"]
        lines.append(row(samples, case))
    return lines


def row(samples: Samples, case: Case) -> str:
    size, found = f"{size_text(case.bytes):>6}", compare(samples, case)
    if found is not None:
        spread = f"{found.ratio.low:.2f}-{found.ratio.high:.2f}"
        return (f"{size} {time_text(found.ours.median):>12} {time_text(found.peers.median):>13} {found.ratio.median:>7.2f} {spread:>13}"
                f"  {found.peer}")
    ours = samples.time(case, OURS)
    return f"{size} {time_text(ours.median) if ours else '-':>12} {'-':>13} {'-':>7}"
