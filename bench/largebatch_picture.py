"""Lines over the batch size, side by side, both axes logarithmic: an SVG. Axes, lines and labels are scale_picture's."""

import math

from scale_picture import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale, labels, polyline


def draw(panels, batches, title):
    """`panels` are (title, {line: {batch: value}})."""
    body = [f'<text x="{WIDTH * len(panels) / 2:.0f}" y="24" text-anchor="middle" font-size="16">{title}</text>']
    for number, (name, lines) in enumerate(panels):
        body.append(f'<g transform="translate({number * WIDTH},0)">{panel(name, lines, batches)}</g>')
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT}" viewBox="0 0 {WIDTH * len(panels)} {HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{ground}\n' + "\n".join(body) + "\n</svg>\n"


def bounds(values):
    """Powers of two around the values."""
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    return low, max(high, low + 1)


def panel(name, lines, batches):
    lines = {line: points for line, points in lines.items() if points}
    values = [value for points in lines.values() for value in points.values()]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [f'<text x="{middle}" y="{TOP - 16}" text-anchor="middle" font-weight="bold">{name}</text>']
    if not values:
        return "\n".join([*parts, f'<text x="{LEFT}" y="{TOP + 16}">not measured</text>'])
    low, high = bounds(values)
    x, y = Scale(batches[0], batches[-1], LEFT, WIDTH - RIGHT), Scale(2.0**low, 2.0**high, HEIGHT - BOTTOM, TOP)
    parts += [f'<text x="{middle}" y="{HEIGHT - 16}" text-anchor="middle">examples of a step</text>']
    parts += grid(x, y, batches, range(low, high + 1))
    order = list(lines)
    for line, points in lines.items():
        parts.append(polyline(order.index(line), [(x(batch), y(value)) for batch, value in points.items()]))
    parts += labels({line: y(list(points.values())[-1]) for line, points in lines.items()}, order)
    return "\n".join(parts)


def grid(x, y, batches, powers):
    parts = []
    for batch in batches:
        at, bottom = x(batch), HEIGHT - BOTTOM
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#eee"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{batch:,}</text>')
    for power in powers:
        at = y(2.0**power)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{2.0**power:g}</text>')
    return parts
