// The page: its bar, and the view that the link's fragment names.

import {heatView} from "./heat_map.js";
import {incidentsView} from "./incidents.js";
import {overview} from "./overview.js";
import {ageOf, stateOf, stateShape, titleOf} from "./state.js";
import {countText, dateText, element, visible} from "./text.js";
import {topologyView} from "./topology.js";

/** @typedef {import("./data.js").Page} Page */

/** @param {Page} page */
function topBar(page) {
  const state = stateOf(page);
  const age = element("span", {id: "age", class: "number",
    title: `as of ${dateText(page.data_at)} (${new Date(page.data_at * 1000).toISOString()})`});
  const count = page.incidents.length;
  return element("header", {class: "top"},
    element("span", {class: `state ${state.kind}`}, stateShape(page), state.word),
    element("strong", {}, element("bdi", {}, visible(page.name || page.job))),
    element("bdi", {class: "quiet mono"}, visible(page.job)),
    element("nav", {"aria-label": "views"},
      element("a", {href: "#overview"}, "Overview"),
      element("a", {href: "#heat"}, "Heat map"),
      element("a", {href: "#topology"}, "Topology"),
      element("a", {href: "#incidents"}, `Incidents (${countText(count)})`)),
    age);
}

/**
 * Chooses the view of the fragment, which names it or an incident, as #incident-17. Returns what the
 * fragment names.
 */
function chooseView() {
  const asked = location.hash.slice(1);
  const views = [...document.querySelectorAll(".view")];
  const named = asked.startsWith("incident-") ? "incidents" : asked;
  const shown = views.some((view) => view.id === named) ? named : "overview";
  for (const view of views) /** @type {HTMLElement} */ (view).hidden = view.id !== shown;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${shown}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.dispatchEvent(new Event("viewshown"));
  return asked;
}

function showView() {
  const asked = chooseView();
  const target = asked.startsWith("incident-") ? document.getElementById(asked) : null;
  if (target === null) window.scrollTo(0, 0);
  else {
    target.scrollIntoView();
    target.focus();
  }
}

/** @param {Page} page */
export function tellAge(page) {
  const age = ageOf(page, Date.now() / 1000);
  const shown = document.getElementById("age");
  if (shown !== null) shown.textContent = age.text;
  document.body.classList.toggle("stale", age.isStale);
}

/**
 * Shows the page for the first time, or with new data in its place: the view, the place in it and
 * the focus stay.
 * @param {Page} page
 */
export function showPage(page) {
  const isFirst = document.querySelector("header.top") === null;
  const focused = document.activeElement?.id ?? "";
  const top = window.scrollY;
  document.querySelector("header.top")?.remove();
  document.querySelector("main")?.remove();
  document.title = titleOf(page);
  document.body.prepend(topBar(page));
  document.body.append(element("main", {}, overview(page), heatView(page), topologyView(page),
    incidentsView(page)));
  tellAge(page);
  if (isFirst) {
    window.addEventListener("hashchange", showView);
    showView();
    return;
  }
  chooseView();
  window.scrollTo(0, top);
  if (focused !== "") document.getElementById(focused)?.focus({preventScroll: true});
}
