#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures emulated links: round trips, rates, a shared rate, loss and changes on the way, each beside what was set; and shows that
nothing is left behind. Run as a test; skipped (77) where hosts cannot be made. Needs linkemu on PATH. Other load on the machine delays
packets, so a value that is off is measured again, up to TRIES times; all that was measured is printed."""
from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from on_host import SITES, start_on, supported, take
from sites import EXIT_UNSUPPORTED

TRIES = 4
BUSY = 5  # so many bars off is what a machine may be that others keep busy
ACCURACY = "LINKS_TEST_ACCURACY"  # set: the bars decide, on a machine that does nothing else
MTU = 9000
PAYLOAD_SHARE = (MTU - 52) / (MTU + 14)  # of a full frame, with TCP's timestamps
ROUND_TRIPS_MS = (0.2, 1, 5, 20, 50)
RATES_MB = (10, 25, 50, 100)
SECONDS_PER_FLOW = 1.0
LOSSES = ((0.05, 20_000), (0.01, 50_000))  # with so many datagrams
ADDRESSES = {"h0": "10.77.0.1", "h1": "10.77.0.2", "h2": "10.77.1.1", "h3": "10.77.1.2"}
SIX = {"h0": "fd77::1", "h2": "fd77::3"}
SCRIPT = "# of the test\nat 1s: delay * 15ms\n"
PORT = 5000
SO_RCVBUFFORCE = 33


# --- roles on hosts ------------------------------------------------------------------------------------------------------

def ping(address: str, count: str) -> list[float]:
    """Milliseconds that the kernel at the address takes to answer."""
    six = ":" in address
    family, protocol, kind = (socket.AF_INET6, socket.IPPROTO_ICMPV6, 128) if six else (socket.AF_INET, socket.IPPROTO_ICMP, 8)
    times = []
    with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
        raw.settimeout(5)
        for number in range(int(count) + 1):
            body = struct.pack("!HH", os.getpid() & 0xFFFF, number) + bytes(16)
            words = struct.unpack("!12H", struct.pack("!BBH", kind, 0, 0) + body[:20])
            total = sum(words)
            checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF  # IPv6's is the kernel's business
            began = time.perf_counter()
            raw.sendto(struct.pack("!BBH", kind, 0, checksum) + body, (address, 0))
            while True:
                got = raw.recv(2048)[0 if six else 20:]
                if got[0] == (129 if six else 0) and got[4:8] == body[:4]:
                    break
            times.append(1000 * (time.perf_counter() - began))
    return times[1:]  # the first has found the neighbour


def watch(address: str, seconds: str) -> list[tuple[float, float]]:
    """(seconds since this process began, ms of the round trip that began then)"""
    began = int(pathlib.Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    points = [(0.0, 0.0)]
    while points[-1][0] < float(seconds):
        now = time.clock_gettime(time.CLOCK_BOOTTIME) - began
        points.append((now, min(ping(address, "1"))))
        time.sleep(0.01)
    return points[1:]


def receive() -> list[tuple[float, int]]:
    """(seconds since the first byte, bytes up to then), a point every few milliseconds, until the sender has closed."""
    with socket.create_server(("", PORT)) as server:
        print("listening", flush=True)
        connection, _ = server.accept()
        total = len(connection.recv(1))
        began = time.perf_counter()
        points = [(0.0, total)]
        while piece := connection.recv(1 << 18):
            total += len(piece)
            now = time.perf_counter() - began
            if now - points[-1][0] > 0.005:
                points.append((now, total))
        return [*points, (time.perf_counter() - began, total)]


def send(to: str, seconds: str) -> None:
    with socket.create_connection((to, PORT)) as connection:
        deadline = time.perf_counter() + float(seconds)
        while time.perf_counter() < deadline:
            connection.sendall(bytes(1 << 16))


def count_datagrams() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)  # room for all of them: only the link may lose any
        udp.bind(("", PORT))
        udp.settimeout(10)
        print("listening", flush=True)
        count = 0
        while len(udp.recv(2048)) > 1:  # a datagram of one byte is the last; many are sent
            count += 1
        return count


def send_datagrams(to: str, count: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for number in range(int(count)):
            udp.sendto(bytes(100), (to, PORT))
            if number % 100 == 99:
                time.sleep(0.0005)
        time.sleep(0.3)
        for _ in range(20):
            udp.sendto(b"!", (to, PORT))


# --- beside the hosts ----------------------------------------------------------------------------------------------------

class Probe:
    def __init__(self, agent: str, links: str):
        self.agent = agent
        self._links = open(links, "w", encoding="ascii", buffering=1)  # pylint: disable=consider-using-with

    def tell(self, *commands: str) -> None:
        for command in commands:
            self._links.write(command + "\n")
        time.sleep(0.02)

    def on(self, host: str, role: str, *words: str) -> subprocess.Popen:
        return start_on(self.agent, host, __file__, role, *words)

    def round_trip_ms(self, address: str, set_ms: float) -> tuple[float, float]:
        """(least, median)"""
        self.tell(f"delay * {int(set_ms * 500_000)}ns")
        times = take(self.on("h0", "--ping", address, str(max(9, min(40, int(400 / set_ms))))))
        return min(times), statistics.median(times)

    def flows(self, pairs: list[tuple[str, str]], seconds: float, meanwhile=lambda: None) -> list[list[tuple[float, int]]]:
        """Each receiver's points; `meanwhile` is called with the senders running."""
        sinks = [self.on(receiver, "--receive") for _, receiver in pairs]
        for sink in sinks:
            sink.stdout.readline()
        senders = [self.on(sender, "--send", ADDRESSES[receiver], str(seconds)) for sender, receiver in pairs]
        meanwhile()
        for sender in senders:
            sender.wait()
        return [take(sink) for sink in sinks]

    def loss(self, share: float, count: int) -> float:
        self.tell(f"loss * {share}")
        sink = self.on("h2", "--count")
        sink.stdout.readline()
        self.on("h0", "--datagrams", ADDRESSES["h2"], str(count)).wait()
        received = take(sink)
        self.tell("loss * 0")
        return 1 - received / count


