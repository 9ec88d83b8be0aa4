#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Isthmus with the MPI libraries of this machine, round after round: every contender is a short job of its own in every round,
and what is printed are medians and quartiles of the ratios within rounds. Ratios above 1 mean that Isthmus is faster.

    ./dev perf compare [OPTION...]

Exit codes: 0 measured; 1 Isthmus itself could not be measured; 2 the command line is wrong; 130 interrupted."""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import signal
import sys
import time

from contenders import Contender, Place, all_contenders, run_lines
from figures import (LIBRARY, ORDINARY, OURS, Case, Measured, Samples, busy_seconds, compare, parse_size, quartiles, quiet_line, size_text, still_racing,
                     table)

COLLECTIVES = ("allreduce", "reduce_scatter", "allgather")
SIZES = "8,1K,4K,64K,256K,1M,4M,16M"
WITHIN = 1.3       # of the fastest peer in the screening: who is slower at a size is not run again there
SCREENING_ROUNDS = 2
SCREENING_LIMIT_MS = 20  # of a batch
JOB_LIMIT_S = 60
LINE_EVERY_S = 10
LAST_WAIT_S = 10  # for processes that were started at the last moment
INTERRUPTED = 130
ONE_PROCESS = "allreduce -g 2"
ORDINARY_FROM = 8 << 10  # smaller messages are copied through shared memory wherever they lie
BATCHES = 3
next_line_at = time.monotonic() + LINE_EVERY_S

# Calls per batch, by the largest size that they are for.
ITERATIONS = ((4 << 10, 400), (64 << 10, 100), (256 << 10, 40), (1 << 20, 16), (4 << 20, 6), (1 << 40, 2))


def iterations_for(size: int) -> int:
    return next(count for limit, count in ITERATIONS if size <= limit)


@dataclasses.dataclass
class Plan:
    """What is to be measured."""
    place: Place
    processes: list[int]
    collectives: list[str]
    sizes: list[int]
    rounds: int = 7
    memories: tuple[str, ...] = (LIBRARY,)
    together: bool = False
    only_defaults: bool = False
    one_process: bool = False  # also an allreduce of two ranks in one process
    cpus: int = dataclasses.field(default_factory=lambda: len(os.sched_getaffinity(0)))

    def cases(self, processes: int) -> list[Case]:
        return [Case(processes, collective, size, memory) for memory in self.memories for collective in self.collectives for size in self.sizes
                if memory == LIBRARY or size >= ORDINARY_FROM or len(self.memories) == 1]


def progress(text: str, keep: bool = False) -> None:
    """One line in place on a terminal; elsewhere what is to be kept, and of the rest a line every ten seconds."""
    global next_line_at
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="\n" if keep else "", file=sys.stderr, flush=True)
    elif keep or (text and time.monotonic() >= next_line_at):
        print(text, file=sys.stderr, flush=True)
        next_line_at = time.monotonic() + LINE_EVERY_S


def end_children() -> None:
    """Ends what was being started when the interruption came, and so was not known yet to whom it would have ended. It is asked again
    and again, since between fork and exec a process hears nothing."""
    give_up_at = time.monotonic() + LAST_WAIT_S
    while pids := [int(pid) for task in pathlib.Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]:
        for pid in pids:
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                os.kill(pid, signal.SIGTERM if time.monotonic() < give_up_at else signal.SIGKILL)
        time.sleep(0.02)


def guarded(name: str, main) -> int:
    """The program's exit code. An interruption (Ctrl-C, or SIGTERM as one) ends it with one line; what it had started has ended by then."""
    def interrupted(*_) -> None:
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupted)
    try:
        return main(sys.argv[1:])
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        end_children()
        progress("")
        print(f"{name}: interrupted; nothing was measured to the end", file=sys.stderr)
        return INTERRUPTED


def report_option(word: str) -> str:
    """'-', or a file that can be written: whoever cannot keep what was measured is told before it is measured."""
    try:
        if word != "-":
            pathlib.Path(word).open("a").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write {word}: {error.strerror}") from None
    return word


def write_report(to: str | None, document: dict) -> None:
    """To what report_option accepted; None: nowhere."""
    text = json.dumps(document, indent=1) + "\n"
    if to == "-":
        sys.stdout.write(text)
    elif to:
        pathlib.Path(to).write_text(text)


def note(measured: Measured, text: str) -> None:
    """Said at once and kept, but once."""
    if text not in measured.notes:
        measured.notes.append(text)
        progress(text, keep=True)


