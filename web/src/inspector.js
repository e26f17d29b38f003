/** What there is to say of a pod, of a node, or of the whole cluster at a moment. */

import { element, foreign } from "./dom.js";
import {
  formatClock, formatCount, formatCpu, formatHourly, formatMemory, formatMonthly, formatNumber, formatSeconds, formatShare,
} from "./format.js";
import { MARKED } from "./charts.js";

/** @typedef {import("./model.js").StoryModel} StoryModel */
/** @typedef {import("./model.js").State} State */
/** @typedef {import("./picture.js").Selection} Selection */
/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./report.js").StoryEvent} StoryEvent */

/**
 * @typedef {object} Actions
 * @property {(selection: Selection | null) => void} select
 * @property {(at: number) => void} seek
 */

const SHOWN_EVENTS = 12;
const SHOWN_PODS = 60;
const SHOWN_REASONS = 6;
const SLOTS_SHOWN = 120;
const SHOWN_REMOVALS = 3;
/** Where the parts of an answer begin: the fix, and what the nodes and NodePools that are there lack. */
const ANSWER_PARTS = /; (?=fix: |\d+ (?:existing node|other NodePool)s?: )/;

/** @param {StoryModel} model @param {number} at */
export function momentText(model, at) {
  const { story } = model;
  if (story.unit === "steps") return at === 0 ? "now" : `step ${at}`;
  return formatClock(story.start, at, story.end > 86400);
}

/** @param {string} title @param {...(Child | Child[])} children */
function section(title, ...children) {
  return element("section", {}, element("h3", {}, title), ...children);
}

/** @param {[string, Child | Child[]][]} rows */
function facts(rows) {
  const isEmpty = (/** @type {Child | Child[]} */ value) => value === null || value === false || value === "" || (value instanceof Node && !value.textContent);
  const shown = rows.filter(([, value]) => !isEmpty(value));
  return element("dl", { class: "facts" }, shown.flatMap(([name, value]) => [
    element("dt", {}, name), element("dd", {}, ...(Array.isArray(value) ? value : [value])),
  ]));
}

/** @param {string[]} lines */
function sentences(lines) {
  return element("ul", { class: "sentences" }, lines.map((line) => element("li", {}, foreign(line))));
}

/** @param {number} used @param {number} total @param {string} text @param {string} label */
export function bar(used, total, text, label) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  const inner = element("span", { class: "bar-fill" });
  inner.style.width = `${share * 100}%`;
  const outer = element("span", { class: "bar", role: "img", "aria-label": `${label} ${formatShare(used, total)}` }, inner);
  return element("span", { class: "bar-row" }, outer, element("span", {}, text));
}

/** @param {string} text @param {() => void} act */
function link(text, act) {
  return element("button", { type: "button", class: "link", click: act }, foreign(text));
}

/** @param {StoryModel} model @param {StoryEvent[]} events @param {Actions} actions */
function eventList(model, events, actions) {
  return element("ol", { class: "events" }, events.map((event) => element("li", {},
    element("button", { type: "button", class: "link time", click: () => actions.seek(event.at) }, momentText(model, event.at)),
    " ",
    foreign(eventText(event)),
  )));
}

/** What a Kubernetes Event is called goes before what it says.
 * @param {StoryEvent} event */
function eventText(event) {
  return event.what === "event" && event.reason ? `${event.reason}: ${event.message}` : event.message;
}

// The whole cluster

/** @param {StoryModel} model @param {State} state @param {Actions} actions */
export function overview(model, state, actions) {
  return [
    pendingSection(model, state, actions),
    reservationSection(model, state),
    decisionSection(model, state, actions),
    poolSection(model, state),
    findingSection(model),
    totalSection(model),
  ].filter(Boolean);
}

