"""From the rounds' points to ratios, a table for people, and JSON lines for machines."""

import json
import statistics


def medians(results, key, size):
    """The median over the rounds of each figure of a point, or None where nobody was measured."""
    points = [found[key][size] for found in results if size in found.get(key, {})]
    if not points:
        return None
    figures = ("median_us", "mad_us", "p99_us", "gbps")
    return {name: statistics.median(point[name] for point in points if name in point) for name in figures if name in points[0]}


def ratio(results, subject, peer, size):
    """How many times quicker than the peer, as the median of the rounds' own ratios: both sides of each were measured
    within seconds of each other, so that a slow spell of the machine hits both."""
    ratios = []
    for found in results:
        mine, other = found.get(subject, {}).get(size), found.get(peer, {}).get(size)
        if mine and other:
            ratios.append(other["median_us"] / mine["median_us"])
    return statistics.median(ratios) if ratios else None


def points(section, results):
    """One dictionary per size, with everything that a table or a JSON line tells."""
    names = [section.subject, *section.peers]
    for size in section.sizes:
        yield {
            "section": section.title,
            "ranks": section.ranks,
            "bytes": size,
            "rounds": len(results),
            "contestants": {name: medians(results, (name, section.ranks), size) for name in names},
            "ratios": {
                peer: ratio(results, (section.subject, section.ranks), (peer, section.ranks), size) for peer in section.peers
            },
            "bars": section.bars(size),
        }


def human_size(size):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >> shift and not size % (1 << shift):
            return f"{size >> shift} {unit}"
    return f"{size} B"


def speed(point, size):
    """Small messages are about latency, large ones about bandwidth."""
    if point is None:
        return "–"
    if size < 512 << 10:
        return f"{digits(point['median_us'])} µs"
    return f"{digits(size / point['median_us'] / 1e3)} GB/s"


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
    rows = [["size", section.subject, *section.peers, *(f"× {peer}" for peer in section.peers), "bars", "reached"]]
    for point in points(section, results):
        ratios = point["ratios"].values()
        rows.append([human_size(point["bytes"])])
        rows[-1] += [speed(figures, point["bytes"]) for figures in point["contestants"].values()]
        rows[-1] += ["–" if value is None else digits(value) for value in ratios]
        rows[-1] += [", ".join(f"{peer} ≥ {bar:g}" for peer, bar in point["bars"].items()), verdict(point)]
    return rows


def as_text(title, rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([title, *lines, ""])


def as_markdown(title, rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---:|" * len(rows[0]))
    return "\n".join([f"### {title}", "", *lines, ""])


def json_lines(op, sections, results, commit):
    for section in sections:
        for point in points(section, results):
            yield json.dumps({"op": op, "commit": commit, **point})
