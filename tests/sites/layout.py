# SPDX-License-Identifier: Apache-2.0
"""What an emulated world looks like, as pure values: sites, hosts, addresses, and how fast the links between sites are. Used by
fabric.py and sites.py. Parsing fails with ValueError and a text for the user."""
from __future__ import annotations

import dataclasses
import itertools
import re

MAX_SITES, MAX_HOSTS = 16, 64
SUBNET = "10.77.0.0/16"
WHOLE_FRAME = 65536  # the largest that hosts hand to the network at once, unless told to make them smaller


@dataclasses.dataclass(frozen=True)
class Host:
    name: str
    site: int
    address: str  # in SUBNET


@dataclasses.dataclass(frozen=True)
class Link:
    """A site's way to the other sites, shaped alike in both directions. Delay, jitter and loss are of the way from any site to any other."""
    rate_bits_per_s: int = 200_000_000
    mtu_bytes: int = 1500
    queue_ms: int = 50  # what a link may hold back before it drops
    queue_bytes: int | None = None  # the same in bytes, instead
    delay_ns: int = 0  # one way
    jitter_ns: int = 0
    loss: float = 0.0
    backend: str = "tbf"  # or linkemu, netem

    @property
    def gso_bytes(self) -> int:
        """The largest frame that hosts hand to the network at once: small, or an idle link would let a burst through unshaped. linkemu's
        devices take single packets only, so the kernel has cut frames up before they get there."""
        if self.backend == "linkemu":
            return WHOLE_FRAME
        return 3 * self.mtu_bytes if self.rate_bits_per_s <= 500_000_000 else 6 * self.mtu_bytes

    @property
    def burst_bytes(self) -> int:
        return 2 * (self.gso_bytes + 14)

    @property
    def limit_bytes(self) -> int:
        """What a queue has room for."""
        return self.queue_bytes or max(self.rate_bits_per_s * self.queue_ms // 8000, 2 * (self.mtu_bytes + 14))

    def __str__(self) -> str:
        text = f"uplinks {self.rate_bits_per_s / 1e6:g} Mbit/s each way, MTU {self.mtu_bytes}"
        if self.backend != "tbf":
            text += f", {self.delay_ns / 1e6:g} ms one way, jitter {self.jitter_ns / 1e6:g} ms, loss {100 * self.loss:g} %, by {self.backend}"
        return text


def linkemu_mtu(rate_bits_per_s: int) -> int:
    """The smallest of the usual ones with which so many bits are 10000 packets a second or fewer: so ranks keep their CPUs."""
    return next((mtu for mtu in (1500, 9000) if rate_bits_per_s <= 10_000 * 8 * mtu), 60_000)


def parse_layout(text: str) -> list[Host]:
    """'2x3' is two sites of three hosts each, '3+1' a site of three and a site of one. Hosts are h0, h1, ... in order of sites."""
    if even := re.fullmatch(r"(\d+)x(\d+)", text):
        sizes = [int(even[2])] * int(even[1])
    elif re.fullmatch(r"\d+(\+\d+)*", text):
        sizes = [int(size) for size in text.split("+")]
    else:
        raise ValueError(f"layout '{text}': write SITESxHOSTS, such as 2x2, or the hosts of each site, such as 3+1")
    if not 1 <= len(sizes) <= MAX_SITES or min(sizes) < 1 or sum(sizes) > MAX_HOSTS:
        raise ValueError(f"layout '{text}': 1 to {MAX_SITES} sites, each with a host or more, {MAX_HOSTS} hosts in all")
    places = [(site, place) for site, size in enumerate(sizes) for place in range(size)]
    return [Host(f"h{number}", site, f"10.77.{site}.{place + 1}") for number, (site, place) in enumerate(places)]


def _with_unit(text: str, units: dict[str, float]) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z%]*)", text)
    return float(match[1]) * units[match[2]] if match and match[2] in units else None


def parse_rate(text: str) -> int:
    """Bits per second: '200M', '1G', '64k', '200Mbit'."""
    rate = _with_unit(text.removesuffix("bit"), {"": 1, "k": 1e3, "M": 1e6, "G": 1e9})
    if rate is None or not 64_000 <= rate <= 10_000_000_000:
        raise ValueError(f"rate '{text}': bits per second from 64k to 10G, such as 200M")
    return int(rate)


def parse_duration(text: str) -> int:
    """Nanoseconds: '10ms', '0.1ms', '250us', '1s'."""
    duration = _with_unit(text, {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9})
    if duration is None or duration > 10e9:
        raise ValueError(f"time '{text}': 10 s at most, with its unit, such as 10ms or 250us")
    return int(duration)


def parse_share(text: str) -> float:
    """'0.1%' or '0.001'."""
    share = _with_unit(text, {"": 1, "%": 0.01})
    if share is None or share > 1:
        raise ValueError(f"share '{text}': from 0 to 1, such as 0.1% or 0.001")
    return share


def parse_size(text: str) -> int:
    """Bytes: '1MB', '64K', '4096', in powers of 1024."""
    size = _with_unit(text.upper().removesuffix("B").removesuffix("I"), {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30})
    if size is None or size < 1:
        raise ValueError(f"size '{text}': bytes, such as 1M or 64K")
    return int(size)


def sites_of(hosts: list[Host]) -> list[int]:
    return sorted({host.site for host in hosts})


def around_sites(hosts: list[Host]) -> list[Host]:
    """One host of each site in turn, while there are any."""
    by_site = [[host for host in hosts if host.site == site] for site in sites_of(hosts)]
    return [host for turn in itertools.zip_longest(*by_site) for host in turn if host is not None]


def hosts_file(hosts: list[Host]) -> str:
    return "127.0.0.1 localhost\n" + "".join(f"{host.address} {host.name}\n" for host in hosts)