/** @param {StoryModel} model @param {State} state @param {Actions} actions */
function pendingSection(model, state, actions) {
  if (!state.pending.length) return section("Pending pods", element("p", { class: "muted" }, "No pending pods."));
  /** @type {Map<string, number[]>} */
  const byReason = new Map();
  for (const pod of state.pending) {
    const reason = model.waitReason(pod, state.at) || "not evaluated yet";
    byReason.set(reason, [...(byReason.get(reason) ?? []), pod]);
  }
  const groups = [...byReason].sort((a, b) => b[1].length - a[1].length);
  const rest = groups.length - SHOWN_REASONS;
  return section(`Pending pods: ${formatNumber(state.pending.length)}`,
    element("ul", { class: "cards" }, groups.slice(0, SHOWN_REASONS).map(([reason, pods]) => element("li", { class: "card pending" },
      element("p", {}, link(model.pods[pods[0]].name, () => actions.select({ kind: "pod", number: pods[0] })),
        pods.length > 1 ? ` and ${formatNumber(pods.length - 1)} more` : ""),
      reason.split(ANSWER_PARTS).map((part) => element("p", { class: part.startsWith("fix: ") ? "reason try" : "reason" }, foreign(part))),
      suggestion(model, pods[0]),
    ))),
    rest > 0 ? element("p", { class: "muted" }, `and ${rest} more reasons`) : null,
    onTheWay(model, state),
  );
}

/** Nodes that pods wait for: events do not say of every pod which one.
 * @param {StoryModel} model @param {State} state */
function onTheWay(model, state) {
  if (model.story.unit === "steps") return null;
  const states = state.present.map((node) => model.nodeState(node, state.at)).filter((each) => each === "launching" || each === "joining");
  const text = states.length ? `${formatCount(states.length, "node")} starting: ${[...new Set(states)].join(", ")}` : "no node is starting";
  return element("p", { class: "muted" }, text);
}

/** @param {StoryModel} model @param {number} pod */
function suggestion(model, pod) {
  const text = model.explanationOf.get(pod)?.suggestion;
  return text ? element("p", { class: "try" }, "fix: ", foreign(text)) : null;
}

/** @param {StoryModel} model @param {State} state */
function reservationSection(model, state) {
  if (!model.reservations.length) return null;
  const idle = model.reservations.reduce((sum, _, n) => sum + model.reservationAt(n, state.at).idle, 0);
  return section(`Capacity reservations: ${idle ? `${formatCount(idle, "instance")} idle` : "none idle"}`, element("ul", { class: "cards" }, model.reservations.map((record, n) => {
    const count = model.reservationAt(n, state.at);
    const idle = count.idle ? `${count.idle} idle${count.idlePrice === null ? "" : `, worth ${formatHourly(count.idlePrice, record.modelledPrice)} on demand`}` : "none idle";
    const text = record.unusable ? `cannot be used: ${record.unusable}` : count.total ? `${count.used} of ${count.total} used, ${idle}` : endedText(model, record, state.at);
    return element("li", { class: count.idle ? "card idle" : "card" },
      element("p", {}, foreign(record.id, "strong")),
      element("p", { class: "muted" }, foreign([record.instanceType, record.zone].filter(Boolean).join(" · "))),
      slots(count),
      element("p", { class: "reason" }, foreign(text)),
      wholeUse(model, record.id),
      record.notes.length ? sentences(record.notes.slice(0, 3)) : null,
    );
  })));
}

/** Of a reservation without instances.
 * @param {StoryModel} model @param {import("./report.js").ReservationRecord} record @param {number} at */
function endedText(model, record, at) {
  const end = record.counts.findLast(([since, , total], n) => since <= at && total === 0 && (record.counts[n - 1]?.[2] ?? 0) > 0);
  return end ? `ended at ${momentText(model, end[0])}` : "not active";
}

/** Its use over the whole simulation.
 * @param {StoryModel} model @param {string} id */
function wholeUse(model, id) {
  const totals = (model.story.figures.reservations ?? []).find((/** @type {{id: string}} */ each) => each.id === id);
  if (!totals || !(totals.slotHours > 0)) return null;
  const mark = model.reservations.find((each) => each.id === id)?.modelledPrice ? "~" : "";
  const idle = totals.idleCost >= 0.005 ? `, idle instances worth ${mark}$${totals.idleCost.toFixed(2)}` : ", never idle";
  return element("p", { class: "muted" }, `${model.goesOn ? "so far" : "over the whole run"}: ${formatShare(totals.usedHours, totals.slotHours)} used${idle}`);
}

/** @param {import("./model.js").ReservationCount} count */
function slots(count) {
  if (!count.total) return null;
  if (count.total > SLOTS_SHOWN) return bar(count.used, count.total, "", "used");
  const boxes = Array.from({ length: count.total }, (_, n) => element("span", {
    class: n < count.used ? "slot used" : n < count.total - count.idle ? "slot taken" : "slot free",
  }));
  return element("span", { class: "slots", role: "img", "aria-label": `${count.used} of ${count.total} used, ${count.idle} idle` }, boxes);
}

