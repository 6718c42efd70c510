// The last half hour: a lane for each host, coloured by the class of its time, and flags where an
// incident began. Drawn on a canvas; a table behind it says the same.

import {swatch} from "./goodput.js";
import {card, clockText, countText, durationText, element, table, visible} from "./text.js";

/** @typedef {import("./data.js").Page} Page */
/** @typedef {import("./data.js").Timeline} Timeline */

const FLAGS = 16; // height of the row of flags
const AXIS = 20;
const LABELS = 96; // width of the hosts' names
const LANES_MAX = 128; // height of all lanes together
const LANE_LEAST = 2;
const FOLDED_BEYOND = 8;
const FOLDED_LANES = 16; // more lanes are folded by coarser times

/**
 * What is at a time: the class, and the incidents that began close to it.
 * @param {Page} page
 * @param {number} at
 */
function wordsAt(page, at) {
  const stretch = page.timeline.stretches.find((one) => one.from <= at && at < one.until);
  if (stretch === undefined) return `${clockText(at)}: nothing was recorded`;
  const words = page.classes.find((one) => one.name === stretch.class)?.words ?? stretch.class;
  const length = durationText(stretch.until - stretch.from);
  const began = page.incidents.find((one) => Math.abs(one.at - stretch.from) < 1);
  return `${clockText(at)}: ${words} for ${length}${began ? `; ${visible(began.title)}` : ""}`;
}

/**
 * The time that the picture spans: less than half an hour if the job is younger.
 * @param {Timeline} timeline
 */
export function spanOf(timeline) {
  const first = Math.min(...timeline.lanes.flatMap((lane) => lane.parts.map((part) => part.from)));
  const from = Number.isFinite(first) ? Math.max(timeline.from, first) : timeline.from;
  return {from, until: Math.max(timeline.until, from + 1)};
}

/**
 * Numbers the times of the lanes' parts by groups: a time is in the group of the one before it if no
 * more than `gap` seconds lie between them, as those of hosts that join one after another.
 * @param {Timeline} timeline
 * @param {number} gap
 */
function groupsOfTimes(timeline, gap) {
  const times = timeline.lanes.flatMap((lane) =>
    lane.parts.flatMap((part) => [part.from, part.until])).sort((one, other) => one - other);
  /** @type {Map<number, number>} */
  const groups = new Map();
  let group = 0;
  times.forEach((time, index) => {
    if (index > 0 && time - times[index - 1] > gap) group += 1;
    groups.set(time, group);
  });
  return groups;
}

/**
 * The hosts that were there at the same times, but for `gap` seconds. One that is still there is
 * never with one that is gone.
 * @param {Timeline} timeline
 * @param {number} gap
 */
function alikeLanes(timeline, gap) {
  const groups = groupsOfTimes(timeline, gap);
  /** @type {Map<string, import("./data.js").Lane[]>} */
  const alike = new Map();
  for (const lane of timeline.lanes) {
    const key = JSON.stringify(lane.parts.map((part) => [part.is_seated, groups.get(part.from),
      part.until < timeline.until && groups.get(part.until)]));
    const same = alike.get(key);
    if (same === undefined) alike.set(key, [lane]);
    else same.push(lane);
  }
  return [...alike.values()];
}

/**
 * The lanes to draw. Of many hosts, those that were there at the same times share one lane, so a
 * host that was lost has one of its own, or shares one with those that were lost with it. Times are
 * the same if the picture hardly tells them apart, and if that makes many lanes, coarser ones.
 * @param {Timeline} timeline
 */
export function shownLanes(timeline) {
  if (timeline.lanes.length <= FOLDED_BEYOND) return timeline.lanes;
  const {from, until} = spanOf(timeline);
  let gap = (until - from) / 500;
  let alike = alikeLanes(timeline, gap);
  while (alike.length > FOLDED_LANES && gap < until - from) {
    gap *= 2;
    alike = alikeLanes(timeline, gap);
  }
  return alike.slice(0, LANES_MAX / LANE_LEAST).map((lanes) => ({
    node: lanes.length === 1 ? lanes[0].node : `${countText(lanes.length)} hosts`,
    parts: lanes[0].parts,
  }));
}

/** A round number of seconds so that at most ten marks fit. @param {number} length */
function markEvery(length) {
  const rounds = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
  return rounds.find((one) => length / one <= 10) ?? 600;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Page} page
 * @param {number | null} cursor a time
 */
