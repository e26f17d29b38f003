/** The story of `wain serve`: it goes on while the page shows it, and the page may let things happen. */

import { byId, element, replaceChildren } from "./dom.js";
import { formatSeconds } from "./format.js";

/** @typedef {import("./report.js").LiveInfo} LiveInfo */

/**
 * @typedef {object} ListChange
 * @property {string[]} path from the story to the list
 * @property {number} keep how many entries stay
 * @property {any[]} add what follows them
 *
 * @typedef {object} StoryChanges
 * @property {Record<string, Record<string, any>>} [records]
 * @property {ListChange[]} [lists]
 * @property {Record<string, any>} [fields]
 */

const SPEEDS = [1, 10, 60, 300, 900, 3600];
const RECONNECT_MILLISECONDS = 2000;

/** What `report/visual/story_changes.py` says of a story, carried out on its JSON.
 * @param {any} story @param {StoryChanges} changes */
export function applyChanges(story, changes) {
  for (const [kind, records] of Object.entries(changes.records ?? {})) {
    const list = (story.history[kind] ??= []);
    for (const [number, record] of Object.entries(records)) list[Number(number)] = record;
  }
  for (const { path, keep, add } of changes.lists ?? []) {
    let holder = story;
    for (const name of path.slice(0, -1)) holder = holder[name] ??= {};
    const list = (holder[path[path.length - 1]] ??= []);
    list.length = keep;
    for (const each of add) list.push(each);
  }
  Object.assign(story, changes.fields ?? {});
}

/** The connection: changes come in order, and after an interruption those that were missed. */
export class LiveFeed {
  /**
   * @param {any} raw the JSON of the report
   * @param {(raw: any, isNew: boolean) => void} onChange
   * @param {(isConnected: boolean) => void} onConnection
   */
  constructor(raw, onChange, onConnection) {
    this.raw = raw;
    this.onChange = onChange;
    this.onConnection = onConnection;
    this.#connect();
  }

  /** @returns {LiveInfo} */
  get live() {
    return this.raw.live;
  }

  #connect() {
    const source = new EventSource(`/stream?after=${encodeURIComponent(this.live.frame)}`);
    source.addEventListener("open", () => this.onConnection(true));
    source.addEventListener("error", () => {
      this.onConnection(false);
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.#connect(), RECONNECT_MILLISECONDS);
    });
    source.addEventListener("changes", (event) => {
      const { live, changes } = JSON.parse(/** @type {MessageEvent} */ (event).data);
      if (changes) applyChanges(this.raw.stories[0], changes);
      this.raw.live = live;
      this.onChange(this.raw, Boolean(changes));
    });
    source.addEventListener("story", (event) => {
      this.raw = JSON.parse(/** @type {MessageEvent} */ (event).data);
      this.onChange(this.raw, true);
    });
  }

  /** What the server says of it: a note, or why it did nothing.
   * @param {string} path @param {object} [body] @returns {Promise<{note?: string, error?: string}>} */
  async send(path, body = {}) {
    try {
      const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      return await answer.json();
    } catch {
      return { error: "the server does not answer" };
    }
  }
}

/** @param {number} speed */
export function speedText(speed) {
  return `${formatSeconds(speed)} per second`;
}

// What the page may let happen

/**
 * @typedef {object} EventForm how a verb of scenarios is filled in
 * @property {string} what the label of the choice
 * @property {(app: FormContext) => [string, string][]} choices values and what they are called
 * @property {string} amount the label of the number
 * @property {number} value its default
 * @property {(choice: string, amount: number, app: FormContext) => object} event
 *
 * @typedef {object} FormContext
 * @property {LiveInfo} live
 * @property {string[]} reservations
 * @property {string | null} start
 * @property {number} now
 */

