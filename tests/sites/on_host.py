# SPDX-License-Identifier: Apache-2.0
"""Parts of the tests among emulated hosts: running a role of a test's file on a host, and finding out whether hosts can be made at all.
Used by sites_test.py and links_test.py."""
from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

from sites import EXIT_UNSUPPORTED

SITES = str(pathlib.Path(__file__).with_name("sites.py"))


def start_on(agent: str, host: str, file: str, role: str, *words: str) -> subprocess.Popen:
    """`agent`: what sites.py puts for {agent}."""
    return subprocess.Popen([*shlex.split(agent), host, sys.executable, file, role, *words], stdout=subprocess.PIPE, text=True)


def take(process: subprocess.Popen):
    """What the role printed, as JSON."""
    return json.loads(process.communicate()[0])


def supported(*options: str) -> bool:
    """Whether a world with these options can be made; says why not."""
    with tempfile.TemporaryFile() as output:
        code = subprocess.run([sys.executable, SITES, "2x1", *options, "--bare", "--", "true"], stdout=output, stderr=subprocess.STDOUT,
                              check=False).returncode
        output.seek(0)
        print(output.read().decode(), end="", flush=True)
    return code != EXIT_UNSUPPORTED