function draw(canvas, page, cursor) {
  const {stretches} = page.timeline;
  const lanes = shownLanes(page.timeline);
  const laneHeight = Math.max(LANE_LEAST,
    Math.min(20, Math.floor(LANES_MAX / Math.max(1, lanes.length))));
  const width = canvas.clientWidth;
  const height = FLAGS + lanes.length * laneHeight + AXIS;
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  if (pen === null || width === 0) return;
  pen.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  const {from, until} = spanOf(page.timeline);
  const x = (/** @type {number} */ at) =>
    LABELS + ((at - from) / (until - from)) * (width - LABELS - 8);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  lanes.forEach((lane, index) => {
    const top = FLAGS + index * laneHeight;
    const bar = Math.max(1, laneHeight - (laneHeight > 6 ? 4 : 0));
    pen.fillStyle = colour("rest");
    pen.fillRect(LABELS, top + bar / 2, width - LABELS - 8, 1);
    for (const part of lane.parts) {
      const all = part.is_seated ? stretches : [{...part, class: "spare"}];
      // Before the first world nobody has a seat, and the wait for it is nobody's spare time.
      const waits = stretches.filter((one) => one.class === "waiting_for_nodes");
      for (const stretch of part.is_seated ? all : [...all, ...waits]) {
        const begin = x(Math.max(part.from, stretch.from));
        const end = x(Math.min(part.until, stretch.until));
        if (end < begin) continue;
        pen.fillStyle = colour(`c-${stretch.class}`);
        pen.fillRect(begin, top, Math.max(1, end - begin), bar);
      }
    }
    if (laneHeight < 12) return;
    pen.fillStyle = colour("quiet");
    const name = visible(lane.node);
    pen.fillText(name.length > 12 ? `${name.slice(0, 11)}…` : name, 0, top + bar / 2);
  });
  drawFlagsAndAxis(pen, page, {x, from, until, height, colour});
  if (cursor === null) return;
  pen.fillStyle = colour("ink");
  pen.fillRect(x(cursor), 0, 1, height - AXIS);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Page} page
 * @param {{x: (at: number) => number, from: number, until: number, height: number,
 *   colour: (name: string) => string}} picture
 */
function drawFlagsAndAxis(pen, page, {x, from, until, height, colour}) {
  pen.fillStyle = colour("bad");
  for (const incident of page.incidents) {
    if (incident.at < from || incident.at > until) continue;
    const at = x(incident.at);
    // The flag of a hang stands where it began, and has its length.
    const end = x(Math.min(until, incident.at + (incident.lasted_seconds ?? 0)));
    if (end > at) pen.fillRect(at, 2, end - at, 2);
    pen.beginPath();
    pen.moveTo(at - 6, 2);
    pen.lineTo(at + 6, 2);
    pen.lineTo(at, 14);
    pen.fill();
  }
  const every = markEvery(until - from);
  pen.fillStyle = colour("quiet");
  pen.textAlign = "center";
  for (let at = Math.ceil(from / every) * every; at <= until; at += every) {
    const place = x(at);
    if (place < LABELS + 24 || place > x(until) - 24) continue;
    pen.fillRect(place, height - AXIS, 1, 4);
    pen.fillText(every < 60 ? clockText(at) : clockText(at).slice(0, 5), place, height - 8);
  }
  pen.textAlign = "start";
}

/** @param {Page} page */
function timelineTable(page) {
  const words = new Map(page.classes.map((one) => [one.name, one.words]));
  const rows = page.timeline.stretches.map((one) => [
    clockText(one.from), durationText(one.until - one.from),
    element("span", {}, swatch(one.class), words.get(one.class) ?? one.class)]);
  const hosts = page.timeline.lanes.map((lane) => [
    element("bdi", {}, visible(lane.node)),
    lane.parts.map((part) => `${part.is_seated ? "seat" : "no seat"} from ${clockText(part.from)} to `
      + clockText(part.until)).join("; ")]);
  return element("details", {}, element("summary", {}, "The same as a table"),
    table("what the seated ranks did", ["from", "for", "class"], rows),
    table("when each host was there", ["host", "times"], hosts));
}

/** @param {Page} page */
export function timelineCard(page) {
  if (page.timeline.lanes.length === 0) {
    return card("timeline", "Last 30 minutes", element("p", {class: "quiet"},
      "No host has joined yet. The master waits for agents: start `paceline run --join …` there."));
  }
  const {from, until} = spanOf(page.timeline);
  const count = page.timeline.lanes.length;
  const hosts = count === 1 ? "1 host" : `${countText(count)} hosts`;
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", {tabindex: "0", role: "img",
    "aria-label": `lanes of ${hosts}; the arrow keys move through time`}));
  const said = element("p", {class: "quiet number", "aria-live": "polite"},
    `${clockText(from)} to ${clockText(until)}, ${hosts}. ▼ is an incident.`);
  /** @type {number | null} */
  let cursor = null;
  const moveTo = (/** @type {number} */ at) => {
    cursor = Math.min(until - 0.001, Math.max(from, at));
    said.textContent = wordsAt(page, cursor);
    draw(canvas, page, cursor);
  };
  const borders = page.timeline.stretches.map((one) => Math.max(from, one.from));
  canvas.addEventListener("keydown", (event) => {
    const now = cursor ?? until;
    if (event.key === "ArrowLeft") moveTo(borders.filter((at) => at < now).at(-1) ?? from);
    else if (event.key === "ArrowRight") moveTo(borders.find((at) => at > now) ?? until);
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("pointermove", (event) => {
    const part = (event.offsetX - LABELS) / (canvas.clientWidth - LABELS - 8);
    moveTo(from + part * (until - from));
  });
  const again = () => draw(canvas, page, cursor);
  new ResizeObserver(again).observe(canvas);
  document.addEventListener("viewshown", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  const length = until - from < 1700 ? durationText(until - from) : "30 minutes";
  return card("timeline", `Last ${length}`, canvas,
    element("div", {class: "below"}, said, timelineTable(page)));
}
