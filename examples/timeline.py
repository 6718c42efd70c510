"""Draw a job's faults as one SVG picture: ranks as lanes, what they did as colours.

    paceline events --json | python examples/timeline.py > timeline.svg

The upper strip is the whole job on one scale of time. Recovery takes a fraction of a second and
would be a hair there, so each incident is drawn again below, from just before the fault until all
lost steps are done again, on a scale of its own.

The colours are those of Okabe and Ito, which most colour-blind readers can tell apart; text is
a grey that is readable on white and on black, since a README picture cannot know its background.
"""

import sys
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from story import Incident, Phase, Span, Story, parse_events, read_story

WIDTH = 900
MARGIN = 20
LABELS = 60  # room for the lanes' names
GAP = 18  # between the pictures of incidents
IN_A_ROW = 3
INCIDENTS_MAX = 9
COLOURS = {
    Phase.TRAINING: "#009e73",
    Phase.REDO: "#7fceb9",
    Phase.FAULT: "#d55e00",
    Phase.DETECT: "#e69f00",
    Phase.DECIDE: "#cc79a7",
    Phase.RESTART: "#0072b2",
}
WORDS = {
    Phase.TRAINING: "training",
    Phase.REDO: "doing lost steps again",
    Phase.FAULT: "dead",
    Phase.DETECT: "fault not seen yet",
    Phase.DECIDE: "decide",
    Phase.RESTART: "restart",
}
GREY = "#737b85"


