"""Draws boxes, arrows and words into an SVG file that is readable on light and on dark ground."""

from xml.sax.saxutils import escape

STYLE = """
    text { font: 14px system-ui, sans-serif; fill: #1f2328; }
    .title { font-weight: 600; }
    .small { font-size: 12px; fill: #59636e; }
    .box { fill: #f6f8fa; stroke: #59636e; }
    .part { fill: #ffffff; stroke: #8c959f; }
    .good { fill: #ddf4ff; stroke: #0969da; }
    .bad { fill: #ffebe9; stroke: #d1242f; }
    .line { fill: none; stroke: #59636e; stroke-width: 1.5; }
    .way { fill: none; stroke: #0969da; stroke-width: 2; }
    .fault { fill: none; stroke: #d1242f; stroke-width: 1.5; stroke-dasharray: 5 3; }
    .line-head { fill: #59636e; } .way-head { fill: #0969da; } .fault-head { fill: #d1242f; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .small { fill: #9198a1; }
      .box { fill: #151b23; stroke: #9198a1; }
      .part { fill: #0d1117; stroke: #656c76; }
      .good { fill: #121d2f; stroke: #4493f8; }
      .bad { fill: #25171c; stroke: #f85149; }
      .line { stroke: #9198a1; } .way { stroke: #4493f8; } .fault { stroke: #f85149; }
      .line-head { fill: #9198a1; } .way-head { fill: #4493f8; } .fault-head { fill: #f85149; }
    }"""
LINE_HEIGHT = 18


class Canvas:
    """Positions are in pixels, from the upper left corner."""

    def __init__(self, width, height, title):
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
            f' height="{height}" role="img">',
            f"  <title>{escape(title)}</title>", f"  <style>{STYLE}\n  </style>", "  <defs>"]
        for kind in ("line", "way", "fault"):
            self._parts.append(
                f'    <marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
                f' markerUnits="userSpaceOnUse" orient="auto"><path class="{kind}-head" d="M0 0 8 4 0 8z"/></marker>')
        self._parts.append("  </defs>")

    def box(self, x, y, width, height, title="", lines=(), kind="box"):
        """A box with a title and small lines below it, in its middle."""
        self._parts.append(f'  <rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        words = ([title] if title else []) + list(lines)
        top = y + (height - LINE_HEIGHT * len(words)) / 2 + 13
        for number, line in enumerate(words):
            self.text(x + width / 2, top + LINE_HEIGHT * number, line, "title" if title and number == 0 else "small",
                      "middle")

    def frame(self, x, y, width, height, title):
        """A box around others; its title is above, at the left."""
        self._parts.append(f'  <rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>')
        self.text(x + 12, y + 20, title, "title")

    def text(self, x, y, words, kind="", anchor="start"):
        self._parts.append(f'  <text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>')

    def arrow(self, *points, kind="line"):
        path = " ".join(f"{x},{y}" for x, y in points)
        self._parts.append(f'  <polyline class="{kind}" points="{path}" marker-end="url(#{kind})"/>')

    def svg(self):
        return "\n".join([*self._parts, "</svg>", ""])