def run_job(plan: Plan, contender: Contender, items: list[tuple[Case, str]], options: list[str]) -> tuple[list[tuple[Case, str, float]], str]:
    """A job of one contender for each kind of memory: (case, contender's name, us) of what it measured, and what went wrong."""
    together = ["--together"] if plan.together else []
    found, problems = [], []
    for memory in plan.memories:
        here = [(case, collective) for case, collective in items if case.memory == memory]
        if not here:
            continue
        words = [f"{collective}:{case.bytes}:{iterations_for(case.bytes)}" for case, collective in here]
        lines, problem = run_lines([*contender.start, *options, *together, "--memory", memory, *words], JOB_LIMIT_S)
        found += [(case, contender.name(collective), line["us"]) for (case, collective), line in zip(here, lines)]
        problems += [problem] if problem else []
    return found, "; ".join(problems)


def screen(plan: Plan, contenders: list[Contender], processes: int, measured: Measured) -> dict[str, set[Case]]:
    """Short rounds with everybody: who is slower than the fastest peer at a size, in its best round, is left out there."""
    screened = Samples()
    for contender in contenders:
        if contender.family == OURS:
            continue
        progress(f"{processes} processes, screening: {contender.title}")
        for _ in range(SCREENING_ROUNDS):
            results, problem = run_job(plan, contender, contender.items(plan.cases(processes)), ["--batches", "1", "--limit-ms", str(SCREENING_LIMIT_MS)])
            if problem:
                note(measured, f"{contender.title} with {processes} processes: {problem}")
                break
            for case, name, us in results:
                screened.add(case, name, 0, us)
    return still_racing(screened, WITHIN)


def run_round(plan: Plan, contenders: list[Contender], racing: dict[str, set[Case]], number: int, processes: int, measured: Measured) -> None:
    turn = number % len(contenders)  # nobody always comes after the same one
    for contender in contenders[turn:] + contenders[:turn]:
        progress(f"{processes} processes, round {number + 1} of {plan.rounds}: {contender.title}")
        items = contender.items(plan.cases(processes), None if contender.family == OURS else racing)
        results, problem = run_job(plan, contender, items, ["--batches", str(BATCHES)])
        if problem:
            note(measured, f"{contender.title} with {processes} processes: {problem}")
        for case, name, us in results:
            measured.samples.add(case, name, number, us)


def measure_memory(plan: Plan, sizes: list[int], measured: Measured) -> None:
    works = [("copy", 1), ("copy", 2), ("add", 1)]
    items = [f"{work}:{processes}:{size}" for size in sizes for work, processes in works]
    lines, problem = run_lines([str(plan.place.program("memory")), *items], JOB_LIMIT_S)
    if problem:
        note(measured, f"memory bandwidth: {problem}")
    for line in lines:
        measured.memory.setdefault((line["work"], line["processes"], line["bytes"]), []).append(line["us"])


def measure_one_process(plan: Plan, sizes: list[int], measured: Measured) -> None:
    items = [f"allreduce:{size}:{iterations_for(size)}" for size in sizes]
    lines, problem = run_lines([str(plan.place.program("isthmus")), "-g", "2", "--batches", str(BATCHES), *items], JOB_LIMIT_S)
    if problem:
        note(measured, f"two ranks in one process: {problem}")
    for line in lines:
        measured.memory.setdefault((ONE_PROCESS, 1, line["bytes"]), []).append(line["us"])


class Watch:
    """How much of the machine others use between its making and share()."""

    def __init__(self) -> None:
        self._began = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        used = os.times()
        busy = busy_seconds(pathlib.Path("/proc/stat").read_text(), os.sysconf("SC_CLK_TCK"))
        return time.monotonic(), busy, used.user + used.system + used.children_user + used.children_system

    def share(self) -> float:
        wall, busy, own = (after - before for before, after in zip(self._began, self._now()))
        return max(0.0, busy - own) / (wall * (os.cpu_count() or 1))


def measure(plan: Plan) -> Measured:
    measured, watch = Measured(), Watch()
    fields: dict[int, tuple[list[Contender], dict[str, set[Case]]]] = {}
    for processes in plan.processes:
        contenders, missing = all_contenders(plan.place, processes, plan.cpus, plan.only_defaults)
        for line in missing:
            note(measured, line)
        for contender in contenders:
            measured.starts.setdefault(f"{contender.family}, {processes} processes", " ".join([pathlib.Path(contender.start[0]).name, *contender.start[1:-1]]))
        fields[processes] = contenders, screen(plan, contenders, processes, measured)
    for number in range(plan.rounds):
        measure_memory(plan, memory_sizes(plan), measured)
        if plan.one_process:
            measure_one_process(plan, memory_sizes(plan), measured)
        for processes, (contenders, racing) in fields.items():
            run_round(plan, contenders, racing, number, processes, measured)
    progress("")
    measured.others_share = watch.share()
    return measured


def memory_sizes(plan: Plan) -> list[int]:
    return [size for size in plan.sizes if size >= 1 << 20] or [1 << 20]


