// The heat map drawn: a strip on the first screen, and a view with one row for each rank if there is
// room. Where ranks share a row, the row shows the slowest of them and never a mean.

import {excessOf, excessText, heatOfPage, mostOf, recentHeat, slowestRanks} from "./heat.js";
import {spanOf} from "./timeline.js";
import {card, clockText, countText, element, percentText, table, visible} from "./text.js";

/** @typedef {import("./data.js").Page} Page */
/** @typedef {import("./heat.js").Heat} Heat */

const STRIP = 32;       // height of all rows
const STRIP_ROWS = 16;
const MAP = 432;
const SLOWEST = 24;     // rows of the order by slowness
const MARGIN = 96;      // as the labels of the timeline, which has the same scale of time
const LEVELS = [0.05, 0.1, 0.2, 0.5];  // from here on a rank gets the next darker colour

/** @param {number} byte */
export function heatColour(byte) {
  const excess = excessOf(byte);
  if (excess === null) return "rest";
  return `h-${LEVELS.filter((level) => excess >= level - 1e-9).length}`;
}

/** @param {Page} page @param {number} rank */
export function hostOf(page, rank) {
  const seat = page.seats.find((one) => one.first_rank <= rank && rank < one.first_rank + one.ranks);
  return seat === undefined ? "" : visible(seat.node);
}

/** "rank 4,711 on node588" @param {Page} page @param {number} rank */
export function rankText(page, rank) {
  const host = hostOf(page, rank);
  return `rank ${rank}${host === "" ? "" : ` on ${host}`}`;
}

/** What is slow now, in a sentence. @param {Page} page @param {Heat} heat */
function slowestText(page, heat) {
  const {least, seconds} = recentHeat(heat);
  const rank = slowestRanks(heat, 1)[0];
  const excess = rank === undefined ? null : excessOf(least[rank]);
  if (excess === null) return "No rank has told its times yet.";
  const since = `in the last ${seconds} s`;
  if (excess < LEVELS[0]) {
    return `All ranks work about equally long: at most ${percentText(Math.max(0, excess))} longer `
      + `than their peers ${since}.`;
  }
  return `Slowest ${since}: ${rankText(page, rank)}, ${excessText(excess)} than its peers.`;
}

/** @param {Heat} heat */
function comparedText(heat) {
  if (heat.hasStages) return "Own work and data loading, against the median of the pipeline stage.";
  if (heat.isPiped) {
    return "Own work and data loading, against the median of all ranks: the stages of this pipeline "
      + "are not known, and their work differs by design.";
  }
  return "Own work and data loading, against the median of the other ranks.";
}

/**
 * The rows of a picture: which ranks each one shows.
 * @param {number[]} order
 * @param {number} most
 */
function rowsOf(order, most) {
  const count = Math.min(order.length, most);
  return Array.from({length: count}, (_, row) => order.slice(
    Math.floor((row * order.length) / count), Math.floor(((row + 1) * order.length) / count)));
}

/** The slowest of the ranks. @param {Uint8Array} ranks @param {number[]} row */
function slowestIn(ranks, row) {
  let byte = 0;
  let slowest = row[0];
  for (const rank of row) {
    if (rank < ranks.length && ranks[rank] > byte) {
      byte = ranks[rank];
      slowest = rank;
    }
  }
  return {byte, rank: slowest};
}

/** @param {HTMLCanvasElement} canvas @param {number} height */
export function penOf(canvas, height) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  if (pen === null || width === 0) return null;
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const style = getComputedStyle(canvas);
  return {pen, width,
    colour: (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim()};
}

/** Calls `again` now that the canvas has a size, and whenever its picture changes.
 * @param {HTMLCanvasElement} canvas @param {() => void} again */
export function drawAgain(canvas, again) {
  const cut = new AbortController();
  const draw = () => {
    if (canvas.isConnected) again();
    else cut.abort();
  };
  new ResizeObserver(again).observe(canvas);
  document.addEventListener("viewshown", draw, {signal: cut.signal});
  document.addEventListener("heatshown", draw, {signal: cut.signal});
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, {signal: cut.signal});
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Page} page
 * @param {Heat} heat
 * @param {{rows: number[][], height: number, labels: (row: number[]) => string}} picture
 */
