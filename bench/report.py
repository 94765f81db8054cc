"""From the rounds' points to ratios, a table for people, and JSON lines for machines."""

import dataclasses
import json
import statistics
from typing import Any, Callable


@dataclasses.dataclass(frozen=True)
class Figure:
    """What is compared, and how it is told."""

    name: str  # in a point
    more_is_better: bool
    show: Callable[[dict, Any], str]  # (point, case) -> a cell
    heading: str  # of the column that says which case it is
    label: Callable[[Any], str]  # case -> its cell in there
    describe: Callable[[Any], dict]  # case -> what a JSON line says about it
    also: tuple[str, ...] = ()  # other figures of a point that JSON lines keep


@dataclasses.dataclass(frozen=True)
class Section:
    title: str
    figure: Figure
    subject: str  # whose ratios are shown
    ranks: int
    cases: list
    peers: list[str]
    # case -> {peer: least ratio}: how many times better than the peer the subject is to be
    bars: Callable[[Any], dict[str, float]]


def medians(results, key, case, names):
    """The median over the rounds of each figure of a point, or None where nobody was measured."""
    points = [found[key][case] for found in results if case in found.get(key, {})]
    if not points:
        return None
    return {name: statistics.median(point[name] for point in points if name in point) for name in names if name in points[0]}


def ratio(results, subject, peer, case, figure):
    """How many times better than the peer, as the median of the rounds' own ratios: both sides of each were measured
    within seconds of each other, so that a slow spell of the machine hits both."""
    ratios = []
    for found in results:
        mine, other = found.get(subject, {}).get(case), found.get(peer, {}).get(case)
        if mine and other:
            better, worse = (mine, other) if figure.more_is_better else (other, mine)
            ratios.append(better[figure.name] / worse[figure.name])
    return statistics.median(ratios) if ratios else None


def points(section, results):
    """One dictionary per case, with everything that a table or a JSON line tells."""
    figure, ranks = section.figure, section.ranks
    figures = (figure.name, *figure.also)
    names = [section.subject, *section.peers]
    for case in section.cases:
        yield {
            "section": section.title,
            "ranks": ranks,
            **figure.describe(case),
            "rounds": len(results),
            "contestants": {name: medians(results, (name, ranks), case, figures) for name in names},
            "ratios": {
                peer: ratio(results, (section.subject, ranks), (peer, ranks), case, figure) for peer in section.peers
            },
            "bars": section.bars(case),
        }


def human_size(size):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >> shift and not size % (1 << shift):
            return f"{size >> shift} {unit}"
    return f"{size} B"


def digits(value):
    """Three of them, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def verdict(point):
    known = {peer: point["ratios"][peer] for peer in point["bars"] if point["ratios"][peer] is not None}
    short = [peer for peer, reached in known.items() if reached < point["bars"][peer]]
    unknown = [peer for peer in point["bars"] if peer not in known]
    words = ["SHORT: " + ", ".join(short)] if short else []
    words += ["not measured: " + ", ".join(unknown)] if unknown else []
    return "; ".join(words) or "ok"


def table(section, results):
    rows = [[section.figure.heading, section.subject, *section.peers, *(f"× {peer}" for peer in section.peers), "bars", "reached"]]
    for case, point in zip(section.cases, points(section, results)):
        ratios = point["ratios"].values()
        rows.append([section.figure.label(case)])
        rows[-1] += ["–" if found is None else section.figure.show(found, case) for found in point["contestants"].values()]
        rows[-1] += ["–" if value is None else digits(value) for value in ratios]
        rows[-1] += [", ".join(f"{peer} ≥ {bar:g}" for peer, bar in point["bars"].items()), verdict(point)]
    return rows


def tables(sections, results):
    """(title, rows) of each."""
    return [(section.title, table(section, results)) for section in sections]


def section_points(sections, results):
    return [point for section in sections for point in points(section, results)]


def as_text(title, rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([title, *lines, ""])


def as_markdown(title, rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---:|" * len(rows[0]))
    return "\n".join([f"### {title}", "", *lines, ""])


def json_lines(op, found, commit):
    return [json.dumps({"op": op, "commit": commit, **point}) for point in found]