def memory_lines(measured: Measured) -> list[str]:
    titles = {("copy", 1): "memcpy, one process", ("copy", 2): "memcpy, each of two processes", ("add", 1): "a[i] += b[i], one process",
              (ONE_PROCESS, 1): "allreduce, 2 ranks, 1 process"}
    sizes = sorted({size for _, _, size in measured.memory})
    lines = ["Memory of this machine in this run, GB/s of one operand:", f"{'':32}" + "".join(f"{size_text(size):>9}" for size in sizes)]
    for (work, processes), title in titles.items():
        row = [measured.memory.get((work, processes, size)) for size in sizes]
        if not any(row):
            continue
        lines.append(f"  {title:30}" + "".join(f"{size / quartiles(us).median / 1e3:9.1f}" if us else f"{'-':>9}" for size, us in zip(sizes, row)))
    return lines


def as_json(plan: Plan, measured: Measured) -> dict:
    rows = []
    for case in measured.samples.cases():
        found = compare(measured.samples, case)
        rows.append({**dataclasses.asdict(case), "ratio": found and found.ratio.median, "ratio_low": found and found.ratio.low,
                     "ratio_high": found and found.ratio.high, "best_peer": found and found.peer,
                     "us": {name: list(measured.samples.rounds(case, name).values()) for name in measured.samples.contenders(case)}})
    memory = [{"work": work, "processes": processes, "bytes": size, "us": us} for (work, processes, size), us in sorted(measured.memory.items())]
    return {"format": "isthmus.compare/1", "rounds": plan.rounds, "cpus": plan.cpus, "together": plan.together, "rows": rows, "memory": memory,
            "notes": measured.notes, "starts": measured.starts, "others_share": measured.others_share}


def list_of(parse):
    """An argparse type for words with commas between; keeps the text of a ValueError."""
    def convert(text: str) -> list:
        try:
            return [parse(word) for word in text.split(",")]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return convert


def collective(word: str) -> str:
    if word not in COLLECTIVES:
        raise ValueError(f"'{word}' is none of {', '.join(COLLECTIVES)}")
    return word


def memory(word: str) -> str:
    if word not in (LIBRARY, ORDINARY):
        raise ValueError(f"'{word}' is neither {LIBRARY} nor {ORDINARY}")
    return word


def count(word: str) -> int:
    if not word.isdigit() or not 1 <= int(word) <= 64:
        raise ValueError(f"'{word}' is no number from 1 to 64")
    return int(word)


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compare", description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[-1], allow_abbrev=False)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="the build folder (build)")
    parser.add_argument("-n", "--processes", type=list_of(count), default=[2, 4], help="numbers of processes, with commas between (2,4)")
    parser.add_argument("--collectives", type=list_of(collective), default=list(COLLECTIVES), help="with commas between (all three)")
    parser.add_argument("--sizes", type=list_of(parse_size), default=list_of(parse_size)(SIZES), help=f"with commas between ({SIZES})")
    parser.add_argument("--memory", type=list_of(memory), default=[LIBRARY, ORDINARY],
                        help="buffers of each library's own allocator (library), of malloc (ordinary), or both (library,ordinary)")
    parser.add_argument("--rounds", type=count_option, default=7, help="rounds in which everybody runs once (7)")
    parser.add_argument("--together", action="store_true", help="begin each call at an instant agreed before, instead of one after the other")
    parser.add_argument("--only-defaults", action="store_true", help="leave out Open MPI's forced algorithms")
    parser.add_argument("--json", metavar="FILE", type=report_option, help="also write everything measured to FILE; - for standard output instead of the table")
    return parser.parse_args(words)


def count_option(word: str) -> int:
    try:
        return count(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(words: list[str]) -> int:
    options = parse_arguments(words)
    plan = Plan(Place(options.build.resolve()), options.processes, options.collectives, sorted(set(options.sizes)), options.rounds,
                tuple(dict.fromkeys(options.memory)), options.together, options.only_defaults)
    if missing := plan.place.missing("isthmus", "memory"):
        print(f"compare: {missing} is missing; build first, or name the build folder with --build", file=sys.stderr)
        return 2
    began = time.monotonic()
    measured = measure(plan)
    write_report(options.json, as_json(plan, measured))
    if options.json != "-":
        print("\n".join(memory_lines(measured) + table(measured.samples)))
        print(f"\n{plan.rounds} rounds in {time.monotonic() - began:.0f} s. Ratios are the best peer's time to ours: above 1 Isthmus is faster. "
              + quiet_line(measured))
        for library, start in measured.starts.items():
            print(f"  {library}: {start}")
    complete = all(measured.samples.time(case, OURS) for processes in plan.processes for case in plan.cases(processes))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(guarded("compare", main))
