"""What the checks know about the tree: its modules, their files, and the table of docs/architecture.md."""

import re
from dataclasses import dataclass
from pathlib import Path

TABLE = "docs/architecture.md"


@dataclass
class Rule:
    """One row of the table."""

    may_include: set[str]  # besides core and itself; {"all"} for no limit
    waits: str  # the cell "time and waiting"
    line: int


@dataclass
class Finding:
    file: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.sentence}"


def module_rules(root: Path) -> dict[str, Rule]:
    """The rows whose first cell is `paceline/MODULE`, of every table in the file, by module."""
    rules = {}
    header: list[str] = []
    for number, text in enumerate((root / TABLE).read_text().splitlines(), start=1):
        if not text.startswith("|"):
            header = []
            continue
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        header = header or cells
        module = re.fullmatch(r"`paceline/(\w+)`", cells[0])
        if module:
            row = dict(zip(header, cells))
            rules[module[1]] = Rule(set(re.findall(r"\w+", row["may include"])), row["time and waiting"], number)
    return rules


def module_folders(root: Path) -> list[Path]:
    return sorted(folder for folder in (root / "paceline").iterdir() if folder.is_dir())


def cpp_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in (".hpp", ".cpp"))


def is_test(file: Path) -> bool:
    return file.stem.endswith("_test")


# Comments, strings and characters; a raw string before an ordinary one, because the latter would match inside it.
_NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | R"([^()\s]*)\(.*?\)\1" | "(?:\\.|[^"\\\n])*" | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL | re.VERBOSE,
)


def code_lines(file: Path) -> list[str]:
    """The lines of a file without comments and literals, so that words in them are not taken for calls."""
    return _NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), file.read_text()).split("\n")


def report(findings: list[Finding]) -> int:
    """Prints the findings; the exit status of a check."""
    for finding in findings:
        print(finding)
    return 1 if findings else 0