def rate_mb(points: list[tuple[float, int]], begin_s: float, end_s: float) -> float:
    """MB/s of frames between the two times."""
    inside = [point for point in points if begin_s <= point[0] <= end_s]
    if len(inside) < 2:
        return 0.0
    (began, first), (ended, last) = inside[0], inside[-1]
    return (last - first) / (ended - began) / 1e6 / PAYLOAD_SHARE


def until_good(title: str, set_value: float, bar: float, measure) -> dict:
    """Measures until the value is within the bar of what was set, up to TRIES times; the nearest counts. `sane`: within a few bars, which it
    is however busy the CPUs are."""
    values: list[float] = []
    while len(values) < TRIES and not (values and abs(values[-1] - set_value) <= bar):
        values.append(measure())
    off = min(abs(value - set_value) for value in values)
    print(f"{title}: set {set_value:g}, measured {', '.join(f'{value:.4g}' for value in values)} (bar ± {bar:.3g}){'' if off <= bar else '  OFF'}",
          file=sys.stderr, flush=True)
    return {"title": title, "good": off <= bar, "sane": off <= BUSY * bar}


def measure_round_trips(probe: Probe) -> list[dict]:
    facts = []
    for host, address in SIX.items():
        command = f"echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip address add {address}/64 dev eth0 nodad"
        subprocess.run([*probe.agent.split(), host, "sh", "-c", command], check=True)
    for set_ms in ROUND_TRIPS_MS:
        least = []

        def measure(address: str = ADDRESSES["h2"], value: float = set_ms) -> float:
            shortest, median = probe.round_trip_ms(address, value)
            least.append(shortest)
            return median
        bar = max(0.3, 0.05 * set_ms)
        facts.append(until_good(f"round trip, ms, IPv4, set {set_ms:g}", set_ms, bar, measure))
        facts.append({"title": f"no answer before {set_ms:g} ms", "good": min(least) >= set_ms})
    probe.tell("jitter * 2ms")
    facts.append(until_good("deviation of round trips, ms, jitter 2 ms each way", 1.63, 0.6,  # of two that are uniform over 4 ms
                            lambda: statistics.pstdev(take(probe.on("h0", "--ping", ADDRESSES["h2"], "40")))))
    probe.tell("jitter * 0ms")
    facts.append(until_good("round trip, ms, IPv6", 5, 0.3, lambda: probe.round_trip_ms(SIX["h2"], 5)[1]))
    return facts


