/** A story ready to be asked for any of its moments. */

import { formatHourly } from "./format.js";

/** @typedef {import("./report.js").Story} Story */
/** @typedef {import("./report.js").NodeRecord} NodeRecord */
/** @typedef {import("./report.js").PodRecord} PodRecord */
/** @typedef {import("./report.js").StoryEvent} StoryEvent */
/** @typedef {import("./report.js").VerdictRecord} VerdictRecord */

/**
 * @typedef {object} State The cluster at a moment; arrays have an entry for every node of the story.
 * @property {number} at
 * @property {number[]} present numbers of the nodes that are there
 * @property {Uint8Array} isPresent
 * @property {Float64Array} usedCpu
 * @property {Float64Array} usedMemory
 * @property {Uint32Array} podCount without pods that belong to their node
 * @property {number[]} pending numbers of the pods that wait
 * @property {number} running
 * @property {number} nodes managed ones
 * @property {number} cpu
 * @property {number} cpuTotal
 * @property {number} memory
 * @property {number} memoryTotal
 * @property {number} price
 * @property {boolean} isModelled whether a price in the sum is an estimate
 */

/** @typedef {{used: number, total: number, idle: number, idlePrice: number | null}} ReservationCount */

const NEVER = Infinity;

/** The last entry that begins at or before a moment.
 * @template {[number, ...unknown[]]} T @param {T[]} steps @param {number} at @returns {T | null} */
export function lastStep(steps, at) {
  for (let index = steps.length - 1; index >= 0; index -= 1) {
    if (steps[index][0] <= at) return steps[index];
  }
  return null;
}

/** @param {number[]} moments @param {number} at */
function flips(moments, at) {
  let count = 0;
  while (count < moments.length && moments[count] <= at) count += 1;
  return count % 2 === 1;
}

export class StoryModel {
  /** @param {Story} story @param {boolean} goesOn whether the end is only where it has got to */
  constructor(story, goesOn) {
    const { nodes, pods, reservations } = story.history;
    this.story = story;
    this.goesOn = goesOn;
    this.nodes = nodes;
    this.pods = pods;
    this.reservations = reservations;
    this.launched = Float64Array.from(nodes, (each) => each.launched);
    this.nodeEnded = Float64Array.from(nodes, (each) => each.ended ?? NEVER);
    this.cpuOf = Float64Array.from(nodes, (each) => each.allocatable.cpu ?? 0);
    this.memoryOf = Float64Array.from(nodes, (each) => each.allocatable.memory ?? 0);
    /** Nodes whose machine was ever silent. */
    this.unsteady = [...nodes.keys()].filter((n) => nodes[n].silent.length > 0);
    this.created = Float64Array.from(pods, (each) => each.created);
    this.bound = Float64Array.from(pods, (each) => each.bound ?? NEVER);
    this.podEnded = Float64Array.from(pods, (each) => each.ended ?? NEVER);
    this.started = Float64Array.from(pods, (each) => each.running ?? NEVER);
    this.stopped = Float64Array.from(pods, (each) => each.deleting ?? NEVER);
    this.nodeOf = Int32Array.from(pods, (each) => each.node ?? -1);
    this.isDaemon = Uint8Array.from(pods, (each) => (each.daemon ? 1 : 0));
    this.podCpu = Float64Array.from(pods, (each) => each.cpu);
    this.podMemory = Float64Array.from(pods, (each) => each.memory);
    /** Those that were ever on node n are at firstPod[n] to firstPod[n + 1] of podsByNode. */
    this.firstPod = new Uint32Array(nodes.length + 1);
    this.podsByNode = sortByNode(this.nodeOf, this.firstPod);
    this.eventsOf = indexEvents(story.events);
    /** @type {Map<number, VerdictRecord[]>} */
    this.verdictsOf = new Map();
    for (const each of story.verdicts) pushTo(this.verdictsOf, each.node, each);
    this.notesOf = new Map(story.notes.map((each) => [each.node, each]));
    /** @type {Map<number, import("./report.js").PendingExplanation>} */
    this.explanationOf = new Map();
    for (const each of story.pending) {
      for (const pod of each.pods) this.explanationOf.set(pod, each);
    }
    /** @type {State} */
    this.state = this.stateAt(story.opensAt ?? story.end);
  }