@dataclass(kw_only=True)
class Sheet:
    """SVG elements in the order in which they are painted, and how far down they reach."""

    parts: list[str] = field(default_factory=list)
    bottom: float = 0.0

    def rect(self, x: float, y: float, w: float, h: float, *, fill: str, tip: str = "") -> None:
        title = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}">'
            f"{title}</rect>"
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 11,
        anchor: str = "start",
        bold: bool = False,
        fill: str = GREY,
        rim: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        if rim:  # readable on every colour of a lane
            weight += ' stroke="#000" stroke-opacity="0.4" stroke-width="2" paint-order="stroke"'
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
            f' fill="{fill}"{weight}>{escape(words)}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{GREY}"'
            ' stroke-width="1" stroke-opacity="0.5"/>'
        )

    def cross(self, x: float, y: float, *, size: float = 4.0) -> None:
        arms = f"M{x - size} {y - size}l{2 * size} {2 * size}m0 {-2 * size}l{-2 * size} {2 * size}"
        for colour, width in (("#ffffff", 5), (COLOURS[Phase.FAULT], 2.5)):
            self.parts.append(f'<path d="{arms}" stroke="{colour}" stroke-width="{width}"/>')


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maps a window of time to a range of x."""

    begin: float
    end: float
    left: float
    right: float

    def x(self, time: float) -> float:
        part = (time - self.begin) / max(self.end - self.begin, 1e-9)
        return self.left + min(1.0, max(0.0, part)) * (self.right - self.left)


def render(story: Story, *, title: str = "") -> str:
    """The whole picture as SVG text."""
    sheet = Sheet()
    y = 28.0
    sheet.text(MARGIN, y, title or _headline(story), size=15, bold=True)
    y = _legend(sheet, y + 22)
    y = _overview(sheet, story, y + 24)
    shown = story.incidents[:INCIDENTS_MAX]
    for row in range(0, len(shown), IN_A_ROW):
        y = _row_of_incidents(sheet, story, shown[row : row + IN_A_ROW], first=row, y=y + 30)
    if len(story.incidents) > len(shown):
        left_out = len(story.incidents) - len(shown)
        sheet.text(MARGIN, y + 16, f"{left_out} later incidents are only in the strip above")
        y += 16
    height = y + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img"'
        f' width="{WIDTH}" height="{height:.0f}" fill="none"'
        ' font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n'
        f"<title>{escape(title or _headline(story))}</title>\n"
        + "\n".join(sheet.parts)
        + "\n</svg>\n"
    )


def _headline(story: Story) -> str:
    newest = max((step for _, step in story.steps), default=0)
    redone = sum(incident.steps_redone for incident in story.incidents)
    count = len(story.incidents)
    faults = "no fault" if count == 0 else "one fault" if count == 1 else f"{count} faults"
    return f"{newest} steps, {faults}, {redone} steps done again"


def _legend(sheet: Sheet, y: float) -> float:
    x = float(MARGIN)
    for phase, words in WORDS.items():
        sheet.rect(x, y - 9, 12, 11, fill=COLOURS[phase])
        sheet.text(x + 17, y, words)
        x += 17 + 6.1 * len(words) + 18
    sheet.cross(x + 5, y - 4)
    sheet.text(x + 16, y, "fault")
    return y


def _lanes(sheet: Sheet, story: Story, scale: Scale, y: float, *, height: float) -> float:
    """Master's lane and the ranks' lanes inside a window of time; gives the bottom."""
    _spans(sheet, story.master_spans, scale, y, height=height, offset=0)
    _spans(sheet, story.spans, scale, y + height + 4, height=height, offset=1)
    ranks_top = y + height + 4
    for incident in story.incidents:
        if not scale.begin <= incident.fault_at <= scale.end:
            continue
        x = scale.x(incident.fault_at)
        if incident.of_master:
            sheet.cross(x, y + height / 2 - 1)
        for lane in sorted(incident.lanes):
            sheet.cross(x, ranks_top + lane * height + height / 2 - 1)
    return ranks_top + story.lanes * height


def _spans(
    sheet: Sheet, spans: list[Span], scale: Scale, y: float, *, height: float, offset: int
) -> None:
    """Wide ones first: a short phase is widened to stay visible and must not be painted over."""
    inside = [span for span in spans if span.end > scale.begin and span.begin < scale.end]
    for span in sorted(inside, key=lambda span: span.begin - span.end):
        left, right = scale.x(span.begin), scale.x(span.end)
        seconds = span.end - span.begin
        who = f"lane {span.lane}" if offset else "master"
        tip = f"{who}: {WORDS[span.phase]}, {duration(seconds)}"
        top = y + (span.lane * height if offset else 0)
        width = max(right - left, 1.5)
        sheet.rect(left, top, width, height - 2, fill=COLOURS[span.phase], tip=tip)


def _overview(sheet: Sheet, story: Story, y: float) -> float:
    scale = Scale(begin=story.begin, end=story.end, left=MARGIN + LABELS, right=WIDTH - MARGIN)
    height = 15.0 if story.lanes <= 12 else 9.0
    for number, incident in enumerate(story.incidents[:INCIDENTS_MAX], start=1):
        sheet.text(scale.x(incident.fault_at), y - 5, str(number), anchor="middle")
    bottom = _lanes(sheet, story, scale, y, height=height)
    sheet.text(scale.left - 6, y + height - 5, "master", anchor="end")
    ranks_top = y + height + 4
    for lane in range(story.lanes):
        name = f"{story.lane_name} {lane}"
        sheet.text(scale.left - 6, ranks_top + (lane + 1) * height - 5, name, anchor="end")
    _node_names(sheet, story, scale, ranks_top, height=height)
    return _time_axis(sheet, story, scale, bottom)


def _node_names(sheet: Sheet, story: Story, scale: Scale, y: float, *, height: float) -> None:
    """Where a lane's node begins, once for each run of lanes that moved there together."""
    if height < 12:
        return
    moves = sorted(story.moves, key=lambda move: (move.begin, move.lane))
    named: set[tuple[float, str]] = set()
    for move in moves:
        if (move.begin, move.node) in named:
            continue
        named.add((move.begin, move.node))
        x = scale.x(move.begin)
        if x > scale.right - 8 * len(move.node):
            continue
        top = y + (move.lane + 1) * height - 5
        sheet.text(x + 6, top, move.node, size=10, fill="#ffffff", rim=True)


def _time_axis(sheet: Sheet, story: Story, scale: Scale, y: float) -> float:
    total = max(story.end - story.begin, 1e-9)
    every = _nice(total / 7)
    sheet.text(scale.left - 6, y + 15, "time", anchor="end")
    if story.steps:
        sheet.text(scale.left - 6, y + 29, "step", anchor="end")
    for number in range(int(total / every) + 1):
        at = story.begin + number * every
        x = scale.x(at)
        sheet.line(x, y, x, y + 4)
        anchor = "start" if number == 0 else "middle"
        sheet.text(x, y + 15, duration(number * every), anchor=anchor)
        if (step := story.step_at(at)) >= 0:
            sheet.text(x, y + 29, str(step), anchor="middle")
    return y + (29 if story.steps else 15)


