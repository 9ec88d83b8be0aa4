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


def coded_bits(collective: str, algorithm: str, codec: Codec, ranks: int) -> float:
    """That a rank sends for every element of the larger buffer. ValueError for what has no formula here."""
    others = (ranks - 1) / ranks
    gather = codec.sum(ranks) * others if collective == "allreduce" else 0
    if ranks > MOST_DIRECT and codec.scale:
        raise ValueError(f"scales of more than {MOST_DIRECT} ranks have no formula")
    scales = codec.scale * (ranks - 1)
    if algorithm in ("direct", "two_shot"):
        return scales + codec.index * others + gather
    if algorithm == "ring" and codec.sums:
        return scales + sum(codec.sum(summands) for summands in range(1, ranks)) / ranks + gather
    if algorithm == "halving" and codec.sums and ranks & (ranks - 1) == 0:
        steps = ranks.bit_length() - 1
        return scales + sum(codec.sum(2 ** step) / 2 ** (step + 1) for step in range(steps)) + gather
    raise ValueError(f"algorithm '{algorithm}' with {ranks} ranks has no formula")


def exact_share(collective: str, ranks: int) -> float:
    """Of the larger buffer that a rank sends: every algorithm for large buffers sends as little as can be."""
    return (ranks - 1) / ranks * (2 if collective == "allreduce" else 1)


def sent_by_each(document: dict) -> float:
    """Payload bytes that every rank has sent in all calls of a sweep with a codec, from its JSON file. ValueError without a formula."""
    collective, ranks = COLLECTIVES[pathlib.Path(document["args"][0]).name], len(document["config"]["devices"])
    ways = {(row["type"], row["size"]): (row["codec"], row["codec_algorithm"]) for row in document["results"]}
    if len(set(ways.values())) != 1:
        raise ValueError("calls of different sizes were carried out differently")
    text, algorithm = next(iter(ways.values()))
    total = 0.0
    for calls in document["calls"]:
        if calls["coded"] and algorithm:  # "": the codec "none"
            bits = coded_bits(collective, algorithm, codec_named(text, ranks), ranks)
            total += calls["calls"] * calls["size"] / ELEMENT_BYTES[calls["type"]] * bits / 8
        else:
            total += calls["calls"] * calls["size"] * exact_share(collective, ranks)
    return total


def distance(sent: dict[str, int], formula: float) -> tuple[str, float]:
    """The host farthest from the formula, and how far, as a share."""
    return max(((host, count / formula - 1) for host, count in sent.items()), key=lambda entry: abs(entry[1]))


def written(path: pathlib.Path) -> pathlib.Path:
    """The file that a sweep has just written when told to write `path`: the last of PATH, PATH.0, PATH.1, ... that exists."""
    found, number = path, 0
    while (following := path.with_name(f"{path.name}.{number}")).exists():
        found, number = following, number + 1
    return found
