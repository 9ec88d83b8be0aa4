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

from contenders import Place

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


def run_sweep(place: Place, layout: str, link: list[str], sweep: list[str], limit_s: float) -> Run | str:
    """`link`: options of sites.py. The run, or why there cannot be one."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [sys.executable, str(SITES), layout, *link, "--timeout", str(limit_s), "--", *sweep, "-J", str(report)]
        path = os.pathsep.join([str(place.launcher.parent), str(place.build / "perf"), os.environ.get("PATH", "")])
        done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=limit_s + 60)
        if done.returncode == CANNOT:
            return done.stderr.strip().splitlines()[-1]
        counters = read_counters(done.stdout)
        if done.returncode != 0 and counters[1] is None:  # bytes that are off the formula are a finding, too
            raise Broken(f"{sweep[0]} on emulated hosts: {(done.stderr or done.stdout).strip()}")
        return Run(json.loads(report.read_text()), *counters)
