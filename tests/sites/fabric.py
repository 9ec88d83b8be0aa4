# SPDX-License-Identifier: Apache-2.0
"""Builds emulated hosts and the network between them out of Linux namespaces. Used by sites.py, as root, inside namespaces of its
own: nothing here is visible outside, and all of it goes away with the process that made it. Raises subprocess.CalledProcessError
with the command whenever the kernel refuses something.

    h0 ──eth0/h0──┐                                            ┌──h2/eth0── h2
                  ├─ bridge site0 ─ up0/core0 ─ bridge core ─ core1/up1 ─ bridge site1 ─┤
    h1 ──eth0/h1──┘      shaped: up0 outwards, core0 inwards   └──h3/eth0── h3

Links with delay, jitter or loss are linkemu's: up0, up1, ... are its TAP devices, and it is the core.

A host has mount, uts, ipc and network namespaces of its own, and in them its own /dev/shm, boot id, host name, /etc/hosts and /sys.
Without all of these, message-passing libraries find out that they share a machine, and leave the network alone.
"""
from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import subprocess
import uuid
from typing import Callable

from emulator import QUEUE_PACKETS, Emulator, device_of, dropped_before
from layout import SUBNET, Host, Link, hosts_file, sites_of

SHARED_MEMORY_SIZE = "1g"
HEADER_BYTES = 14 + 20 + 32  # of Ethernet, IPv4, and TCP with time stamps
NAMESPACES = ["--mount", "--uts", "--ipc", "--net"]

# Run inside the namespaces of a new host. Files that are bound over others keep existing after their names are gone.
HOST_SCRIPT = """
set -eu
hostname {name}
mount -t tmpfs -o size={shared_memory},mode=1777 tmpfs /dev/shm
mount -t sysfs sysfs /sys 2>/dev/null || true
printf '%s' {hosts} > /dev/shm/hosts
printf '%s\\n' {boot_id} > /dev/shm/boot_id
mount --bind /dev/shm/hosts /etc/hosts
mount --bind /dev/shm/boot_id /proc/sys/kernel/random/boot_id
rm /dev/shm/hosts /dev/shm/boot_id
[ ! -e /proc/sys/net/ipv6 ] || echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6
ip -batch - <<BATCH
link set lo up
link set eth0 mtu {mtu} gso_max_size {gso}
address add {address}/16 dev eth0
link set eth0 up
route replace {subnet} dev eth0 src {address} {congestion}
BATCH
for cpus in /sys/class/net/eth0/queues/rx-*/rps_cpus; do [ ! -e "$cpus" ] || echo {cpus} > "$cpus"; done
"""


@dataclasses.dataclass(frozen=True)
class Counters:
    """Of a site's uplink, in bytes with headers since the fabric was made."""
    out_bytes: int
    in_bytes: int
    dropped_packets: int


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL).stdout


def _ip(*commands: str) -> None:
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n", check=True, text=True)


def enter_command(pid: int, words: list[str], directory: str) -> list[str]:
    """What runs `words` on the host that process `pid` holds, in `directory`."""
    return ["nsenter", "--target", str(pid), *NAMESPACES, f"--wdns={directory}", "--", *words]


