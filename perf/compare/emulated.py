# SPDX-License-Identifier: Apache-2.0
"""A sweep on emulated hosts joined by shaped links: what its JSON file says, and what the interfaces counted. Used by targets.py and
codec.py. Needs root: where hosts cannot be made the reason is returned; a sweep that fails is Broken."""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from contenders import Contender, Place

CANNOT = 77  # sites.py: the kernel or the user may not make hosts
SITES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "sites" / "sites.py"


class Broken(Exception):
    """Something that must work does not."""


@dataclasses.dataclass(frozen=True)
class Run:
    document: dict  # the sweep's JSON file
    uplink_bytes: dict[str, int]  # by site and direction, with headers
    formula_share: float | None   # by which the farthest host is off the formula of a codec's calls; None without a codec

    @property
    def row(self) -> dict:
        return self.document["results"][0]

    @property
    def calls(self) -> int:
        return sum(one["calls"] for one in self.document["calls"])


def read_counters(text: str) -> tuple[dict[str, int], float | None]:
    """What sites.py printed at the end."""
    uplinks = {f"site {site} {way}": int(count) for site, out_bytes, in_bytes in re.findall(r"uplink of site (\d+): out (\d+) B, in (\d+) B", text)
               for way, count in (("out", out_bytes), ("in", in_bytes))}
    share = re.search(r"^formula: .* by each host; .* is ([-+.\d]+) % off", text, re.MULTILINE)
    return uplinks, float(share[1]) / 100 if share else None


def start(place: Place, layout: str, link: list[str], words: list[str], limit_s: float) -> subprocess.CompletedProcess:
    """`link`: options of sites.py."""
    command = [sys.executable, str(SITES), layout, *link, "--timeout", str(limit_s), "--", *words]
    folders = [place.launcher.parent, place.build / "perf", place.build / "tests" / "linkemu"]
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    return subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=limit_s + 60)


def run_program(place: Place, layout: str, link: list[str], words: list[str], limit_s: float) -> str | None:
    """What a program with a rank on each host prints; None where hosts cannot be made."""
    done = start(place, layout, link, words, limit_s)
    if done.returncode == CANNOT:
        return None
    if done.returncode != 0:
        raise Broken(f"{' '.join(words)} on emulated hosts: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def run_sweep(place: Place, layout: str, link: list[str], sweep: list[str], limit_s: float) -> Run | str:
    """The run, or why there cannot be one."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        done = start(place, layout, link, [*sweep, "-J", str(report)], limit_s)
        if done.returncode == CANNOT:
            return done.stderr.strip().splitlines()[-1]
        counters = read_counters(done.stdout)
        if done.returncode != 0 and counters[1] is None:  # bytes that are off the formula are a finding, too
            raise Broken(f"{sweep[0]} on emulated hosts: {(done.stderr or done.stdout).strip()}")
        return Run(json.loads(report.read_text()), *counters)



AGENT = """#!/bin/sh
# As ssh: the words after the host are one line for a shell there.
host=$1
shift
exec {agent} "$host" sh -c "$*"
"""


def run_on_hosts(place: Place, layout: str, link: list[str], contender: Contender, items: list[str], limit_s: float) -> dict[str, float] | None:
    """Microseconds of a measuring program's items (COLLECTIVE:BYTES:ITERATIONS), by collective, started on the first host by a launcher
    that enters the others by the agent of its command line. What failed is missing. None where hosts cannot be made."""
    write = 'printf %s "$1" > "$0"; chmod +x "$0"; entering="$2"; shift 2; exec $entering h0 "$@"'
    with tempfile.TemporaryDirectory() as folder:
        agent = str(pathlib.Path(folder, "agent"))
        command = [agent if word == "AGENT" else word for word in contender.start]
        words = ["sh", "-c", write, agent, AGENT, "{agent}", *command, "--batches", "1", "--limit-ms", "1500", *items]
        done = start(place, layout, [*link, "--bare"], words, limit_s)
    if done.returncode == CANNOT:
        return None
    return {line["collective"]: line["us"] for line in map(json.loads, re.findall(r"^{.*}$", done.stdout, re.MULTILINE))}