function drawHeat(canvas, page, heat, {rows, height, labels}) {
  const made = penOf(canvas, height);
  if (made === null) return;
  const {pen, width, colour} = made;
  const {from, until} = spanOf(page.timeline);
  const x = (/** @type {number} */ at) =>
    MARGIN + ((Math.min(until, Math.max(from, at)) - from) / (until - from)) * (width - MARGIN - 8);
  const each = height / Math.max(1, rows.length);
  pen.fillStyle = colour("paper");
  pen.fillRect(MARGIN, 0, width - MARGIN - 8, height);
  const colours = new Map(["rest", "h-0", "h-1", "h-2", "h-3", "h-4"].map((name) => [name, colour(name)]));
  for (const column of heat.columns) {
    const begin = x(column.number * heat.seconds);
    const end = x((column.number + 1) * heat.seconds);
    if (end <= begin) continue;
    rows.forEach((row, index) => {
      const {byte} = slowestIn(column.ranks, row);
      if (byte === 0) return;
      pen.fillStyle = colours.get(heatColour(byte)) ?? "";
      pen.fillRect(begin, index * each, Math.max(1, end - begin + 0.3), Math.max(1, each));
    });
  }
  pen.fillStyle = colour("quiet");
  let free = 0;
  rows.forEach((row, index) => {
    if (index * each < free) return;
    free = index * each + 16;
    pen.fillText(labels(row), 0, Math.min(height - 6, index * each + Math.max(6, each / 2)));
  });
}

/** @param {number[]} row */
function rangeText(row) {
  return row.length === 1 ? `rank ${row[0]}` : `${row[0]} – ${row[row.length - 1]}`;
}

/**
 * A canvas that says what is under the pointer, or at the place to which the arrow keys moved.
 * @param {Page} page
 * @param {string} label
 * @param {() => {rows: number[][], height: number, labels: (row: number[]) => string}} picture
 */
function heatCanvas(page, label, picture) {
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", {tabindex: "0", role: "img",
    "aria-label": `${label}; the arrow keys move over rows and times`}));
  const said = element("p", {class: "quiet number", "aria-live": "polite"});
  const place = {row: 0, column: -1};
  const tell = () => {
    const heat = heatOfPage.now;
    const {rows} = picture();
    const row = rows[Math.min(rows.length - 1, Math.max(0, place.row))];
    const column = heat?.columns.at(place.column);
    if (heat === null || row === undefined || column === undefined) return;
    const {byte, rank} = slowestIn(column.ranks, row);
    const of = row.length === 1 ? "" : `slowest of ranks ${rangeText(row)}: `;
    said.textContent = `${clockText(column.number * heat.seconds)}, ${of}${rankText(page, rank)}: `
      + excessText(excessOf(byte));
  };
  canvas.addEventListener("keydown", (event) => {
    const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    const move = /** @type {Record<string, number[]>} */ (moves)[event.key];
    if (move === undefined) return;
    const {rows} = picture();
    const columns = heatOfPage.now?.columns.length ?? 0;
    place.row = Math.min(rows.length - 1, Math.max(0, place.row + move[0]));
    place.column = Math.min(-1, Math.max(-columns, place.column + move[1]));
    tell();
    event.preventDefault();
  });
  canvas.addEventListener("pointermove", (event) => {
    const {rows, height} = picture();
    const {from, until} = spanOf(page.timeline);
    const heat = heatOfPage.now;
    if (heat === null) return;
    place.row = Math.floor((event.offsetY / height) * rows.length);
    const part = (event.offsetX - MARGIN) / (canvas.clientWidth - MARGIN - 8);
    const number = Math.floor((from + part * (until - from)) / heat.seconds);
    const found = heat.columns.findIndex((one) => one.number >= number);
    place.column = found < 0 ? -1 : found - heat.columns.length;
    tell();
  });
  return {canvas, said, draw: () => {
    if (heatOfPage.now !== null) drawHeat(canvas, page, heatOfPage.now, picture());
  }};
}

/** @param {Page} page */
function allRanks(page) {
  return Array.from({length: heatOfPage.now?.columns.at(-1)?.ranks.length ?? page.status.world.size},
    (_, rank) => rank);
}

/** @param {Page} page */
function slowestTable(page) {
  const heat = heatOfPage.now;
  if (heat === null) return [];
  const {least} = recentHeat(heat);
  const rows = slowestRanks(heat, 20).filter((rank) => least[rank] !== 0).map((rank) => [
    String(rank), element("bdi", {}, hostOf(page, rank)), excessText(excessOf(least[rank])),
    excessText(excessOf(mostOf(heat, rank)))]);
  return [table("the slowest ranks now", ["rank", "host", "now", "most in the picture"], rows)];
}