class Fabric:
    """`congestion`: the congestion control of the hosts' connections, '' for the system's. `script`: linkemu's timed changes."""

    def __init__(self, hosts: list[Host], link: Link, congestion: str = "cubic", script: str = ""):
        self.hosts, self.link, self._congestion = hosts, link, congestion
        self.emulator: Emulator | None = None
        self._script, self._report = script, {}
        self._holders = {host.name: _start_holder() for host in hosts}
        self._make_sites()
        for host in hosts:
            self._make_host(host)

    @property
    def pids(self) -> dict[str, int]:
        """For each host a process that lives on it."""
        return {name: holder.pid for name, holder in self._holders.items()}

    def counters(self) -> dict[int, Counters]:
        """Of each site's uplink; empty if there is only one site. Ends the emulator, if there is one."""
        sites = sites_of(self.hosts)
        if len(sites) < 2:
            return {}
        if self.emulator is None:
            return {site: _counters(site, _dropped_by_kernel(site)) for site in sites}
        counters = {site: _counters(site, dropped_before(site)) for site in sites}  # the devices go away with linkemu
        self._report = self.emulator.finish()
        return {site: dataclasses.replace(now, dropped_packets=now.dropped_packets + sum(
            link["dropped"]["frames"] for name, link in self.links().items() if name.startswith(f"site{site}->"))) for site, now in counters.items()}

    def links(self) -> dict[str, dict]:
        """After counters(): linkemu's counters of each link, by its name; empty without linkemu."""
        return self._report["network"]["links"] if self._report else {}

    def sent_by_hosts(self) -> dict[str, int]:
        """By host, the bytes that have left it, without the headers of their packets."""
        sent = {}
        for host in self.hosts:  # what comes in at the bridge's end of its link
            read = _statistics(host.name)
            sent[host.name] = read("rx_bytes") - HEADER_BYTES * read("rx_packets")
        return sent

    def _make_sites(self) -> None:
        for knob in ("all", "default"):  # neighbour discovery would only add to the counters
            path = pathlib.Path(f"/proc/sys/net/ipv6/conf/{knob}/disable_ipv6")
            if path.exists():
                path.write_text("1\n")
        sites = sites_of(self.hosts)
        for bridge in ["core"] + [f"site{site}" for site in sites]:
            _ip(f"link add name {bridge} type bridge forward_delay 0 mcast_snooping 0", f"link set {bridge} mtu {self.link.mtu_bytes} up")
        if len(sites) < 2:
            return
        if self.link.backend == "linkemu":
            self.emulator = Emulator(sites, self.link, self._script)
        for site in sites:
            self._make_uplink(site)

    def _make_uplink(self, site: int) -> None:
        up, core, mtu = device_of(site), f"core{site}", self.link.mtu_bytes
        if self.emulator is not None:
            _ip(f"link set {up} mtu {mtu} txqueuelen {QUEUE_PACKETS} master site{site} up")
            _keep_order(up)
            return
        _ip(f"link add name {up} mtu {mtu} type veth peer name {core} mtu {mtu}",
            f"link set {up} master site{site} up", f"link set {core} master core up")
        above = "root"
        if self.link.backend == "netem":
            _run("tc", "qdisc", "add", "dev", up, "root", "handle", "1:", *netem_words(self.link))
            above = "parent 1:"
        for device in (up, core):
            _keep_order(device)
        self._shape(up, above)
        self._shape(core, "root")

    def _shape(self, device: str, above: str) -> None:
        room = ["limit", str(self.link.queue_bytes)] if self.link.queue_bytes else ["latency", f"{self.link.queue_ms}ms"]
        _run("tc", "qdisc", "add", "dev", device, *above.split(), "tbf", "rate", f"{self.link.rate_bits_per_s}bit",
             "burst", str(self.link.burst_bytes), *room)

    def _make_host(self, host: Host) -> None:
        pid = self._holders[host.name].pid
        _ip(f"link add name {host.name} mtu {self.link.mtu_bytes} type veth peer name eth0 netns {pid}",
            f"link set {host.name} gso_max_size {self.link.gso_bytes}", f"link set {host.name} master site{host.site} up")
        script = HOST_SCRIPT.format(
            name=host.name, address=host.address, subnet=SUBNET, hosts=shlex.quote(hosts_file(self.hosts)), boot_id=uuid.uuid4(),
            shared_memory=SHARED_MEMORY_SIZE, mtu=self.link.mtu_bytes, gso=self.link.gso_bytes,
            cpus=_all_cpus(), congestion=f"congctl {self._congestion}" if self._congestion else "")
        _run(*enter_command(pid, ["sh", "-c", script], "/"))
        _keep_order(host.name)


def _start_holder() -> subprocess.Popen:
    """A process that keeps a host's namespaces alive; it and they end with this process's PID namespace."""
    holder = subprocess.Popen(["unshare", *NAMESPACES, "--propagation", "private", "sh", "-c", "echo; exec sleep infinity"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if holder.stdout.readline() != b"\n":
        raise subprocess.CalledProcessError(holder.wait(), holder.args)
    return holder


def _statistics(device: str) -> Callable[[str], int]:
    return lambda name: int(pathlib.Path("/sys/class/net", device, "statistics", name).read_text())


def _all_cpus() -> str:
    """As a mask in hexadecimal."""
    return f"{(1 << (os.cpu_count() or 1)) - 1:x}"


def _keep_order(device: str) -> None:
    """Frames of a connection go through one CPU: a pair of virtual devices hands on frames on whatever CPU its sender just runs, and those
    of a process that moved overtake each other, which TCP takes for losses."""
    for cpus in pathlib.Path("/sys/class/net", device, "queues").glob("rx-*/rps_cpus"):
        cpus.write_text(_all_cpus() + "\n")


def netem_words(link: Link) -> list[str]:
    """netem's own queue has room for what is on its way and a second more, in packets; tbf drops before it is full."""
    packets = int(link.rate_bits_per_s / 8 / link.mtu_bytes * (1 + (link.delay_ns + link.jitter_ns) / 1e9)) + 1000
    return ["netem", "limit", str(packets), "delay", f"{link.delay_ns / 1e3:g}us", f"{link.jitter_ns / 1e3:g}us", "loss", f"{100 * link.loss:g}%"]


def has_netem() -> bool:
    """Whether this kernel has netem; asked by using it on this network namespace's own loopback device."""
    words = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    if subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return False
    _run("tc", "qdisc", "del", "dev", "lo", "root")
    return True


def _dropped_by_kernel(site: int) -> int:
    return sum(int(text.split("dropped ")[1].split(",")[0])
               for text in (_run("tc", "-s", "qdisc", "show", "dev", f"{end}{site}") for end in ("up", "core")))


def _counters(site: int, dropped: int) -> Counters:
    read = _statistics(device_of(site))
    return Counters(out_bytes=read("tx_bytes"), in_bytes=read("rx_bytes"), dropped_packets=dropped)