def measure_rates(probe: Probe) -> list[dict]:
    facts = []
    probe.tell("delay * 500us")

    def set_rate(rate: float) -> None:
        room = int(rate * 1e6 / 25)  # 40 ms
        probe.tell(*(f"{knob} {way}:* {value}" for way in ("out", "in") for knob, value in (("rate", f"{rate * 8:g}M"), ("queue", room))))
    for rate in RATES_MB:
        set_rate(rate)
        facts.append(until_good(f"rate, MB/s, one flow, set {rate}", rate, 0.1 * rate,
                                lambda: rate_mb(probe.flows([("h0", "h2")], SECONDS_PER_FLOW)[0], 0.2, 9)))
    set_rate(50)

    def shared() -> float:
        return sum(rate_mb(points, 0.3, 0.9) for points in probe.flows([("h0", "h2"), ("h1", "h3")], 1.2))
    facts.append(until_good("rate, MB/s, two flows through one uplink", 50, 5, shared))

    def change() -> float:
        """1, and by how much the rate is off before a change on the way, or after it, whichever is more."""
        set_rate(40)

        def slower() -> None:
            time.sleep(1.3)
            set_rate(10)
        points = probe.flows([("h0", "h2")], 2.3, slower)[0]
        return 1 + max(abs(rate_mb(points, 0.5, 1) / 40 - 1), abs(rate_mb(points, 1.7, 2.2) / 10 - 1))
    facts.append(until_good("rate, changed from 40 to 10 MB/s on the way, off by", 1, 0.1, change))
    return facts


def measure_loss(probe: Probe) -> list[dict]:
    probe.tell("rate * none", "rate out:* none", "rate in:* none", "queue out:* none", "queue in:* none")
    return [until_good(f"loss, share of datagrams, set {share:g}", share, 0.2 * share, lambda: probe.loss(share, count)) for share, count in LOSSES]


def run_probe(agent: str, links: str) -> list[dict]:
    probe = Probe(agent, links)
    return measure_round_trips(probe) + measure_rates(probe) + measure_loss(probe)


# --- the test ------------------------------------------------------------------------------------------------------------

def world(*options: str, layout: str = "2x2") -> list[str]:
    return [sys.executable, SITES, layout, *options]


def linkemus_with(word: str) -> list[str]:
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"linkemu") and word.encode() in words:
            found.append(path.parent.name)
    return found


class Links(unittest.TestCase):
    def test_are_as_set(self):
        began = time.monotonic()
        result = subprocess.run(world("--backend", "linkemu", "--mtu", str(MTU), "--bare", "--", sys.executable, __file__, "--probe", "{agent}", "{links}"),
                                stdout=subprocess.PIPE, text=True, check=True)
        print(f"all of this took {time.monotonic() - began:.1f} s", file=sys.stderr)
        facts = json.loads(next(line for line in result.stdout.splitlines() if line.startswith("[")))
        wanted = "good" if ACCURACY in os.environ else "sane"
        self.assertEqual([fact["title"] for fact in facts if not fact.get(wanted, fact["good"])], [])
        self.assertIn("link site1->site0: ", result.stdout)

    def test_script_runs_from_the_programs_start(self):
        with tempfile.NamedTemporaryFile("w", suffix=".links") as script:
            script.write(SCRIPT)
            script.flush()
            output = subprocess.run(world("--delay", "1ms", "--script", script.name, "--bare", "--", "sh", "-c",
                                          f"{{agent}} h0 {sys.executable} {__file__} --watch {ADDRESSES['h2']} 2"), stdout=subprocess.PIPE, text=True, check=True).stdout
        points = json.loads(next(line for line in output.splitlines() if line.startswith("[")))
        changed = next(began for began, round_trip in points if round_trip > 25)
        print(f"delay, changed by a script after 1 s: after {changed:.2f} s", file=sys.stderr)
        self.assertTrue(0.9 < changed < 1.5, points)
        self.assertLess(statistics.median(round_trip for began, round_trip in points if began < 0.9), 5)


