// Goodput as a ring and as a bar of the classes, each with its words and numbers.

import {card, drawing, durationText, element, percentText} from "./text.js";

/** @typedef {import("./data.js").Page} Page */

const RADIUS = 42;

/** @param {number} part */
function ring(part) {
  const around = 2 * Math.PI * RADIUS;
  const circle = {cx: "56", cy: "56", r: String(RADIUS), fill: "none", "stroke-width": "12"};
  const number = drawing("text", {x: "56", y: "62", "text-anchor": "middle", class: "ring-number"});
  number.textContent = percentText(part);
  return drawing("svg", {viewBox: "0 0 112 112", width: "112", height: "112", role: "img",
    "aria-label": `runtime goodput ${percentText(part)}`},
    drawing("circle", {...circle, class: "ring-rest"}),
    drawing("circle", {...circle, class: "ring-part", transform: "rotate(-90 56 56)",
      "stroke-dasharray": `${around * part} ${around}`}),
    number);
}

/**
 * The classes with time, in the ledger's order.
 * @param {Page} page
 */
export function classesOf(page) {
  const all = Object.values(page.goodput.rank_seconds).reduce((sum, one) => sum + one, 0);
  return page.classes
    .map((one) => ({...one, seconds: page.goodput.rank_seconds[one.name] ?? 0}))
    .filter((one) => one.seconds > 0)
    .map((one) => ({...one, share: one.seconds / all}));
}

/** @param {string} name of a class */
export function swatch(name) {
  return element("span", {class: `swatch c-${name}`, "aria-hidden": "true"});
}

/** @param {Page} page */
function classBar(page) {
  const bar = element("div", {class: "bar", "aria-hidden": "true"});
  for (const one of classesOf(page)) {
    const part = element("span", {class: `c-${one.name}`, title: one.words});
    part.style.flexGrow = String(one.share);
    bar.append(part);
  }
  return bar;
}

/** @param {Page} page */
function legend(page) {
  const list = element("ul", {class: "legend"});
  for (const one of classesOf(page)) {
    list.append(element("li", {title: one.hint}, swatch(one.name),
      element("span", {class: "words"}, one.words),
      element("span", {class: "number"}, percentText(one.share)),
      element("span", {class: "number quiet"}, durationText(one.seconds))));
  }
  return list;
}

/**
 * What the division of the steps by the ranks' phases does not show; "": nothing.
 * @param {Page} page
 */
export function phasesNote(page) {
  const goodput = page.goodput;
  const steps = goodput.rank_seconds.productive ?? 0;
  if (steps > 0 && goodput.divided_rank_seconds === 0) {
    return "The ranks told no phases: evaluation, checkpoints and waiting for data are in productive.";
  }
  const words = [];
  if (goodput.divided_rank_seconds > 0 && !goodput.rank_seconds.straggler_wait) {
    words.push("Where the host does not wait, as on GPUs, waiting for stragglers is in productive.");
  }
  const all = Object.values(goodput.rank_seconds).reduce((sum, one) => sum + one, 0);
  if (goodput.overcounted_rank_seconds >= 0.0005 * all && all > 0) {
    words.push(`The ranks told ${durationText(goodput.overcounted_rank_seconds)} beyond the time that `
      + "there was; it is in no class.");
  }
  return words.join(" ");
}

/** The model FLOPs utilisation, or why it is unknown. @param {Page} page */
function mfuNote(page) {
  const {mfu, mfu_unknown_because: why} = page.goodput;
  if (mfu === null || mfu === undefined) {
    return element("span", {}, `MFU is unknown: ${why ?? "the job's release does not tell it"}.`);
  }
  return element("span",
    {title: "the model's arithmetic of the steps that count, of the devices' peak"},
    `MFU ${percentText(mfu)}.`);
}

/** @param {Page} page */
export function goodputCard(page) {
  const goodput = page.goodput;
  if (classesOf(page).length === 0) {
    return card("goodput", "Goodput", element("p", {class: "quiet"},
      "No node has joined yet, so there is no time to account for."));
  }
  const words = element("div", {class: "goodput-words"}, classBar(page), legend(page),
    element("p", {class: "quiet"}, "Shares of all rank time. The ring leaves out spares and the time "
      + `before the first world. ${percentText(goodput.scheduling)} of the wanted seats were taken. `,
      mfuNote(page), ` ${phasesNote(page)}`));
  return card("goodput", "Goodput", element("div", {class: "goodput"}, ring(goodput.runtime), words));
}
