"""Lines of time over the number of hosts, side by side, both axes logarithmic: an SVG without dependencies."""

import math

COLOURS = ["#1b6ca8", "#c8553d", "#3b8a4a", "#8e5ea2", "#b8860b", "#555555"]
DASHES = ["", "6 3", "2 3", "8 3 2 3", "", "4 2"]
WIDTH, HEIGHT = 560, 430  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 70, 60
LABEL_HEIGHT = 15


def draw(panels, ranks, title):
    """`panels` are (title, {line: {hosts: ms}})."""
    body = [f'<text x="{WIDTH * len(panels) / 2:.0f}" y="24" text-anchor="middle" font-size="16">{title}</text>']
    for number, (name, lines) in enumerate(panels):
        body.append(f'<g transform="translate({number * WIDTH},0)">{panel(name, lines, ranks)}</g>')
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT}" viewBox="0 0 {WIDTH * len(panels)} {HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{ground}\n' + "\n".join(body) + "\n</svg>\n"


class Scale:
    """From a value to pixels, by its logarithm."""

    def __init__(self, low, high, begin, end):
        self.low, self.high, self.begin, self.end = math.log(low), math.log(high), begin, end

    def __call__(self, value):
        share = (math.log(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


def panel(name, lines, ranks):
    lines = {line: points for line, points in lines.items() if points}
    values = [ms for points in lines.values() for ms in points.values()]
    if not values:
        return f'<text x="{LEFT}" y="{TOP}">{name}: not measured</text>'
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    x = Scale(ranks[0], ranks[-1], LEFT, WIDTH - RIGHT)
    y = Scale(low, max(high, 10 * low), HEIGHT - BOTTOM, TOP)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [f'<text x="{middle}" y="{TOP - 16}" text-anchor="middle" font-weight="bold">{name}</text>']
    parts += [f'<text x="{middle}" y="{HEIGHT - 16}" text-anchor="middle">hosts</text>']
    height = (TOP + HEIGHT - BOTTOM) / 2
    parts += [f'<text x="18" y="{height}" text-anchor="middle" transform="rotate(-90 18 {height})">time</text>']
    parts += grid(x, y, ranks, low, max(high, 10 * low))
    order = list(lines)
    for line, points in lines.items():
        parts.append(polyline(order.index(line), [(x(hosts), y(ms)) for hosts, ms in points.items()]))
    parts += labels({line: y(list(points.values())[-1]) for line, points in lines.items()}, order)
    return "\n".join(parts)


def grid(x, y, ranks, low, high):
    parts = []
    for hosts in ranks:
        at, bottom = x(hosts), HEIGHT - BOTTOM
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#eee"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{hosts:,}</text>')
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        at = y(10.0**power)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{duration(10.0**power)}</text>')
    return parts


def duration(ms):
    return f"{ms / 1e3:g} s" if ms >= 1e3 else f"{ms:g} ms"


def polyline(number, points):
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>{dots}'


def labels(ends, order):
    """Beside the lines' ends, pushed down where they would overlap, and up again where that led too far."""
    lines = sorted(ends, key=ends.get)
    places, above = {}, -math.inf
    for line in lines:
        above = places[line] = max(ends[line], above + LABEL_HEIGHT)
    below = HEIGHT - BOTTOM + LABEL_HEIGHT
    for line in reversed(lines):
        below = places[line] = min(places[line], below - LABEL_HEIGHT)
    return [label(line, at, COLOURS[order.index(line) % len(COLOURS)]) for line, at in places.items()]


def label(line, at, colour):
    return f'<text x="{WIDTH - RIGHT + 10}" y="{at + 4:.1f}" fill="{colour}">{line}</text>'
