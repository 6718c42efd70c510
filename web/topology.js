// The world as a grid: a row for each pipeline stage, a column for each replica, and the tensor ranks
// inside a cell. Without a plan of the ranks: a cell for each host, with its ranks inside.

import {excessOf, excessText, heatOfPage, recentHeat} from "./heat.js";
import {drawAgain, heatColour, penOf, rankText} from "./heat_map.js";
import {countText, element, foreign, table, visible} from "./text.js";

/** @typedef {import("./data.js").Page} Page */
/** @typedef {{name: string, cells: number[][]}} Line */

const GRID_LABELS = 96;
const HOSTS_A_LINE = 64;
const GRID_MOST = 560;  // height

/** @param {number[]} ranks @param {number} size */
function inGroupsOf(ranks, size) {
  return Array.from({length: Math.ceil(ranks.length / size)},
    (_, i) => ranks.slice(i * size, (i + 1) * size));
}

/** @param {Page} page @returns {Line[]} */
function linesOf(page) {
  const topology = page.topology;
  if (topology !== null) {
    return topology.stages.map((ranks, stage) => ({
      name: topology.stages.length === 1 ? "replicas" : `stage ${stage + 1}`,
      cells: inGroupsOf(ranks, topology.tensor)}));
  }
  const hosts = page.seats.map((seat) =>
    Array.from({length: seat.ranks}, (_, i) => seat.first_rank + i));
  /** @type {Line[]} */
  const lines = [];
  for (let i = 0; i < hosts.length; i += HOSTS_A_LINE) {
    const name = visible(page.seats[i].node);
    lines.push({name: name.length > 13 ? `${name.slice(0, 12)}…` : name,
      cells: hosts.slice(i, i + HOSTS_A_LINE)});
  }
  return lines;
}

/** Where each rank is drawn. @param {Line[]} lines @param {number} width */
function placesOf(lines, width) {
  const columns = Math.max(1, ...lines.map((line) => line.cells.length));
  const inside = Math.max(1, ...lines.flatMap((line) => line.cells.map((cell) => cell.length)));
  const cell = Math.min(48, (width - GRID_LABELS - 8) / columns);
  const gap = cell >= 6 ? 2 : 0;
  const high = Math.max(2, Math.min(16, Math.floor((GRID_MOST / Math.max(1, lines.length) - 8) / inside)));
  /** @type {{rank: number, x: number, y: number, w: number, h: number, line: number, column: number, within: number}[]} */
  const places = [];
  lines.forEach((line, row) => line.cells.forEach((ranks, column) => ranks.forEach((rank, within) =>
    places.push({rank, x: GRID_LABELS + column * cell, y: row * (inside * high + 8) + within * high,
      w: Math.max(1, cell - gap), h: high - (high >= 6 ? 1 : 0), line: row, column, within}))));
  return {places, height: lines.length * (inside * high + 8), each: inside * high + 8};
}

/** @param {Page} page @param {{rank: number, line: number, column: number, within: number}} place */
function placeText(page, place) {
  const heat = heatOfPage.now;
  const told = heat === null ? null : recentHeat(heat).least[place.rank];
  const pace = told === null || told === undefined ? "" : `, ${excessText(excessOf(told))}`;
  const trouble = page.status.hang?.ranks.includes(place.rank) ? ", named in the hang" : "";
  const where = page.topology === null ? ""
    : ` (stage ${place.line + 1}, replica ${place.column + 1}, tensor ${place.within + 1})`;
  return `${rankText(page, place.rank)}${where}${pace}${trouble}`;
}

/** @param {Page} page */
function shapeText(page) {
  const topology = page.topology;
  if (topology === null) {
    return "No plan of this world is known, so its ranks stand in the cells of their hosts.";
  }
  const replicas = Math.max(...topology.stages.map((one) => one.length / topology.tensor));
  return `${countText(topology.stages.length)} pipeline stage${topology.stages.length === 1 ? "" : "s"} × `
    + `${countText(replicas)} replicas × ${countText(topology.tensor)} tensor ranks, from the plan of `
    + "the ranks. A row is a stage, a column a replica.";
}

/** @param {Page} page */
function gridCard(page) {
  const lines = linesOf(page);
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", {tabindex: "0", role: "img",
    "aria-label": "grid of the ranks; the arrow keys move through them"}));
  const said = element("p", {class: "quiet number", "aria-live": "polite"},
    "A frame marks ranks that a hang or a slowdown names.");
  const named = new Set([...(page.status.hang?.ranks ?? []),
    ...page.status.slow.flatMap((one) => one.ranks)]);
  let current = -1;
  const draw = () => {
    const {places, height, each} = placesOf(lines, canvas.clientWidth);
    const made = penOf(canvas, height + 4);
    if (made === null) return;
    const {pen, colour} = made;
    const least = heatOfPage.now === null ? null : recentHeat(heatOfPage.now).least;
    const colours = new Map(["rest", "h-0", "h-1", "h-2", "h-3", "h-4"].map((one) => [one, colour(one)]));
    places.forEach((place, index) => {
      pen.fillStyle = colours.get(heatColour(least?.[place.rank] ?? 0)) ?? "";
      pen.fillRect(place.x, place.y, place.w, place.h);
      if (!named.has(place.rank) && index !== current) return;
      pen.strokeStyle = colour(index === current ? "link" : "bad");
      pen.lineWidth = 2;
      pen.strokeRect(place.x - 1, place.y - 1, place.w + 2, place.h + 2);
    });
    pen.fillStyle = colour("quiet");
    lines.forEach((line, row) => pen.fillText(line.name, 0, row * each + (each - 8) / 2));
  };
  const tell = (/** @type {number} */ index) => {
    const {places} = placesOf(lines, canvas.clientWidth);
    if (places[index] === undefined) return;
    current = index;
    said.textContent = placeText(page, places[index]);
    draw();
  };
  canvas.addEventListener("pointermove", (event) => {
    const {places} = placesOf(lines, canvas.clientWidth);
    tell(places.findIndex((one) => one.x <= event.offsetX && event.offsetX < one.x + one.w + 2
      && one.y <= event.offsetY && event.offsetY < one.y + one.h + 1));
  });
  canvas.addEventListener("keydown", (event) => {
    const move = /** @type {Record<string, number>} */ ({ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1,
      ArrowUp: -1})[event.key];
    if (move === undefined) return;
    tell(Math.max(0, current + move));
    event.preventDefault();
  });
  drawAgain(canvas, draw);
  const rows = lines.map((line) => [element("bdi", {}, line.name),
    line.cells.slice(0, 64).map((cell) => cell.length === 1 ? String(cell[0])
      : `${cell[0]}–${cell[cell.length - 1]}`).join(", ") + (line.cells.length > 64 ? " …" : "")]);
  return element("section", {class: "card", "aria-label": "ranks"}, canvas,
    element("div", {class: "below"}, said, element("details", {},
      element("summary", {}, "The same as a table"), table("ranks of each row", ["row", "ranks"], rows))));
}

/** @param {Page} page */
export function topologyView(page) {
  const view = element("div", {id: "topology", class: "view"},
    element("h1", {class: "sentence"}, "Topology"));
  if (page.seats.length === 0) {
    view.append(element("p", {class: "card none"}, "No world is formed yet."));
    return view;
  }
  view.append(element("p", {class: "quiet"}, shapeText(page)));
  if (page.status.hang) {
    view.append(foreign("p", page.status.hang.sentence, {class: "trouble"}));
  }
  view.append(gridCard(page));
  return view;
}