  /** @param {number} at @returns {State} */
  stateAt(at) {
    const count = this.nodes.length;
    /** @type {State} */
    const state = {
      at, present: [], isPresent: new Uint8Array(count), usedCpu: new Float64Array(count),
      usedMemory: new Float64Array(count), podCount: new Uint32Array(count), pending: [],
      running: 0, nodes: 0, cpu: 0, cpuTotal: 0, memory: 0, memoryTotal: 0, price: 0, isModelled: false,
    };
    for (let n = 0; n < count; n += 1) {
      if (this.launched[n] <= at && at < this.nodeEnded[n]) {
        state.present.push(n);
        state.isPresent[n] = 1;
      }
    }
    this.#placePods(state);
    this.#addUp(state);
    return state;
  }

  /** @param {State} state */
  #placePods(state) {
    const { at } = state;
    const silent = new Set(this.unsteady.filter((n) => flips(this.nodes[n].silent, at)));
    for (let p = 0; p < this.pods.length; p += 1) {
      if (this.created[p] > at || at >= this.podEnded[p]) continue;
      if (this.bound[p] > at) {
        if (!this.isDaemon[p]) state.pending.push(p);
        continue;
      }
      const node = this.nodeOf[p];
      if (node < 0) continue;
      state.usedCpu[node] += this.podCpu[p];
      state.usedMemory[node] += this.podMemory[p];
      if (this.isDaemon[p]) continue;
      state.podCount[node] += 1;
      if (this.started[p] <= at && at < this.stopped[p] && !silent.has(node)) state.running += 1;
    }
  }

  /** @param {State} state */
  #addUp(state) {
    for (const n of state.present) {
      if (!this.nodes[n].pool) continue;
      state.nodes += 1;
      state.cpu += state.usedCpu[n];
      state.cpuTotal += this.cpuOf[n];
      state.memory += state.usedMemory[n];
      state.memoryTotal += this.memoryOf[n];
      state.price += this.priceOf(n, state.at) ?? 0;
      state.isModelled ||= this.isModelled(n, state.at);
    }
  }

  /** Capacity type and reservation.
   * @param {number} node @param {number} at @returns {[string, string | null]} */
  capacityOf(node, at) {
    const record = this.nodes[node];
    const change = lastStep(record.capacityChanges, at);
    return change ? [change[1], change[2]] : [record.capacityType, record.reservationID];
  }

  /** @param {number} node @param {number} at */
  priceOf(node, at) {
    return lastStep(this.nodes[node].prices, at)?.[1] ?? null;
  }

  /** Whether the price of a node is an estimate.
   * @param {number} node @param {number} at */
  isModelled(node, at) {
    return flips(this.nodes[node].modelled, at);
  }

  /** @param {number} node @param {number} at */
  hourlyText(node, at) {
    return formatHourly(this.priceOf(node, at), this.isModelled(node, at));
  }

  /** Those on a node at the moment, larger ones first.
   * @param {number} node @param {number} at @returns {number[]} */
  podsOn(node, at) {
    const found = [];
    for (let i = this.firstPod[node]; i < this.firstPod[node + 1]; i += 1) {
      const pod = this.podsByNode[i];
      if (this.bound[pod] <= at && at < this.podEnded[pod]) found.push(pod);
    }
    return found.sort((a, b) => this.shareOf(b, node) - this.shareOf(a, node) || a - b);
  }

  /** The part of a node that a pod asks for, cpu and memory counted alike.
   * @param {number} pod @param {number} node */
  shareOf(pod, node) {
    const cpu = this.cpuOf[node] > 0 ? this.podCpu[pod] / this.cpuOf[node] : 0;
    const memory = this.memoryOf[node] > 0 ? this.podMemory[pod] / this.memoryOf[node] : 0;
    return (cpu + memory) / 2;
  }

  /** What a pod costs: its node's price, shared out by requests.
   * @param {number} pod @param {State} state @returns {number | null} */
  costOf(pod, state) {
    const node = this.nodeOf[pod];
    if (node < 0 || this.bound[pod] > state.at) return null;
    const price = this.priceOf(node, state.at);
    if (price === null) return null;
    const parts = [
      [this.podCpu[pod], state.usedCpu[node]],
      [this.podMemory[pod], state.usedMemory[node]],
    ].filter(([, total]) => total > 0);
    if (!parts.length) return price / Math.max(state.podCount[node], 1);
    return (price * parts.reduce((sum, [own, total]) => sum + own / total, 0)) / parts.length;
  }

  /** @param {number} node @param {number} at @returns {VerdictRecord | null} */
  verdictOf(node, at) {
    const known = this.verdictsOf.get(node) ?? [];
    return known.findLast((each) => each.at <= at) ?? null;
  }

  /** launching, joining, ready, not-ready or deleting.
   * @param {number} number @param {number} at */
  nodeState(number, at) {
    const node = this.nodes[number];
    if (node.deleting !== null && node.deleting <= at) return "deleting";
    if (node.joined === null || node.joined > at) return "launching";
    if (flips(node.ready, at)) return "ready";
    return node.ready.length && node.ready[0] <= at ? "not-ready" : "joining";
  }

  /** @param {number} number */
  nodeLabel(number) {
    const node = this.nodes[number];
    return node.name || node.claim || node.id;
  }

  /** Why a pod waits at a moment.
   * @param {number} pod @param {number} at */
  waitReason(pod, at) {
    const explained = this.explanationOf.get(pod);
    if (explained) return explained.reason;
    return lastStep(this.pods[pod].waits, at)?.[1] ?? "";
  }

  /** @param {number} number @param {number} at @returns {ReservationCount} */
  reservationAt(number, at) {
    const record = this.reservations[number];
    const [, used, total, idle] = lastStep(record.counts, at) ?? [0, 0, 0, 0];
    const price = lastStep(record.prices, at)?.[1] ?? null;
    return { used, total, idle, idlePrice: price === null ? null : price * idle };
  }

  /** What happened to an object while the node or pod was there.
   * @param {string[]} objects @param {number} from @param {number} until @returns {StoryEvent[]} */
  eventsAbout(objects, from, until) {
    const found = objects.flatMap((each) => this.eventsOf.get(each) ?? []);
    return [...new Set(found)]
      .filter((each) => each.at >= from && each.at <= until)
      .sort((a, b) => a.at - b.at);
  }
}

/** Numbers of pods in the order of their nodes; `first` gets where those of each node begin.
 * @param {Int32Array} nodeOf @param {Uint32Array} first */
function sortByNode(nodeOf, first) {
  for (const node of nodeOf) if (node >= 0) first[node + 1] += 1;
  for (let n = 1; n < first.length; n += 1) first[n] += first[n - 1];
  const next = first.slice();
  const sorted = new Uint32Array(first[first.length - 1]);
  nodeOf.forEach((node, pod) => {
    if (node >= 0) sorted[next[node]++] = pod;
  });
  return sorted;
}

/** By object; what a command takes is told of each of its nodes.
 * @param {StoryEvent[]} events */
function indexEvents(events) {
  /** @type {Map<string, StoryEvent[]>} */
  const found = new Map();
  for (const event of events) {
    const nodes = (event.candidates ?? []).flatMap((each) => [`NodeClaim/${each}`, `Node/${each}`]);
    for (const key of new Set([event.object, ...nodes])) if (key) pushTo(found, key, event);
  }
  return found;
}

/** @template K, V @param {Map<K, V[]>} map @param {K} key @param {V} value */
function pushTo(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
