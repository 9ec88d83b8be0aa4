#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that emulated hosts share nothing, that links between sites have the set rate, and that nothing is left behind. Run as a test;
skipped (77) where hosts cannot be made. Called with --probe by itself: that is the program that runs among the hosts."""
from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

from layout import Link, around_sites, linkemu_mtu, parse_duration, parse_layout, parse_rate, parse_share, parse_size
from on_host import SITES, start_on, supported, take
from sites import EXIT_TIMEOUT, EXIT_UNSUPPORTED

RATE_BITS_PER_S = 50_000_000
TRANSFER_BYTES = 8_000_000
PAYLOAD_SHARE = 1448 / (1500 + 14)  # of a full frame, with TCP's timestamps
NAME = "isthmus-sites-test"


# --- among the hosts -----------------------------------------------------------------------------------------------------

def probe(agent: str) -> dict:
    """Everything that the test wants to know, from one world."""
    facts = {}
    settler = start_on(agent, "h0", __file__, "--settle")
    settler.stdout.readline()
    facts["looks"] = [take(start_on(agent, host, __file__, "--look")) for host in ("h0", "h1", "h2", "h3")]
    settler.kill()
    for name, sender, receiver in (("between sites", "h0", "h2"), ("back", "h3", "h1"), ("inside a site", "h0", "h1")):
        sink = start_on(agent, receiver, __file__, "--receive")
        sink.stdout.readline()
        start_on(agent, sender, __file__, "--send", receiver).wait()
        facts[name] = take(sink)
    return facts


def settle() -> None:
    """Leaves traces that another host must not see."""
    pathlib.Path("/dev/shm", NAME).write_text("here")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + NAME)
        listener.listen()
        print("settled", flush=True)
        signal.pause()


def look() -> dict:
    with socket.socket(socket.AF_UNIX) as caller:
        reached = caller.connect_ex("\0" + NAME) == 0
    return {
        "hostname": socket.gethostname(), "address": socket.gethostbyname(socket.gethostname()),
        "boot_id": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(),
        "ipc": os.readlink("/proc/self/ns/ipc"), "devices": sorted(name for _, name in socket.if_nameindex()),
        "sees_shared_memory": pathlib.Path("/dev/shm", NAME).exists(), "reaches_abstract_socket": reached,
    }


def receive() -> dict:
    with socket.create_server(("", 5000)) as server:
        print("listening", flush=True)
        connection, _ = server.accept()
        total, began, before = len(connection.recv(1)), time.monotonic(), out_of_order()
        while piece := connection.recv(1 << 16):
            total += len(piece)
        return {"bytes": total, "seconds": time.monotonic() - began, "out_of_order": out_of_order() - before}


def out_of_order() -> int:
    """Segments that this host has received before those that were sent before them."""
    names, counts = [line.split() for line in pathlib.Path("/proc/net/netstat").read_text().splitlines() if line.startswith("TcpExt:")]
    return int(counts[names.index("TCPOFOQueue")])


def send(to: str) -> None:
    """As a process that the system moves from CPU to CPU does."""
    cpus = sorted(os.sched_getaffinity(0))
    with socket.create_connection((to, 5000)) as connection:
        for turn, at in enumerate(range(0, TRANSFER_BYTES, 100_000)):
            os.sched_setaffinity(0, {cpus[turn % len(cpus)]})
            connection.sendall(bytes(min(100_000, TRANSFER_BYTES - at)))


# --- the test ------------------------------------------------------------------------------------------------------------

def world(*options: str, layout: str = "2x2") -> list[str]:
    return [sys.executable, SITES, layout, "--rate", str(RATE_BITS_PER_S), *options]


def processes_with(word: str) -> list[str]:
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:1] == [b"sleep"] and word.encode() in words:
            found.append(path.parent.name)
    return found


class Values(unittest.TestCase):
    def test_layouts(self):
        self.assertEqual([(h.name, h.site, h.address) for h in parse_layout("2x2")],
                         [("h0", 0, "10.77.0.1"), ("h1", 0, "10.77.0.2"), ("h2", 1, "10.77.1.1"), ("h3", 1, "10.77.1.2")])
        self.assertEqual([h.site for h in parse_layout("3+1")], [0, 0, 0, 1])
        self.assertEqual([h.name for h in around_sites(parse_layout("3+1"))], ["h0", "h3", "h1", "h2"])
        for wrong in ("", "x", "0x2", "2x0", "17x1", "2x33", "2+", "a+1"):
            self.assertRaises(ValueError, parse_layout, wrong)

    def test_rates(self):
        self.assertEqual([parse_rate(text) for text in ("200M", "1G", "64k", "1.5M", "100000", "200Mbit")],
                         [200_000_000, 1_000_000_000, 64_000, 1_500_000, 100_000, 200_000_000])
        for wrong in ("", "fast", "1k", "100G", "-1M"):
            self.assertRaises(ValueError, parse_rate, wrong)

    def test_what_links_may_have_besides(self):
        self.assertEqual([parse_duration(text) for text in ("10ms", "0.1ms", "250us", "1s")], [10_000_000, 100_000, 250_000, 1_000_000_000])
        self.assertEqual([parse_share(text) for text in ("0.1%", "0.25", "100%", "0")], [0.001, 0.25, 1, 0])
        self.assertEqual([parse_size(text) for text in ("1MB", "64K", "1.5MiB", "4096")], [1 << 20, 64 << 10, 3 << 19, 4096])
        for parse, wrong in ((parse_duration, ("10", "-1ms", "11s", "ms")), (parse_share, ("2", "101%", "x")), (parse_size, ("0", "much", "1T"))):
            for text in wrong:
                self.assertRaises(ValueError, parse, text)

    def test_packets_are_large_on_fast_links(self):
        self.assertEqual([linkemu_mtu(rate) for rate in (100_000_000, 200_000_000, 1_000_000_000)], [1500, 9000, 60_000])

    def test_frames_are_small_on_slow_links(self):
        self.assertEqual((Link(200_000_000).gso_bytes, Link(1_000_000_000).gso_bytes), (4500, 9000))


class World(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        result = subprocess.run(world("--bare", "--", sys.executable, __file__, "--probe", "{agent}"), capture_output=True, text=True, check=True)
        lines = result.stdout.splitlines()
        cls.facts = json.loads(next(line for line in lines if line.startswith("{")))
        cls.uplinks = [[int(n) for n in re.findall(r"(\d+) B", line)] for line in lines if line.startswith("uplink")]

    def test_hosts_share_nothing(self):
        looks = self.facts["looks"]
        for fact in ("hostname", "address", "boot_id", "ipc"):
            self.assertEqual(len({look[fact] for look in looks}), 4, fact)
        for fact in ("sees_shared_memory", "reaches_abstract_socket"):
            self.assertEqual([look[fact] for look in looks], [True, False, False, False], fact)
        self.assertEqual([look["devices"] for look in looks], [["eth0", "lo"]] * 4)

    def rate_of(self, transfer: str) -> float:
        self.assertEqual(self.facts[transfer]["bytes"], TRANSFER_BYTES)
        return self.facts[transfer]["bytes"] * 8 / self.facts[transfer]["seconds"]

    def test_links_between_sites_have_the_set_rate(self):
        for transfer in ("between sites", "back"):
            share = self.rate_of(transfer) / RATE_BITS_PER_S
            self.assertGreater(share, 0.9 * PAYLOAD_SHARE, transfer)
            self.assertLess(share, 1.1 * PAYLOAD_SHARE, transfer)

    def test_links_inside_a_site_are_not_shaped(self):
        self.assertGreater(self.rate_of("inside a site"), 2 * RATE_BITS_PER_S)

    def test_links_keep_the_order_of_frames(self):
        self.assertEqual(self.facts["inside a site"]["out_of_order"], 0)

    def test_counters_show_the_bytes_that_crossed(self):
        self.assertEqual(len(self.uplinks), 2)
        for out_bytes, in_bytes in self.uplinks:  # one transfer each way, and the acknowledgements of the other
            for count in (out_bytes, in_bytes):
                self.assertGreater(count, TRANSFER_BYTES)
                self.assertLess(count, 1.12 * TRANSFER_BYTES)


class End(unittest.TestCase):
    """Whatever happens to the program or the tool, no process is left."""
    numbers = iter(range(1000))

    def start(self, *options: str) -> tuple[subprocess.Popen, str]:
        word = f"{600 + next(self.numbers)}.{os.getpid()}"
        tool = subprocess.Popen(world(*options, "--bare", "--", "sh", "-c", f"{{agent}} h1 sleep {word} & sleep {word}", layout="1x2"),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_until(lambda: len(processes_with(word)) == 2)
        return tool, word

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_exit_code_is_the_programs(self):
        self.assertEqual(subprocess.run(world("--bare", "--", "sh", "-c", "exit 7", layout="1x1"), stdout=subprocess.DEVNULL, check=False).returncode, 7)

    def test_unknown_program(self):
        result = subprocess.run(world("--bare", "--", "./no-such-program", layout="1x1"), capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 127)
        self.assertIn("no-such-program", result.stderr)

    def test_signal(self):
        tool, word = self.start()
        tool.send_signal(signal.SIGTERM)
        self.assertEqual(tool.wait(timeout=60), 128 + signal.SIGTERM)
        self.wait_until(lambda: not processes_with(word))

    def test_kill(self):
        tool, word = self.start()
        tool.kill()
        tool.wait()
        self.wait_until(lambda: not processes_with(word))

    def test_timeout(self):
        tool, word = self.start("--timeout", "2")
        self.assertEqual(tool.wait(timeout=60), EXIT_TIMEOUT)
        self.wait_until(lambda: not processes_with(word))


if __name__ == "__main__":
    ROLES = {"--probe": lambda words: print(json.dumps(probe(*words))), "--settle": lambda _: settle(), "--look": lambda _: print(json.dumps(look())),
             "--receive": lambda _: print(json.dumps(receive())), "--send": lambda words: send(*words)}
    if sys.argv[1:2] and sys.argv[1] in ROLES:
        ROLES[sys.argv[1]](sys.argv[2:])
    elif not supported():
        sys.exit(EXIT_UNSUPPORTED)
    else:
        unittest.main()
