# SPDX-License-Identifier: Apache-2.0
"""Who is compared and how each is started: the programs of a build folder, the launchers, the options that are fair to each. Used by
compare.py. What is not installed is left out and said; a contender that fails in a job has no time there."""
from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import subprocess

from figures import OURS, Case

# Open MPI's numbers for its own algorithms (ompi_info --param coll tuned --level 9).
OPEN_MPI_ALGORITHMS = {
    "allreduce": {1: "basic linear", 2: "nonoverlapping", 3: "recursive doubling", 4: "ring", 5: "segmented ring", 6: "rabenseifner"},
    "reduce_scatter": {1: "basic linear", 2: "recursive doubling", 3: "recursive halving", 4: "butterfly"},  # MPI_Reduce_scatter_block
    "reduce_scatter_counts": {1: "non-overlapping", 2: "recursive halving", 3: "ring", 4: "butterfly"},      # MPI_Reduce_scatter
    "allgather": {1: "linear", 2: "bruck", 3: "recursive doubling", 4: "ring", 5: "neighbor", 6: "two proc"},
}
OPEN_MPI_PARAMETER = {"allreduce": "allreduce", "reduce_scatter": "reduce_scatter_block", "reduce_scatter_counts": "reduce_scatter",
                      "allgather": "allgather"}
SUBNET = "10.77.0.0/16"  # of tests/sites
SEGMENT_BYTES = 65536  # of the segmented ring, which otherwise has one segment


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to start one library. A name per collective: jobs of a forced algorithm number are a different algorithm in each."""
    family: str
    start: tuple[str, ...]  # before the measuring program's own arguments
    names: dict[str, str]   # by the measuring program's collective

    def name(self, collective: str) -> str:
        return self.names[collective]

    @property
    def title(self) -> str:
        return " / ".join(sorted(set(self.names.values())))

    def items(self, cases: list[Case], racing: dict[str, set[Case]] | None = None) -> list[tuple[Case, str]]:
        """What to measure of the cases, each with the measuring program's collective; of `racing`, only what is still in the race."""
        return [(case, collective) for case in cases for collective in (case.collective, case.collective + "_counts")
                if collective in self.names and (racing is None or case in racing.get(self.names[collective], ()))]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the programs are."""
    build: pathlib.Path

    def program(self, name: str) -> pathlib.Path:
        return self.build / "perf" / "compare" / f"compare_{name}"

    def bench(self, name: str) -> pathlib.Path:
        return self.build / "perf" / "micro" / name

    @property
    def launcher(self) -> pathlib.Path:
        return self.build / "src" / "cli" / "isthmus"

    def missing(self, *names: str) -> str:
        """The first of the programs, or the launcher, that has not been built; "" if all have."""
        return next((str(path) for path in (*map(self.program, names), self.launcher) if not path.exists()), "")


def isthmus(place: Place, processes: int) -> Contender:
    own = (str(place.launcher), "run", "-n", str(processes), "--", str(place.program("isthmus")))
    return Contender(OURS, own, {name: OURS for name in ("allreduce", "reduce_scatter", "allgather")})


def open_mpi(place: Place, processes: int, cpus: int) -> list[Contender]:
    """The default, and each algorithm forced. With more processes than CPUs ranks yield when idle, or a step would take a scheduler's
    tick; otherwise every rank has its own core."""
    start = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", str(processes)]
    start += ["--mca", "mpi_yield_when_idle", "1", "--bind-to", "none"] if processes > cpus else ["--bind-to", "core"]
    return open_mpi_by(start, place, processes)


def open_mpi_on_hosts(place: Place, hosts: list[str]) -> list[Contender]:
    """With a rank on each of the emulated hosts, which the word AGENT enters. They share this machine's CPUs: all yield when idle."""
    start = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
             "-host", ",".join(f"{host}:1" for host in hosts), "--mca", "plm_rsh_agent", "AGENT", "--mca", "btl", "tcp,self",
             "--mca", "btl_tcp_if_include", SUBNET, "--mca", "oob_tcp_if_include", SUBNET]
    return open_mpi_by(start, place, len(hosts))


def open_mpi_by(start: list[str], place: Place, processes: int) -> list[Contender]:
    program = (str(place.program("openmpi")),)
    found = [Contender("Open MPI", tuple(start) + program, {name: "Open MPI default" for name in OPEN_MPI_ALGORITHMS})]
    for number in range(1, 1 + max(max(of) for of in OPEN_MPI_ALGORITHMS.values())):
        names, forced = {}, ["--mca", "coll_tuned_use_dynamic_rules", "1"]
        for collective, algorithms in OPEN_MPI_ALGORITHMS.items():
            if number not in algorithms or (algorithms[number] == "two proc" and processes != 2):
                continue
            names[collective] = f"Open MPI {algorithms[number]}"
            forced += ["--mca", f"coll_tuned_{OPEN_MPI_PARAMETER[collective]}_algorithm", str(number)]
            if algorithms[number] == "segmented ring":
                forced += ["--mca", "coll_tuned_allreduce_algorithm_segmentsize", str(SEGMENT_BYTES)]
        found.append(Contender("Open MPI", tuple(start + forced) + program, names))
    return found


def mpich(place: Place, processes: int, cpus: int) -> Contender:
    """MPICH always spins; unbound ranks would share a core now and then."""
    bind = ["-bind-to", "core"] if processes <= cpus else []
    start = ("mpirun.mpich", *bind, "-np", str(processes), str(place.program("mpich")))
    return Contender("MPICH", start, {name: "MPICH default" for name in OPEN_MPI_ALGORITHMS})


def all_contenders(place: Place, processes: int, cpus: int, only_defaults: bool) -> tuple[list[Contender], list[str]]:
    """Those that can run here, ours first, and a line for each that cannot."""
    found, missing = [isthmus(place, processes)], []
    for family, name, launcher in (("Open MPI", "openmpi", "mpirun.openmpi"), ("MPICH", "mpich", "mpirun.mpich")):
        if not place.program(name).exists():
            missing.append(f"{family} is left out: its measuring program was not built; was it installed then?")
        elif shutil.which(launcher) is None:
            missing.append(f"{family} is left out: there is no {launcher}")
        elif family == "MPICH":
            found.append(mpich(place, processes, cpus))
        else:
            found += open_mpi(place, processes, cpus)[:1 if only_defaults else None]
    return found, missing


def end(process: subprocess.Popen) -> tuple[str, str]:
    """Ends a program and, if it is a launcher, its ranks, which it ends on SIGTERM; the rest of its output."""
    process.terminate()
    try:
        return process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def run_lines(command: list[str], timeout_s: float) -> tuple[list[dict], str]:
    """Runs a measuring program; its lines of JSON, as far as it came, and what went wrong ('' if nothing did)."""
    problem = ""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=timeout_s)
        if process.returncode != 0:
            problem = (err.strip() or out.strip() or f"exit code {process.returncode}").splitlines()[-1]
    except subprocess.TimeoutExpired:
        out, err = end(process)
        problem = f"not done after {timeout_s:g} s"
    except BaseException:  # we are to end, and nothing that we started may go on
        end(process)
        raise
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")], problem