class End(unittest.TestCase):
    def test_killed(self):
        """linkemu ends with its parent, whatever happens to that."""
        with tempfile.NamedTemporaryFile("w", suffix=".links") as script:
            tool = subprocess.Popen(world("--delay", "1ms", "--script", script.name, "--bare", "--", "sleep", "60"), stdout=subprocess.DEVNULL)
            self.wait_until(lambda: linkemus_with(script.name))
            tool.kill()
            tool.wait()
            self.wait_until(lambda: not linkemus_with(script.name))

    def test_without_linkemu_the_program_ends(self):
        with tempfile.NamedTemporaryFile("w", suffix=".links") as script:
            tool = subprocess.Popen(world("--delay", "1ms", "--script", script.name, "--bare", "--", "sleep", "60"), stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True)
            tool.stdout.readline()
            os.kill(int(linkemus_with(script.name)[0]), signal.SIGKILL)
            said = tool.communicate(timeout=60)[0]
        self.assertEqual(tool.returncode, 1)
        self.assertIn("linkemu, which is the links, has ended", said)

    def test_a_wrong_script_is_told_before_anything_runs(self):
        with tempfile.NamedTemporaryFile("w", suffix=".links") as script:
            script.write("\nrate site0->site9 5M\n")
            script.flush()
            result = subprocess.run(world("--script", script.name, "--bare", "--", "echo", "ran"), capture_output=True, text=True, check=False)
        self.assertNotIn("ran\n", result.stdout)
        self.assertIn("line 2: there is no site 'site9'; there are: site0 site1", result.stderr)

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)


class Alone(unittest.TestCase):
    def test_between_the_networks_of_two_processes(self):
        holders = [subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE) for _ in "ab"]
        for holder in holders:
            self.addCleanup(holder.communicate)
            self.addCleanup(holder.kill)
            holder.stdout.readline()
        sites = [word for site, holder in zip("ab", holders) for word in ("--site", f"{site}=tap@{holder.pid}")]
        linkemu = subprocess.Popen(["linkemu", "--with-parent", *sites, "--cut", "sea=a<->b", "--set", "delay * 5ms", "--set", "rate sea 80M"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(linkemu.kill)
        self.assertEqual(linkemu.stdout.readline(), "ready\n")
        on = [["nsenter", "--target", str(holder.pid), "--net"] for holder in holders]
        for number, enter in enumerate(on):
            batch = f"address add 10.9.0.{number + 1}/24 dev tap\nlink set tap up\n"
            subprocess.run([*enter, "ip", "-batch", "-"], input=batch, text=True, check=True)
        pings = subprocess.run([*on[0], sys.executable, __file__, "--ping", "10.9.0.2", "9"], stdout=subprocess.PIPE, check=True)
        shortest = min(json.loads(pings.stdout))
        self.assertTrue(10 <= shortest < 11, shortest)
        network = json.loads(linkemu.communicate("quit\n", timeout=60)[0])["network"]
        self.assertEqual(linkemu.returncode, 0)
        self.assertEqual(network["queues"]["sea"]["rate_bits_per_s"], 80_000_000)
        for link in network["links"].values():
            self.assertGreaterEqual(link["delivered"]["frames"], 10)


class Backends(unittest.TestCase):
    def test_netem_is_used_or_said_to_be_missing(self):
        result = subprocess.run(world("--backend", "netem", "--delay", "5ms", "--bare", "--", *"{agent} h0".split(), sys.executable, __file__, "--ping",
                                      ADDRESSES["h2"], "9"), capture_output=True, text=True, check=False)
        if result.returncode == EXIT_UNSUPPORTED:
            self.assertIn("this kernel has no netem", result.stderr)
            self.skipTest("this kernel has no netem")
        times = json.loads(next(line for line in result.stdout.splitlines() if line.startswith("[")))
        self.assertAlmostEqual(min(times), 10, delta=0.5)

    def test_what_does_not_go_together_is_told(self):
        for options, told in ((["--backend", "tbf", "--delay", "1ms"], "linkemu's"), (["--backend", "netem", "--script", "x"], "linkemu's"),
                              (["--delay", "1ms", "--jitter", "2ms"], "before it is sent"), (["--mtu", "66000"], "--mtu")):
            result = subprocess.run(world(*options, "--", "true"), capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 2, options)
            self.assertIn(told, result.stderr)


if __name__ == "__main__":
    ROLES = {"--ping": ping, "--watch": watch, "--receive": receive, "--count": count_datagrams, "--probe": run_probe}
    ACTS = {"--send": send, "--datagrams": send_datagrams}
    if sys.argv[1:2] and sys.argv[1] in ROLES:
        print(json.dumps(ROLES[sys.argv[1]](*sys.argv[2:])))
    elif sys.argv[1:2] and sys.argv[1] in ACTS:
        ACTS[sys.argv[1]](*sys.argv[2:])
    elif not supported("--backend", "linkemu"):
        sys.exit(EXIT_UNSUPPORTED)
    else:
        unittest.main()