function heatLegend() {
  const names = ["below 5 %", "5 %", "10 %", "20 %", "50 % or more"];
  return element("ul", {class: "scale", "aria-label": "longer than its peers"},
    ...names.map((name, level) => element("li", {},
      element("span", {class: `swatch h-${level}`, "aria-hidden": "true"}), name)));
}

/** The strip of the first screen; none for a page without a heat map. @param {Page} page */
export function heatCards(page) {
  if (heatOfPage.now === null || page.status.world.size === 0) return [];
  const picture = () => ({rows: rowsOf(allRanks(page), STRIP_ROWS), height: STRIP, labels: rangeText});
  const {canvas, said, draw} = heatCanvas(page, "heat strip of all ranks", picture);
  const slowest = element("b", {id: "slowest"});
  const tell = () => {
    if (heatOfPage.now !== null) slowest.textContent = slowestText(page, heatOfPage.now);
  };
  tell();
  drawAgain(canvas, () => {
    tell();
    draw();
  });
  const made = card("heat-strip", "Own work of the ranks", canvas);
  const head = element("div", {class: "strip-head"}, slowest, said,
    element("a", {href: "#heat"}, "all ranks"));
  made.querySelector("h2")?.replaceWith(head);
  head.prepend(element("h2", {id: "heat-strip-title"}, "Own work of the ranks"));
  return [made];
}

const heatOrder = {name: "by host"};

/** @param {Page} page */
function orders(page) {
  const heat = heatOfPage.now;
  /** @type {Record<string, () => {rows: number[][], height: number, labels: (row: number[]) => string}>} */
  const made = {
    "by host": () => ({rows: rowsOf(allRanks(page), MAP), height: MAP,
      labels: (row) => hostOf(page, row[0]).slice(0, 14) || rangeText(row)}),
    "by slowness": () => ({
      rows: (heat === null ? [] : slowestRanks(heatOfPage.now ?? heat, SLOWEST)).map((rank) => [rank]),
      height: MAP, labels: rangeText}),
  };
  const stages = page.topology?.stages;
  if (stages !== undefined) {
    made["by coordinate"] = () => ({rows: rowsOf(stages.flat(), MAP), height: MAP,
      labels: (row) => `stage ${stages.findIndex((one) => one.includes(row[0])) + 1}`});
  }
  return made;
}

/** @param {Page} page */
export function heatView(page) {
  const view = element("div", {id: "heat", class: "view"},
    element("h1", {class: "sentence"}, "Heat map"));
  const heat = heatOfPage.now;
  if (heat === null) {
    view.append(element("p", {class: "card"}, "A file has no heat map. While the job runs, ",
      element("code", {}, "paceline open"), " shows it."));
    return view;
  }
  const choices = orders(page);
  const chosen = () => (choices[heatOrder.name] ?? choices["by host"])();
  const {canvas, said, draw} = heatCanvas(page, "heat map of all ranks", chosen);
  const compared = element("p", {class: "quiet"});
  const slowest = element("p", {});
  const behind = element("div", {});
  const again = () => {
    if (view.hidden || heatOfPage.now === null) return;
    compared.textContent = `${comparedText(heatOfPage.now)} A row of several ranks shows the slowest.`;
    slowest.textContent = slowestText(page, heatOfPage.now);
    behind.replaceChildren(...slowestTable(page));
    draw();
  };
  const buttons = Object.keys(choices).map((name) => {
    const button = element("button", {type: "button", id: `order-${name.replaceAll(" ", "-")}`,
      "aria-pressed": String(name === heatOrder.name)}, name);
    button.addEventListener("click", () => {
      heatOrder.name = name;
      for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
      again();
    });
    return button;
  });
  drawAgain(canvas, again);
  view.append(element("section", {class: "card", "aria-label": "heat map"},
    slowest, element("div", {class: "choices"}, ...buttons, heatLegend()), canvas, said, compared),
  element("section", {class: "card", "aria-label": "slowest ranks"}, behind));
  if (page.status.world.size > 0) {
    view.append(element("p", {class: "quiet"}, `The last half hour of ${
      countText(page.status.world.size)} ranks, as this master knows it: a new master begins anew.`));
  }
  return view;
}