/** @param {StoryModel} model @param {State} state @param {Actions} actions */
function decisionSection(model, state, actions) {
  const { events, unit } = model.story;
  if (unit === "steps") {
    const commands = events.filter((event) => event.what === "disrupt");
    return commands.length ? section("Commands, in order", element("ol", { class: "events" }, commands.map((event) => decision(model, [event], actions)))) : null;
  }
  const until = events.filter((event) => event.at <= state.at);
  const ended = until.filter((event) => event.what === "disrupt" || event.what === "interrupt" || event.what === "launchFailure");
  const removals = groupAlike(ended).slice(-SHOWN_REMOVALS).reverse();
  const now = removals.filter(([event]) => event.at === state.at);
  const earlier = removals.slice(now.length);
  const marked = until.filter((event) => MARKED.has(event.what) && event.what !== "interrupt").slice(-4).reverse();
  return element("div", {},
    now.length ? section(`Removed at ${momentText(model, state.at)}, and why`, element("ol", { class: "events" }, now.map((group) => decision(model, group, actions)))) : null,
    earlier.length ? section(now.length ? "Earlier removals, and why" : "Latest removals, and why", element("ol", { class: "events" }, earlier.map((group) => decision(model, group, actions)))) : null,
    marked.length ? section("Latest events", eventList(model, marked, actions)) : null);
}

/** What happens to several nodes at one moment is told once.
 * @param {StoryEvent[]} events @returns {StoryEvent[][]} */
function groupAlike(events) {
  /** @type {Map<string, StoryEvent[]>} */
  const groups = new Map();
  for (const event of events) {
    const key = event.what === "disrupt" ? `${groups.size}` : `${event.at} ${event.what} ${event.message}`;
    groups.set(key, [...(groups.get(key) ?? []), event]);
  }
  return [...groups.values()];
}

/** @param {StoryModel} model @param {StoryEvent[]} group @param {Actions} actions */
function decision(model, group, actions) {
  const [event] = group;
  const names = event.candidates ?? group.map((each) => each.object.slice(each.object.indexOf("/") + 1));
  const nodes = names.slice(0, 2).map((name) => nodeByName(model, name, event.at));
  return element("li", {},
    element("button", { type: "button", class: "link time", click: () => actions.seek(event.at) }, momentText(model, event.at)), " ",
    nodes.flatMap((node, n) => [
      n ? ", " : "",
      node === null ? foreign(names[n]) : link(model.nodeLabel(node), () => {
        if (event.at > 0) actions.seek(Math.max(0, event.at - (model.story.unit === "steps" ? 1 : 0.001)));
        actions.select({ kind: "node", number: node });
      }),
    ]),
    names.length > 2 ? ` and ${names.length - 2} more` : "",
    element("p", { class: "reason" }, foreign(describeDecision(model, event, nodes[0] ?? null))),
  );
}

/** @param {StoryModel} model @param {StoryEvent} event @param {number | null} node */
function describeDecision(model, event, node) {
  if (event.what === "interrupt") return "spot interruption: EC2 reclaims the instance";
  if (event.what !== "disrupt") return event.message;
  const verdict = node === null ? null : model.verdictsOf.get(node)?.find((each) => each.verdict === "removed" || each.verdict === "replaced");
  const why = {
    Empty: "no pods were left on it except those of DaemonSets",
    Underutilized: event.replacements?.length ? "its pods fit on a cheaper node" : "its pods fit on other nodes",
    Drifted: "it no longer matches its NodePool or EC2NodeClass",
  }[event.reason ?? ""] ?? event.reason ?? "";
  const instead = event.replacements?.length ? `, ${event.replacements.join(", ")} launched instead` : "";
  const isModelled = event.modelledPrices ?? false;
  const money = event.savingsPerHour === null || event.savingsPerHour === undefined ? "" :
    event.savingsPerHour >= 0 ? `, saves ${formatHourly(event.savingsPerHour, isModelled)}` : `, costs ${formatHourly(-event.savingsPerHour, isModelled)} more`;
  if (model.story.unit === "steps" && verdict) return `${verdict.message}${money}`;
  return `${event.reason}: ${why}${instead}${money}`;
}

