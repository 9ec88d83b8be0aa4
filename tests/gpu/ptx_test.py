#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at the device code of the homomorphic codec as PTX, compiled as the build does: no GPU is needed to see that it computes what
was written. Called with the PTX file.

A contracted multiplication and addition, a flushed subnormal or an approximate division would give other bits than the CPU's."""
import pathlib
import re
import sys

KERNELS = ["measure", "encode", "decode", "add"]
FORBIDDEN = {
    "a contracted multiplication and addition": re.compile(r"\b(?:fma|mad)\.\w+\.f(?:32|64)\b"),
    "subnormals flushed to zero": re.compile(r"\b\w+\.[\w.]*ftz[\w.]*\b"),
    "an approximation": re.compile(r"\b\w+\.[\w.]*approx[\w.]*\b"),
}
EXPECTED = {  # else the expressions above look at nothing
    "multiplications": re.compile(r"\bmul(?:\.rn)?\.f32\b"),
    "additions": re.compile(r"\badd(?:\.rn)?\.f32\b"),
    "divisions": re.compile(r"\bdiv\.rn\.f64\b"),
    "square roots": re.compile(r"\bsqrt\.rn\.f64\b"),
}


def faults(ptx: str) -> list[str]:
    found = [f"there is no kernel '{name}'" for name in KERNELS if not re.search(rf"\.entry \w*\d{name}_kernel", ptx)]
    found += [f"no {what}" for what, pattern in EXPECTED.items() if not pattern.search(ptx)]
    return found + [f"{what}: {m[0]}" for what, pattern in FORBIDDEN.items() if (m := pattern.search(ptx))]


def main() -> int:
    found = faults(pathlib.Path(sys.argv[1]).read_text())
    careless = faults("fma.rn.f32 x; mul.ftz.f32 y; div.approx.f32 z;")
    if sum(fault.split(":")[0] in FORBIDDEN for fault in careless) != len(FORBIDDEN):
        found.append("careless code is not found out")
    print("\n".join(found) or f"{len(KERNELS)} kernels, no contraction, flushing or approximation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
