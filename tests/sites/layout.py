# SPDX-License-Identifier: Apache-2.0
"""What an emulated world looks like, as pure values: sites, hosts, addresses, and how fast the links between sites are. Used by
fabric.py and sites.py. Parsing fails with ValueError and a text for the user."""
from __future__ import annotations

import dataclasses
import re

MAX_SITES, MAX_HOSTS = 16, 64
SUBNET = "10.77.0.0/16"


@dataclasses.dataclass(frozen=True)
class Host:
    name: str
    site: int
    address: str  # in SUBNET


@dataclasses.dataclass(frozen=True)
class Link:
    """A site's way to the other sites, shaped alike in both directions."""
    rate_bits_per_s: int = 200_000_000
    mtu_bytes: int = 1500
    queue_ms: int = 50  # what a link may hold back before it drops

    @property
    def gso_bytes(self) -> int:
        """The largest frame that hosts hand to the network at once: small, or an idle link would let a burst through unshaped."""
        return 3 * self.mtu_bytes if self.rate_bits_per_s <= 500_000_000 else 6 * self.mtu_bytes

    @property
    def burst_bytes(self) -> int:
        return 2 * (self.gso_bytes + 14)


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


def parse_rate(text: str) -> int:
    """Bits per second: '200M', '1G', '64k'."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)", text)
    rate = int(float(match[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[match[2]]) if match else 0
    if not 64_000 <= rate <= 10_000_000_000:
        raise ValueError(f"rate '{text}': bits per second from 64k to 10G, such as 200M")
    return rate


def sites_of(hosts: list[Host]) -> list[int]:
    return sorted({host.site for host in hosts})


def hosts_file(hosts: list[Host]) -> str:
    return "127.0.0.1 localhost\n" + "".join(f"{host.address} {host.name}\n" for host in hosts)
