#!/usr/bin/env -S python3 -B
"""Checks that the headers which are installed for outside programs are documented, and used by somebody.

usage: public_headers.py [ROOT]

The list is in cmake/install.cmake, the table in docs/guide.md.
"""

import re
import sys
from pathlib import Path

from source_tree import Finding, cpp_files, is_test, report

LIST, TABLE = "cmake/install.cmake", "docs/guide.md"


def lines_with(root: Path, name: str, pattern: str) -> dict[str, int]:
    """Headers in the lines of a file that match, by the line's number."""
    found = {}
    for number, text in enumerate((root / name).read_text().splitlines(), start=1):
        if match := re.match(pattern, text):
            found.setdefault(match[1], number)
    return found


def users(root: Path) -> list[Path]:
    own = [file for file in cpp_files(root / "paceline") if is_test(file) or "cli" in file.parts]
    return [*own, *cpp_files(root / "examples"), *cpp_files(root / "tests")]


def check(root: Path) -> list[Finding]:
    installed = lines_with(root, LIST, r"^ +(paceline/[\w/]+\.hpp)\)?$")
    documented = lines_with(root, TABLE, r"^\| `(paceline/[\w/]+\.hpp)` \|")
    used = {header for file in users(root) for header in re.findall(r'^#include "([^"]+)"', file.read_text(), re.M)}
    findings = []
    for header, line in installed.items():
        if not (root / header).exists():
            findings.append(Finding(LIST, line, f"there is no {header}"))
        elif header not in documented:
            findings.append(Finding(LIST, line, f"{header} is installed, and {TABLE} has no row for it"))
        elif header not in used:
            findings.append(Finding(LIST, line, f"{header} is installed, and no command, example or test includes it"))
    for header, line in documented.items():
        if header not in installed:
            findings.append(Finding(TABLE, line, f"{header} has a row, and {LIST} does not install it"))
    return findings


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[2]
    sys.exit(report(check(Path(sys.argv[1]) if len(sys.argv) > 1 else here)))
