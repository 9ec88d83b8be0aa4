#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# The objects compiled for one instruction set must define their table and nothing else that the linker sees: a weak symbol of
# theirs (an inline function) could be chosen for callers that run on older CPUs. Arguments: nm, then the static libraries.
import re
import subprocess
import sys


def visible(nm, library):
    """Defined symbols of the library that are not local to their object."""
    listing = subprocess.run([nm, '--demangle', '--defined-only', '--extern-only', library], check=True, capture_output=True, text=True)
    symbols = []
    for line in listing.stdout.splitlines():
        match = re.match(r'[0-9a-f]+ (\w) (.+)', line)
        if match:
            symbols.append(match.groups())
    return symbols


def main():
    nm, libraries = sys.argv[1], sys.argv[2:]
    wrong = 0
    for library in libraries:
        symbols = visible(nm, library)
        tables = [name for _, name in symbols if re.fullmatch(r'isthmus::kernels::k\w+Target', name)]
        others = [f'{kind} {name}' for kind, name in symbols if name not in tables]
        if len(tables) != 1 or others:
            print(f'{library}: {len(tables)} tables; besides: {others}')
            wrong += 1
    return 1 if wrong or not libraries else 0


sys.exit(main())
