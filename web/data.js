// The data of the page: docs/schemas/page.json.

/**
 * @typedef {{from: number, until: number, class: string}} Stretch
 * @typedef {{node: string, parts: {from: number, until: number, is_seated: boolean}[]}} Lane
 * @typedef {{from: number, until: number, stretches: Stretch[], lanes: Lane[]}} Timeline
 * @typedef {{name: string, words: string, hint: string}} TimeClass
 * @typedef {{seq: number, time: number, kind: string, sentence: string}} Event
 * @typedef {{
 *   seq: number, at: number, title: string, sentence: string, cost: string, now: string,
 *   next: string, verdict: string | null, traceback: string | null, text: string,
 *   rank_seconds: number | null, lasted_seconds: number | null, is_open: boolean, follow_ons: number, log: string[],
 *   evidence: Event[], outcome: Event[], tried: Event[],
 *   class: {name: string, role: string, advice: string} | null
 * }} Incident
 * @typedef {{
 *   is_over: boolean, rank_seconds: Record<string, number>, divided_rank_seconds: number,
 *   overcounted_rank_seconds: number, runtime: number, scheduling: number,
 *   steps_executed: number, steps_redone: number, mfu: number | null, mfu_unknown_because: string
 * }} Goodput
 * @typedef {{
 *   directory: string, memory_step: number | null, storage_step: number | null,
 *   writing_step: number | null, problem: string, restored: string,
 *   storage_age_seconds: number | null
 * }} Checkpoints
 * @typedef {{
 *   job: {
 *     phase: string, pending: string, exit_code: number | null, age_seconds: number,
 *     restarts: number, failures: number, step: number | null, steps_total: number | null,
 *     steps_per_second: number | null
 *   },
 *   world: {size: number, number: number}, checkpoints: Checkpoints | null,
 *   slow: {ranks: number[], sentence: string}[], hang: {ranks: number[], sentence: string} | null
 * }} Status
 * @typedef {{
 *   seq: number, job: string, name: string, made_at: number, data_at: number, is_live: boolean, state: string,
 *   sentence: string, troubles: string[], status: Status, goodput: Goodput, classes: TimeClass[],
 *   seats: {node: string, first_rank: number, ranks: number}[],
 *   topology: {tensor: number, stages: number[][]} | null, timeline: Timeline, incidents: Incident[]
 * }} Page
 */

/** @returns {Page} */
export function readData() {
  const element = document.getElementById("data");
  return JSON.parse(element?.textContent ?? "{}");
}
