# SPDX-License-Identifier: Apache-2.0
"""linkemu as a child process: the links between the sites' bridges where they have a delay, jitter or loss. Used by fabric.py. Raises
OSError if it does not start, with what it said."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from layout import Link

QUEUE_PACKETS = 10_000  # between the kernel and linkemu; a full one drops
END_S = 10  # how long linkemu may take to end


def device_of(site: int) -> str:
    return f"up{site}"


def _words(sites: list[int], link: Link, script: str) -> list[str]:
    words = [word for site in sites for word in ("--site", f"site{site}={device_of(site)}")]
    settings = [f"delay * {link.delay_ns}ns", f"jitter * {link.jitter_ns}ns", f"loss * {link.loss:.9f}"]
    for queues in ("out:*", "in:*"):
        settings += [f"rate {queues} {link.rate_bits_per_s}", f"queue {queues} {link.limit_bytes}"]
    words += [word for setting in settings for word in ("--set", setting)]
    return words + (["--script", script] if script else [])


class Emulator:
    """Its devices, one per site, go away with it. `script`: a file of timed changes, '' for none."""

    def __init__(self, sites: list[int], link: Link, script: str):
        tool = shutil.which("linkemu")
        if tool is None:
            raise FileNotFoundError("linkemu is not on PATH; ./dev sites puts it there")
        self._report = tempfile.TemporaryFile()
        read_end, write_end = os.pipe()
        with open(read_end, "rb") as ready, open(write_end, "wb") as to_linkemu:
            self._process = subprocess.Popen(
                [tool, "--with-parent", "--report", f"/dev/fd/{self._report.fileno()}", "--ready", str(write_end), *_words(sites, link, script)],
                stdin=subprocess.PIPE, text=True, bufsize=1, pass_fds=[self._report.fileno(), write_end])
            to_linkemu.close()
            if ready.readline() != b"ready\n":
                raise OSError(f"linkemu ended with exit code {self._process.wait()}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def commands(self) -> str:
        """The file that takes commands, for whoever runs as root."""
        return f"/proc/{self.pid}/fd/0"

    def start_script(self) -> None:
        self._tell("start")

    def finish(self) -> dict:
        """Ends it. Its report; empty if it had ended by itself."""
        try:
            self._tell("quit")
        except BrokenPipeError:
            pass
        self._process.wait(END_S)
        self._report.seek(0)
        text = self._report.read()
        return json.loads(text) if text else {}

    def _tell(self, line: str) -> None:
        self._process.stdin.write(line + "\n")


def dropped_before(site: int) -> int:
    """Packets of the site that linkemu was too slow to take."""
    return int(pathlib.Path("/sys/class/net", device_of(site), "statistics", "tx_dropped").read_text())
