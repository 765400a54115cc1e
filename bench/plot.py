"""Draws figures over the size of a message as SVG, both axes logarithmic."""

import math
from xml.sax.saxutils import escape

WIDTH = 820
LEFT, RIGHT, TOP = 62, 560, 34
PLOT_HEIGHT = 280
PANEL_HEIGHT = 372
LEGEND_LEFT = RIGHT + 24
LEGEND_STEP = 21

# A viewer that ignores the media query shows greys that are legible on white and on black.
STYLE = """
    text { font: 12px sans-serif; fill: #737b85; }
    .title { font-size: 14px; font-weight: bold; }
    .axis { stroke: #8b929b; stroke-width: 1; fill: none; }
    .grid { stroke: #8b929b; stroke-opacity: 0.3; stroke-width: 1; }
    @media (prefers-color-scheme: light) { text { fill: #24292f; } }
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } }
"""


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def number_text(value):
    return f"{value:g}"


class Scale:
    """Maps values between `low` and `high` to positions between `start` and `end`."""

    def __init__(self, low, high, start, end):
        self._low = math.log(low)
        self._span = math.log(high) - self._low or 1.0
        self._start = start
        self._length = end - start

    def __call__(self, value):
        return self._start + self._length * (math.log(value) - self._low) / self._span


def decades(values):
    """Returns the powers of ten around all values."""
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)))
    return [10.0 ** power for power in range(low, max(high, low + 1) + 1)]


def line(x1, y1, x2, y2, kind):
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x, y, content, anchor="start", kind=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
            + (f' class="{kind}"' if kind else "") + f">{escape(content)}</text>")


def stroke(curve):
    """Returns thick lines for ours, thin dashed ones for the others."""
    width, dashes = (2.5, "none") if curve.is_ours else (1.5, "5 3")
    return (f'fill="none" stroke="{curve.colour}" stroke-width="{width}" '
            f'stroke-dasharray="{dashes}"')


def frame(title, sizes, ticks, across, down, top):
    """Returns title, axes, grid and their texts."""
    bottom = top + TOP + PLOT_HEIGHT
    parts = [text(LEFT, top + 18, title, kind="title")]
    for tick in ticks:
        parts.append(line(LEFT, down(tick), RIGHT, down(tick), "grid"))
        parts.append(text(LEFT - 8, down(tick) + 4, number_text(tick), "end"))
    for size in sizes:
        parts.append(line(across(size), top + TOP, across(size), bottom, "grid"))
        parts.append(text(across(size), bottom + 18, size_text(size), "middle"))
    parts.append(line(LEFT, top + TOP, LEFT, bottom, "axis"))
    parts.append(line(LEFT, bottom, RIGHT, bottom, "axis"))
    parts.append(text((LEFT + RIGHT) / 2, bottom + 38, "size of a message", "middle"))
    return parts


def drawn_curve(curve, points, across, down):
    places = [(across(size), down(value)) for size, value in points]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{curve.colour}"/>' for x, y in places]
    return [f'<polyline points="{joined}" {stroke(curve)}/>', *dots]


def legend_entry(curve, y):
    return [f'<path d="M{LEGEND_LEFT} {y} h28" {stroke(curve)}/>',
            text(LEGEND_LEFT + 36, y + 4, curve.label)]


def drawn_panel(panel, figures, top):
    """Returns the elements of one plot. `figures`: task to figure; a task without one leaves a gap."""
    points = {curve: [(task.size, figures[task]) for task in curve.tasks if task in figures]
              for curve in panel.curves}
    curves = [curve for curve in panel.curves if points[curve]]
    if not curves:
        return [text(LEFT, top + 18, f"{panel.title}: no figure", kind="title")]
    sizes = sorted({size for curve in curves for size, _ in points[curve]})
    ticks = decades([value for curve in curves for _, value in points[curve]])
    across = Scale(sizes[0], sizes[-1], LEFT + 12, RIGHT - 12)
    down = Scale(ticks[0], ticks[-1], top + TOP + PLOT_HEIGHT, top + TOP)
    parts = frame(panel.title, sizes, ticks, across, down, top)
    for number, curve in enumerate(curves):
        parts += drawn_curve(curve, points[curve], across, down)
        parts += legend_entry(curve, top + TOP + 12 + number * LEGEND_STEP)
    return parts


def draw(panels, figures):
    """Returns the SVG of all plots, one below the other."""
    parts = []
    for number, panel in enumerate(panels):
        parts += drawn_panel(panel, figures, number * PANEL_HEIGHT)
    height = len(panels) * PANEL_HEIGHT
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{escape("; ".join(panel.title for panel in panels))} over message size">',
        f"  <style>{STYLE}  </style>",
        *(f"  {part}" for part in parts),
        "</svg>",
        "",
    ])
