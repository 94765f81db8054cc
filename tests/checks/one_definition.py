#!/usr/bin/env -S python3 -B
"""Checks that no two files define a type of the same name in the same namespace.

usage: one_definition.py [ROOT]

Each file alone compiles, and so does the program that links them; then the linker takes one of the two types' inline
members for both (C++'s one-definition rule). Unnamed namespaces are free.
"""

import re
import sys
from pathlib import Path

from source_tree import Finding, code_lines, cpp_files, report

NAMESPACE = re.compile(r"namespace(?: ([\w:]+))? \{$")
# Neither a specialisation nor a nested type that is defined outside of its class.
TYPE = re.compile(r"(?:class|struct|union|enum(?: class)?) (\w+)(?![\w:<])[^;(){]*(?:\{.*)?$")


def types(file: Path):
    """(line, qualified name) of the types that are defined at the outermost level of named namespaces."""
    open_braces: list[str | None] = []  # the namespace, "" of an unnamed one; None of any other brace
    for number, text in enumerate(code_lines(file), start=1):
        line = text.strip()
        if found := NAMESPACE.search(line):
            open_braces.append(found[1] or "")
            continue
        if (found := TYPE.match(line)) and None not in open_braces and "" not in open_braces:
            yield number, "::".join([*open_braces, found[1]])
        for brace in re.findall(r"[{}]", line):
            if brace == "{":
                open_braces.append(None)
            elif open_braces:
                open_braces.pop()


def check(root: Path) -> list[Finding]:
    seen: dict[str, str] = {}
    findings = []
    for file in cpp_files(root / "paceline"):
        name = str(file.relative_to(root))
        for number, qualified in types(file):
            first = seen.setdefault(qualified, f"{name}:{number}")
            if first != f"{name}:{number}":
                findings.append(Finding(name, number, f"{qualified} is another type already, in {first}"))
    return findings


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[2]
    sys.exit(report(check(Path(sys.argv[1]) if len(sys.argv) > 1 else here)))