/** @type {Record<string, EventForm>} */
const FORMS = {
  outage: {
    what: "zone", choices: ({ live }) => live.zones.map((zone) => [zone, zone]),
    amount: "minutes", value: 30,
    event: (zone, minutes) => ({ outage: { zone }, for: `${minutes}m` }),
  },
  reservation: {
    what: "reservation", choices: ({ reservations }) => reservations.map((id) => [id, id]),
    amount: "in minutes", value: 1,
    event: (id, minutes, { start, now }) => ({ reservation: { change: { id, endTime: endTime(start, now + minutes * 60) } } }),
  },
  scale: {
    what: "workload", choices: ({ live }) => live.workloads.map((each) => [JSON.stringify([each.kind, each.namespace, each.name]), `${each.namespace}/${each.name} (${each.replicas ?? 0})`]),
    amount: "replicas", value: 40,
    event: (chosen, replicas) => {
      const [kind, namespace, name] = JSON.parse(chosen);
      return { scale: { kind, namespace, name, replicas } };
    },
  },
  interrupt: {
    what: "zone", choices: ({ live }) => [["", "any"], ...live.zones.map((zone) => /** @type {[string, string]} */ ([zone, zone]))],
    amount: "percent", value: 50,
    event: (zone, percent) => ({ interrupt: { capacityType: "spot", ...(zone ? { zone } : {}), share: percent / 100 } }),
  },
  price: {
    what: "capacity type", choices: () => [["spot", "spot"], ["on-demand", "on-demand"]],
    amount: "times", value: 2.5,
    event: (capacityType, factor) => ({ price: { capacityType, factor } }),
  },
};

/** @param {string | null} start @param {number} seconds */
function endTime(start, seconds) {
  const begun = start === null ? 0 : Date.parse(start);
  return new Date(begun + Math.ceil(seconds) * 1000).toISOString().replace(".000", "");
}

/** As scenario files have it: flow style, quotes only where they are needed.
 * @param {unknown} value @returns {string} */
export function flowText(value) {
  if (typeof value === "string") return /^[A-Za-z][\w./-]*$/.test(value) && !/^(true|false|null|yes|no|on|off)$/i.test(value) ? value : /^\d+m$/.test(value) ? value : JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value);
  return `{${Object.entries(value).map(([name, each]) => `${name}: ${flowText(each)}`).join(", ")}}`;
}

/** Fills in an event, shows it as a scenario would have it, and sends that text. */
export class EventPanel {
  /** @param {() => FormContext} context @param {(text: string) => Promise<string>} inject */
  constructor(context, inject) {
    this.context = context;
    this.inject = inject;
    this.known = "";
    /** Whether somebody has changed the text: it is theirs then. */
    this.isEdited = false;
    byId("inject", HTMLElement).hidden = false;
    for (const id of ["what", "amount"]) byId(id, HTMLElement).addEventListener("input", () => this.#write());
    byId("verb", HTMLSelectElement).addEventListener("input", () => this.#choose());
    byId("happen", HTMLButtonElement).addEventListener("click", () => this.#send());
    const text = byId("event", HTMLInputElement);
    text.addEventListener("input", () => (this.isEdited = true));
    text.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#send();
    });
    this.#choose();
  }

  get #form() {
    return FORMS[byId("verb", HTMLSelectElement).value];
  }

  #choose() {
    byId("what-label", HTMLElement).textContent = this.#form.what;
    byId("amount-label", HTMLElement).textContent = this.#form.amount;
    byId("amount", HTMLInputElement).value = String(this.#form.value);
    this.isEdited = false;
    this.refresh();
  }

  /** Choices follow the cluster; what is chosen or written stays. */
  refresh() {
    const choices = this.#form.choices(this.context());
    const text = JSON.stringify(choices);
    if (text !== this.known) {
      this.known = text;
      const select = byId("what", HTMLSelectElement);
      const chosen = select.value;
      replaceChildren(select, choices.map(([value, name]) => element("option", { value }, name)));
      if (choices.some(([value]) => value === chosen)) select.value = chosen;
    }
    if (!this.isEdited) this.#write();
  }

  #write() {
    this.isEdited = false;
    const chosen = byId("what", HTMLSelectElement).value;
    const amount = Number(byId("amount", HTMLInputElement).value);
    const isEmpty = chosen === "" && this.#form !== FORMS.interrupt;
    const event = isEmpty ? "" : flowText(this.#form.event(chosen, amount, this.context()));
    byId("event", HTMLInputElement).value = event;
  }

  async #send() {
    const text = byId("event", HTMLInputElement).value.trim();
    const output = byId("injected", HTMLElement);
    output.classList.remove("failed");
    const problem = await this.inject(text);
    output.classList.toggle("failed", problem !== "");
    output.textContent = problem || `happened: ${text}`;
  }
}

/** The speeds to choose from, the current one among them.
 * @param {number} speed */
export function speedOptions(speed) {
  const all = [...new Set([...SPEEDS, speed])].sort((a, b) => a - b);
  return all.map((each) => element("option", { value: String(each), selected: each === speed }, speedText(each)));
}
