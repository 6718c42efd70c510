// What the master of the job sends: a session for the link's code, the data, and the feed of events.

const SESSION = "paceline-session";

/** The master answers, and says no. `isFinal`: asking again does not help. */
export class Refused extends Error {
  /** @param {string} message @param {boolean} isFinal */
  constructor(message, isFinal) {
    super(message);
    this.isFinal = isFinal;
  }
}

/**
 * Trades the code in the link's fragment for a session, and takes it out of the address. The session
 * ends with this tab of the browser.
 */
export async function enter() {
  const code = /^#code=([0-9a-f]{64})$/.exec(location.hash)?.[1];
  if (code !== undefined) {
    const answer = await fetch("/api/session", {method: "POST", body: code});
    history.replaceState(null, "", location.pathname);
    if (answer.ok) sessionStorage.setItem(SESSION, (await answer.json()).session);
    else if (sessionStorage.getItem(SESSION) === null) throw new Refused(await answer.text(), true);
  }
  if (sessionStorage.getItem(SESSION) === null) {
    throw new Refused("This page needs a link: `paceline open` prints one.", true);
  }
}

/** @param {string} path @param {Record<string, string>} headers @param {AbortSignal} signal */
async function ask(path, headers, signal) {
  const session = sessionStorage.getItem(SESSION) ?? "";
  const answer = await fetch(path, {
    headers: {...headers, Authorization: `Bearer ${session}`}, cache: "no-store", signal});
  if (answer.ok) return answer;
  if (answer.status === 401) {
    sessionStorage.removeItem(SESSION);
    throw new Refused("The master does not know this page's session: another job may have its "
      + "address now. `paceline open` prints a new link.", true);
  }
  throw new Refused(await answer.text(), false);
}

/** @param {AbortSignal} signal @returns {Promise<import("./data.js").Page>} */
export async function askForData(signal) {
  return (await ask("/api/page", {}, signal)).json();
}

/** The heat map's changes since a version. @param {bigint} known @param {AbortSignal} signal */
export async function askForHeat(known, signal) {
  return (await ask("/api/heat", {"Last-Event-ID": String(known)}, signal)).arrayBuffer();
}

/** @param {string} text one server-sent event */
function parsed(text) {
  const event = {kind: "", data: ""};
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) event.kind = line.slice(7);
    if (line.startsWith("data: ")) event.data += line.slice(6);
  }
  return event;
}

/**
 * Reads the feed until it breaks off.
 * @param {number} seq the newest event that is known
 * @param {AbortSignal} signal
 * @param {(kind: string, data: string) => void} take also called for a comment, with ""
 */
export async function readFeed(seq, signal, take) {
  const answer = await ask("/api/feed", {"Last-Event-ID": String(seq)}, signal);
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    text += decoder.decode(value, {stream: true});
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = parsed(text.slice(0, end));
      text = text.slice(end + 2);
      take(event.kind, event.data);
    }
  }
}
