# SPDX-License-Identifier: Apache-2.0
"""How many bytes every host ought to send in a sweep's calls, by the algorithms' formulas (docs/algorithms.md) and the codecs' widths
(docs/compression.md), written apart from the library: a shared mistake would agree with itself. Used by sites.py; pure functions.

Of a sum over P ranks: N bytes of the larger buffer, I of it encoded once, W of the sum of all, Z of its scales."""
from __future__ import annotations

import dataclasses
import pathlib

ELEMENT_BYTES = {"float": 4, "half": 2, "bfloat16": 2}
MOST_DIRECT = 8  # up to so many ranks everybody sends its scales to everybody
TOLERANCE = 0.02
# Less than this says nothing about a formula: meeting, agreeing and lining up are traffic, too.
LEAST_BYTES = 4 << 20
LEAST_ROW = 1 << 20  # of a row, whose cells' last groups are short
EVEN = ("direct", "two_shot", "one_shot", "ring", "halving")
COLLECTIVES = {"all_reduce_perf": "allreduce", "reduce_scatter_perf": "reduce_scatter"}


@dataclasses.dataclass(frozen=True)
class Codec:
    """Bits per element."""
    index: float  # encoded once
    sums: tuple[int, ...]  # [k]: of a sum of k encodings; empty: such sums are decoded, added and encoded again
    scale: float  # of what the ranks agree upon before

    def sum(self, summands: int) -> float:
        return self.sums[summands] if self.sums else self.index


def codec_named(text: str, ranks: int) -> Codec:
    """ValueError for what has no formula here."""
    name, _, words = text.replace(" ", "").partition(":")
    if name in ("bf16", "int8", "int4"):
        return Codec({"bf16": 16.0, "int8": 8 + 16 / 32, "int4": 4 + 16 / 32}[name], (), 0)
    if name != "thc":
        raise ValueError(f"codec '{text}' has no formula")
    options = dict(word.split("=") for word in words.split(",") if word)
    bits, group = int(options.get("b", 4)), int(options.get("group", 4096))
    largest = int(options.get("g", 0)) or max(255 // ranks, 2 ** bits - 1)
    return Codec(bits, (0, bits, *((summands * largest).bit_length() for summands in range(2, ranks + 1))), 32 / group)


@dataclasses.dataclass(frozen=True)
class Shape:
    """A sum of a kind."""
    collective: str
    algorithm: str
    ranks: int
    sites: int

    @property
    def is_even(self) -> bool:
        """All ranks send alike."""
        return self.algorithm in EVEN and (self.ranks <= MOST_DIRECT or self.ranks & (self.ranks - 1) == 0)


def _scales(ranks: int) -> float:
    """How often a rank sends its scales, on average: to everybody, or by recursive doubling."""
    if ranks <= MOST_DIRECT:
        return ranks - 1
    steps = ranks.bit_length() - 1
    return (2 ** steps * steps + 2 * (ranks - 2 ** steps)) / ranks


def coded_bits(shape: Shape, codec: Codec) -> float:
    """That a rank sends on average for every element of the larger buffer. ValueError for what has no formula here."""
    ranks, others = shape.ranks, (shape.ranks - 1) / shape.ranks
    gather = codec.sum(ranks) * others if shape.collective == "allreduce" else 0
    scales = codec.scale * _scales(ranks)
    if shape.algorithm in ("direct", "two_shot", "one_shot"):
        return scales + codec.index * others + gather
    if shape.algorithm == "root":
        return scales + codec.index * others + (gather or codec.sum(ranks) * others / ranks)
    if shape.algorithm == "ring":
        return scales + sum(codec.sum(summands) for summands in range(1, ranks)) / ranks + gather
    if shape.algorithm == "halving" and ranks & (ranks - 1) == 0:
        steps = ranks.bit_length() - 1
        return scales + sum(codec.sum(2 ** step) / 2 ** (step + 1) for step in range(steps)) + gather
    if shape.algorithm == "hierarchy" and 1 < shape.sites < ranks and ranks % shape.sites == 0:
        final = codec.sum(ranks) if shape.collective == "allreduce" else 0
        return ((2 * codec.scale + codec.index + final) * (1 - shape.sites / ranks)
                + (codec.scale * shape.sites + codec.sum(ranks // shape.sites) + final) * (shape.sites - 1) / ranks)
    raise ValueError(f"algorithm '{shape.algorithm}' with {ranks} ranks at {shape.sites} sites has no formula")


def exact_share(collective: str, ranks: int) -> float:
    """Of the larger buffer that a rank sends: every algorithm for large buffers sends as little as can be."""
    return (ranks - 1) / ranks * (2 if collective == "allreduce" else 1)


class Sweep:
    """A sweep with a codec, from its JSON file. ValueError without a formula."""

    def __init__(self, document: dict, sites: int):
        self.document = document
        ways = {(row["codec"], row["codec_algorithm"]) for row in document["results"]}
        if len(ways) != 1:
            raise ValueError("calls of different sizes were carried out differently")
        text, algorithm = ways.pop()
        ranks = len(document["config"]["devices"])
        self.shape = Shape(COLLECTIVES[pathlib.Path(document["args"][0]).name], algorithm, ranks, sites)
        self._bits = coded_bits(self.shape, codec_named(text, ranks)) if algorithm else None  # "": the codec "none"

    def coded_bytes(self, kind: str, size: int) -> float:
        """That a rank sends on average in a call with the codec."""
        return self.exact_bytes(size) if self._bits is None else size / ELEMENT_BYTES[kind] * self._bits / 8

    def exact_bytes(self, size: int) -> float:
        return size * exact_share(self.shape.collective, self.shape.ranks)

    def sent(self) -> float:
        """In all calls."""
        return sum(calls["calls"] * (self.coded_bytes(calls["type"], calls["size"]) if calls["coded"] else self.exact_bytes(calls["size"]))
                   for calls in self.document["calls"])

    def farthest_host(self, sent: dict[str, int]) -> tuple[str, float]:
        """The host farthest from the formula, and how far, as a share. Where ranks do not send alike, their mean counts."""
        expected = self.sent()
        by_site = self.shape.sites > 1 and any(not calls["coded"] for calls in self.document["calls"])  # exact hierarchies: sites differ
        if not self.shape.is_even or by_site:
            return "their mean", sum(sent.values()) / len(sent) / expected - 1
        return max(((host, count / expected - 1) for host, count in sent.items()), key=lambda entry: abs(entry[1]))

    def farthest_row(self) -> tuple[int, float] | None:
        """The size for which the library counts bytes farthest from the formula, and how far. None where that says nothing."""
        rows = [row for row in self.document["results"] if row["wire_bytes"] and row["size"] >= LEAST_ROW]
        if not rows or not self.shape.is_even:
            return None
        return max(((row["size"], row["wire_bytes"] / self.coded_bytes(row["type"], row["size"]) - 1) for row in rows), key=lambda entry: abs(entry[1]))


def written(path: pathlib.Path) -> pathlib.Path:
    """The file that a sweep has just written when told to write `path`: the last of PATH, PATH.0, PATH.1, ... that exists."""
    found, number = path, 0
    while (following := path.with_name(f"{path.name}.{number}")).exists():
        found, number = following, number + 1
    return found