def _row_of_incidents(
    sheet: Sheet, story: Story, incidents: list[Incident], *, first: int, y: float
) -> float:
    width = (WIDTH - 2 * MARGIN - (IN_A_ROW - 1) * GAP) / IN_A_ROW
    bottoms = [
        _incident(
            sheet, story, incident, number=first + at + 1, y=y, left=MARGIN + at * (width + GAP)
        )
        for at, incident in enumerate(incidents)
    ]
    return max(bottoms)


def _window(incident: Incident, story: Story) -> tuple[float, float]:
    end = incident.caught_up_at or incident.running_at or story.end
    length = max(end - incident.fault_at, 0.05)
    return incident.fault_at - 0.15 * length, end + 0.15 * length


def _incident(
    sheet: Sheet, story: Story, incident: Incident, *, number: int, y: float, left: float
) -> float:
    width = (WIDTH - 2 * MARGIN - (IN_A_ROW - 1) * GAP) / IN_A_ROW
    begin, end = _window(incident, story)
    scale = Scale(begin=begin, end=end, left=left, right=left + width)
    heading = f"{number}  {incident.title}"
    if incident.step >= 0:
        heading += f" at step {incident.step}"
    sheet.text(left, y, heading, size=12, bold=True)
    bottom = _lanes(sheet, story, scale, y + 9, height=13 if story.lanes <= 12 else 8)
    every = _nice((end - begin) / 4)
    ticks = int((end - incident.fault_at) / every) + 1
    for tick in range(ticks):
        x = scale.x(incident.fault_at + tick * every)
        sheet.line(x, bottom, x, bottom + 4)
        sheet.text(x, bottom + 15, duration(tick * every), size=10, anchor="middle")
    y = bottom + 33
    for words in _wrap(facts(incident), int(width / 6.6), mark=" · "):
        sheet.text(left, y, words, bold=True)
        y += 15
    reason = f"{incident.rung}: {incident.reason}" if incident.rung else incident.reason
    lines = _wrap(reason.split(), int(width / 5.6))
    for words in lines[:3]:
        sheet.text(left, y, words)
        y += 14
    return y - 14


def facts(incident: Incident) -> list[str]:
    """Detected after, training again after, steps redone: what of it is known."""
    parts: list[str] = []
    if incident.of_master:
        if incident.running_at:
            parts.append(f"serving again {duration(incident.running_at - incident.fault_at)}")
        return [*parts, "no step lost"]
    if incident.detected_at:
        parts.append(f"detected {duration(incident.detected_at - incident.fault_at)}")
    if incident.running_at:
        parts.append(f"training again {duration(incident.running_at - incident.fault_at)}")
    redone = incident.steps_redone
    return [*parts, f"{redone} {'step' if redone == 1 else 'steps'} redone"]


def duration(seconds: float) -> str:
    """Short and exact enough to compare: 0, 8 ms, 410 ms, 3.2 s, 40 s, 12 min."""
    if seconds <= 0:
        return "0"
    if seconds < 0.9995:
        return f"{max(seconds * 1000, 1):.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def _nice(length: float) -> float:
    """The next larger of 1, 2, 5 times a power of ten."""
    power = 1e-3
    while power * 10 < length:
        power *= 10
    sizes = [power, 2 * power, 5 * power, 10 * power]
    for small, large in pairwise(sizes):
        if small < length <= large:
            return large
    return power


def _wrap(parts: list[str], columns: int, *, mark: str = " ") -> list[str]:
    """Lines of whole parts, as long as they may be."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(mark) + len(part) <= columns:
            lines[-1] += mark + part
        else:
            lines.append(part)
    return lines


def main() -> int:
    events = parse_events(sys.stdin)
    if not events:
        print("no events on standard input; try: paceline events --json | …", file=sys.stderr)
        return 2
    sys.stdout.write(render(read_story(events)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