/** @param {StoryModel} model @param {string} name @param {number} at @returns {number | null} */
export function nodeByName(model, name, at) {
  let found = null;
  model.nodes.forEach((node, n) => {
    if ((node.claim === name || node.name === name || node.id === name) && model.launched[n] <= at) found = n;
  });
  return found;
}

/** @param {StoryModel} model @param {State} state */
function poolSection(model, state) {
  /** @type {Map<string, {nodes: number, cpu: number, total: number, price: number, isModelled: boolean}>} */
  const pools = new Map(model.story.pools.map((pool) => [pool.name, { nodes: 0, cpu: 0, total: 0, price: 0, isModelled: false }]));
  for (const n of state.present) {
    const { pool } = model.nodes[n];
    if (!pool) continue;
    const sums = pools.get(pool) ?? { nodes: 0, cpu: 0, total: 0, price: 0, isModelled: false };
    sums.nodes += 1;
    sums.cpu += state.usedCpu[n];
    sums.total += model.cpuOf[n];
    sums.price += model.priceOf(n, state.at) ?? 0;
    sums.isModelled ||= model.isModelled(n, state.at);
    pools.set(pool, sums);
  }
  if (!pools.size) return null;
  return section("NodePools", element("table", {},
    element("thead", {}, element("tr", {}, ...["NodePool", "nodes", "cpu", "price"].map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, [...pools].map(([name, sums]) => element("tr", {},
      element("th", { scope: "row" }, foreign(name)),
      element("td", {}, formatNumber(sums.nodes)),
      element("td", {}, formatShare(sums.cpu, sums.total)),
      element("td", {}, formatHourly(sums.price, sums.isModelled)),
    ))),
  ));
}

/** @param {StoryModel} model */
function findingSection(model) {
  const { findings, warnings } = model.story;
  if (!findings.length && !warnings.length) return null;
  return section(findings.length ? "Expectations" : "Notes",
    findings.length ? element("ul", { class: "sentences" }, findings.map((each) =>
      element("li", { class: each.held === false ? "failed" : each.held ? "held" : "" }, foreign(each.text)))) : null,
    warnings.length ? sentences(warnings) : null);
}

/** @param {StoryModel} model */
function totalSection(model) {
  if (!model.story.totals.length) return null;
  return section("Totals", facts(model.story.totals.map(([name, text]) => [name, foreign(text)])));
}

// One node

/** @param {StoryModel} model @param {State} state @param {number} number @param {Actions} actions */
export function nodeDetails(model, state, number, actions) {
  const node = model.nodes[number];
  const pricedAt = model.priceOf(number, state.at) === null ? model.story.end : state.at;
  const [price, isModelled] = [model.priceOf(number, pricedAt), model.isModelled(number, pricedAt)];
  const isHere = state.isPresent[number] === 1;
  const pods = model.podsOn(number, state.at);
  const own = pods.filter((pod) => !model.isDaemon[pod]);
  const note = model.notesOf.get(number);
  return [
    facts([
      ["costs", `${formatHourly(price, isModelled)} ${price === null ? "" : `· ${formatMonthly(price, isModelled)}`}`],
      ["NodePool", foreign(node.pool || "none")],
      ["type", foreign([node.instanceType, node.zone].filter(Boolean).join(" in "))],
      ["capacity", foreign(model.capacityOf(number, state.at).filter(Boolean).join(" · "))],
      ["state", isHere ? model.nodeState(number, state.at) : "does not exist at this time"],
      ["cpu", isHere ? bar(state.usedCpu[number], model.cpuOf[number], `${formatCpu(state.usedCpu[number])} of ${formatCpu(model.cpuOf[number])}`, "cpu") : null],
      ["memory", isHere ? bar(state.usedMemory[number], model.memoryOf[number], `${formatMemory(state.usedMemory[number])} of ${formatMemory(model.memoryOf[number])}`, "memory") : null],
      ["NodeClaim", foreign(node.claim)],
      ["launched", launchedText(model, number)],
      ["ended", node.ended === null ? null : [momentText(model, node.ended), node.endReason ? `: ${node.endReason}` : ""]],
    ]),
    section("Why it is there", sentences(note?.why.length ? note.why : [model.launched[number] > 0 ? `NodePool ${node.pool} launched it` : "it existed at the start"])),
    note?.elsewhere.length ? section("Why this instance type", sentences(note.elsewhere)) : null,
    verdictSection(model, state, number),
    section(`Pods on it: ${formatNumber(own.length)}`, podList(model, state, pods, actions)),
    eventSection(model, [`Node/${node.name || node.id}`, `NodeClaim/${node.claim || node.name}`, `Instance/${node.id}`], model.launched[number], node.ended ?? model.story.end, actions),
  ];
}

/** @param {StoryModel} model @param {number} number */
function launchedText(model, number) {
  const node = model.nodes[number];
  if (model.story.unit === "steps" || model.launched[number] === 0) {
    return node.created === null ? (model.launched[number] > 0 ? momentText(model, model.launched[number]) : null) : new Date(node.created * 1000).toISOString().slice(0, 19) + "Z";
  }
  const ready = node.ready.length ? `, ready after ${formatSeconds(node.ready[0] - node.launched)}` : "";
  return `${momentText(model, model.launched[number])}${ready}`;
}

/** @param {StoryModel} model @param {State} state @param {number} number */
function verdictSection(model, state, number) {
  const last = (model.verdictsOf.get(number) ?? []).findLast((each) => each.at <= state.at);
  const final = (model.verdictsOf.get(number) ?? []).find((each) => each.at > state.at && ["removed", "replaced", "interrupted"].includes(each.verdict));
  if (!last && !final) return section("What would free it", element("p", { class: "muted" }, "Disruption has not evaluated it yet."));
  const parts = [];
  if (last) {
    parts.push(element("p", {}, element("span", { class: `verdict ${last.verdict}` }, last.verdict), " ", foreign(last.message)));
    if (last.blockers.length > 1) parts.push(sentences(last.blockers.map((each) => each.message)));
    if (last.change) parts.push(element("p", { class: "try" }, "to free it: ", foreign(last.change), last.savingPerHour ? ` (saves ${formatHourly(last.savingPerHour, last.modelledPrices)})` : ""));
    else if (last.savingPerHour && last.verdict === "blocked") parts.push(element("p", {}, `without it, ${formatHourly(last.savingPerHour, last.modelledPrices)} would be saved`));
  }
  if (final) parts.push(element("p", { class: "muted" }, `later, at ${momentText(model, final.at)}: `, foreign(final.message)));
  return section("Verdict, and what would free it", ...parts);
}

/** @param {StoryModel} model @param {State} state @param {number[]} pods @param {Actions} actions */
function podList(model, state, pods, actions) {
  if (!pods.length) return element("p", { class: "muted" }, "none");
  const own = pods.filter((pod) => !model.isDaemon[pod]);
  const daemons = pods.length - own.length;
  return element("div", {}, element("ul", { class: "pods" }, own.slice(0, SHOWN_PODS).map((pod) => element("li", {},
    link(model.pods[pod].name, () => actions.select({ kind: "pod", number: pod })),
    element("span", { class: "muted" }, ` ${formatCpu(model.podCpu[pod])} cpu, ${formatMemory(model.podMemory[pod])}, ${formatHourly(model.costOf(pod, state), model.isModelled(model.nodeOf[pod], state.at))}`),
  ))), own.length > SHOWN_PODS ? element("p", { class: "muted" }, `and ${own.length - SHOWN_PODS} more`) : null,
  daemons ? element("p", { class: "muted" }, `and ${formatCount(daemons, "DaemonSet pod")}`) : null);
}

/** @param {StoryModel} model @param {string[]} objects @param {number} from @param {number} until @param {Actions} actions */
function eventSection(model, objects, from, until, actions) {
  const events = model.eventsAbout(objects, from, until);
  if (!events.length) return null;
  const rest = events.length - SHOWN_EVENTS;
  return section("Events", eventList(model, events.slice(-SHOWN_EVENTS), actions),
    rest > 0 ? element("p", { class: "muted" }, `and ${formatCount(rest, "earlier event")}`) : null);
}

// One pod

/** @param {StoryModel} model @param {State} state @param {number} number @param {Actions} actions */
export function podDetails(model, state, number, actions) {
  const pod = model.pods[number];
  const node = model.nodeOf[number];
  const isBound = model.bound[number] <= state.at && state.at < model.podEnded[number];
  const cost = isBound ? model.costOf(number, state) : null;
  return [
    facts([
      ["state", podState(model, state, number)],
      ["costs", cost === null ? (isBound ? "price unknown" : "nothing: it is pending") : `${formatHourly(cost, model.isModelled(node, state.at))}, its share of the node by requests`],
      ["node", node >= 0 ? link(model.nodeLabel(node), () => actions.select({ kind: "node", number: node })) : null],
      ["owner", foreign(pod.owner)],
      ["requests", `${formatCpu(pod.cpu)} cpu, ${formatMemory(pod.memory)} memory`],
      ["also", foreign(Object.entries(pod.other).map(([name, amount]) => `${amount} ${name}`).join(", "))],
    ]),
    section("Why it is there", sentences(whyThere(model, state, number))),
    section("Why not elsewhere", ...whyNotElsewhere(model, state, number)),
    suggestionSection(model, number),
    eventSection(model, [`Pod/${pod.name}`], model.created[number], pod.ended ?? model.story.end, actions),
  ];
}

/** @param {StoryModel} model @param {number} number */
function suggestionSection(model, number) {
  const text = model.explanationOf.get(number)?.suggestion;
  return text ? section("Fix", element("p", { class: "try" }, foreign(text))) : null;
}

/** @param {StoryModel} model @param {State} state @param {number} number */
function podState(model, state, number) {
  const { at } = state;
  if (at < model.created[number]) return "not created yet";
  if (at >= model.podEnded[number]) return model.pods[number].evicted ? "evicted" : "deleted";
  if (at < model.bound[number]) return "pending";
  if (model.stopped[number] <= at) return "terminating";
  return model.started[number] <= at ? "running" : "bound, starting";
}

/** @param {StoryModel} model @param {State} state @param {number} number */
function whyThere(model, state, number) {
  const pod = model.pods[number];
  if (pod.bound === null || pod.bound > state.at) return ["it is pending"];
  const node = model.nodeOf[number];
  const lines = [];
  const waited = pod.bound - pod.created;
  if (model.story.unit === "seconds") {
    lines.push(waited > 0.5 ? `it was bound at ${momentText(model, pod.bound)}, after ${formatSeconds(waited)} of waiting` : `it was bound at ${momentText(model, pod.bound)}, at once`);
    const nominated = (model.eventsOf.get(`Pod/${pod.name}`) ?? []).findLast((event) => event.reason === "Nominated" && event.at <= state.at);
    if (nominated) lines.push(`planned by the controllers: ${nominated.message}`);
  } else if (pod.bound > 0) {
    lines.push(model.launched[node] === pod.bound ? "the node is launched for it" : "the node has room for it");
  } else lines.push("it already runs there");
  if (node >= 0) lines.push(...(model.notesOf.get(node)?.why ?? []).map((text) => `the node: ${text}`));
  return lines;
}

/** @param {StoryModel} model @param {State} state @param {number} number */
function whyNotElsewhere(model, state, number) {
  const explained = model.explanationOf.get(number);
  if (explained) {
    return [element("p", {}, foreign(explained.reason)),
      explained.pools.length ? sentences(explained.pools.map((each) => `NodePool ${each.pool}: ${each.reason}`)) : null,
      explained.nodes.length ? sentences(explained.nodes) : null];
  }
  const lines = model.pods[number].waits.filter(([at]) => at <= state.at).slice(-3)
    .map(([at, reason]) => `${momentText(model, at)}: ${reason}`);
  const node = model.nodeOf[number];
  if (node >= 0 && model.bound[number] <= state.at) {
    lines.push(...(model.notesOf.get(node)?.elsewhere ?? []));
    lines.push(roomElsewhere(model, state, number));
  }
  return [sentences(lines.length ? lines : ["not evaluated yet"])];
}

/** @param {StoryModel} model @param {State} state @param {number} number */
function roomElsewhere(model, state, number) {
  const node = model.nodeOf[number];
  const others = state.present.filter((n) => n !== node && model.nodes[n].pool);
  const full = others.filter((n) => state.usedCpu[n] + model.podCpu[number] > model.cpuOf[n] || state.usedMemory[n] + model.podMemory[number] > model.memoryOf[n]);
  if (!others.length) return "there is no other node at this time";
  const rest = others.length - full.length;
  return `at this time ${full.length} of the other ${formatCount(others.length, "node")} ${full.length === 1 ? "lacks" : "lack"} free cpu or memory for its requests${rest ? `; ${rest} ${rest === 1 ? "has" : "have"} room` : ""}`;
}
