#!/usr/bin/env -S python3 -B
"""Checks who includes whom against the table in docs/architecture.md.

usage: include_layers.py [ROOT]

A module may include itself, core, and what its row names. Its DEPS in CMake are exactly the modules that its files
include. Project files are included by their full path, so that this check sees them.
"""

import graphlib
import re
import sys
from pathlib import Path

from source_tree import TABLE, Finding, Rule, cpp_files, module_folders, module_rules, report

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(file: Path):
    """(line, quoted?, path) of each include."""
    for number, text in enumerate(file.read_text().splitlines(), start=1):
        if match := INCLUDE.match(text):
            yield number, match[1] == '"', match[2]


def module_of(path: str) -> str | None:
    match = re.match(r"paceline/(\w+)/", path)
    return match[1] if match else None


def allows(rule: Rule, module: str, other: str) -> bool:
    return other in ("core", module) or other in rule.may_include or "all" in rule.may_include


def check_includes(root: Path, folder: Path, rule: Rule) -> tuple[list[Finding], dict[str, str]]:
    """The findings in a module's files, and for each other module the first place that includes it."""
    findings = []
    used: dict[str, str] = {}
    for file in cpp_files(folder):
        name = str(file.relative_to(root))
        for line, quoted, path in includes(file):
            other = module_of(path)
            if other is None:
                if quoted and (file.parent / path).exists():
                    sentence = f'"{path}" is a file of the project: include it by its full path'
                    findings.append(Finding(name, line, sentence))
            elif not allows(rule, folder.name, other):
                allowed = ", ".join(["core", *sorted(rule.may_include)])
                sentence = f"{folder.name} may include {allowed}, not {other} ({TABLE}:{rule.line})"
                findings.append(Finding(name, line, sentence))
            elif other != folder.name:
                used.setdefault(other, f"{name}:{line}")
    return findings, used


def cmake_deps(text: str) -> dict[str, int]:
    """The DEPS of all module(...) calls with their lines. An optional part, fabric_ucx, counts as its module, fabric."""
    deps = {}
    for call in re.finditer(r"^\s*module\s*\(([^)]*)\)", text, re.MULTILINE):
        keyword = None
        for word in re.finditer(r"[^\s]+", re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), call[1])):
            if word[0] in ("SOURCES", "TESTS", "DEPS", "LIBS"):
                keyword = word[0]
            elif keyword == "DEPS":
                line = text.count("\n", 0, call.start(1) + word.start()) + 1
                deps.setdefault(word[0].split("_")[0], line)
    return deps


def check_deps(root: Path, folder: Path, rule: Rule, used: dict[str, str]) -> list[Finding]:
    file = folder / "CMakeLists.txt"
    text = file.read_text() if file.exists() else ""
    if not re.search(r"^\s*module\s*\(", text, re.MULTILINE):
        return []  # a program or a folder that is not built yet: nothing declares its dependencies
    name = str(file.relative_to(root))
    deps = {dep: line for dep, line in cmake_deps(text).items() if dep != folder.name}
    findings = []
    for dep, line in deps.items():
        if not allows(rule, folder.name, dep):
            findings.append(Finding(name, line, f"{folder.name} may not depend on {dep} ({TABLE}:{rule.line})"))
        elif dep not in used:
            findings.append(Finding(name, line, f"DEPS names {dep}, which no file of {folder.name} includes"))
    for other, place in used.items():
        if other not in deps:
            findings.append(Finding(name, 1, f"DEPS lacks {other}, which {place} includes"))
    return findings


def check_table(rules: dict[str, Rule]) -> list[Finding]:
    graph = {module: rule.may_include - {"all"} for module, rule in rules.items()}
    findings = [
        Finding(TABLE, rules[module].line, f"{module} may include {other}, which has no row")
        for module, others in graph.items()
        for other in sorted(others - rules.keys())
    ]
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        findings.append(Finding(TABLE, rules[error.args[1][0]].line, f"a circle: {' -> '.join(error.args[1])}"))
    return findings


def check(root: Path) -> list[Finding]:
    rules = module_rules(root)
    findings = check_table(rules)
    for folder in module_folders(root):
        if folder.name not in rules:
            findings.append(Finding(TABLE, 1, f"paceline/{folder.name} has no row in a table of modules"))
            continue
        rule = rules[folder.name]
        in_files, used = check_includes(root, folder, rule)
        findings += in_files + check_deps(root, folder, rule, used)
    return findings


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[2]
    sys.exit(report(check(Path(sys.argv[1]) if len(sys.argv) > 1 else here)))
