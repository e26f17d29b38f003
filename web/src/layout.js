/**
 * Where nodes are drawn. Every node of the story has a place of its own for as long as it is there,
 * so that nothing jumps when time moves: a place is used again once its node is gone.
 */

import { shorten } from "./format.js";

/** @typedef {import("./model.js").StoryModel} StoryModel */

/**
 * @typedef {object} Group
 * @property {string} key
 * @property {string} title
 * @property {string} [brief] the title where there is less room
 * @property {number} reservation its number, or -1
 * @property {number} x
 * @property {number} y
 * @property {number} width
 * @property {number} height
 * @property {Slot[]} slots
 *
 * @typedef {object} Slot
 * @property {number} side in units of the picture
 * @property {number} x
 * @property {number} y
 * @property {number[]} nodes those that are drawn here, one after the other
 *
 * @typedef {object} Layout
 * @property {Group[]} groups
 * @property {Map<number, Slot>} slotOf by the number of a node
 * @property {number} width
 * @property {number} height
 */

/** @typedef {"capacity" | "pool" | "zone"} Grouping */

export const TITLE_HEIGHT = 24;
const GROUP_GAP = 14;
const PADDING = 8;
const MAX_UNIT = 118;
const MIN_UNIT = 3.2;
const CAPACITY_ORDER = ["reserved", "spot", "on-demand"];

/** @param {StoryModel} model @param {number} node @param {Grouping} grouping */
function groupOf(model, node, grouping) {
  const record = model.nodes[node];
  if (!record.pool) return { key: "~", title: "not of a NodePool", reservation: -1 };
  if (grouping === "pool") {
    return { key: record.pool, title: `NodePool ${record.pool}`, reservation: -1 };
  }
  if (grouping === "zone") {
    const zone = record.zone || "any zone";
    return { key: zone, title: zone, reservation: -1 };
  }
  const place = model.reservations.findIndex((each) => each.id === record.reservationID);
  if (record.reservationID && place >= 0) return reservationGroup(model, place);
  const order = CAPACITY_ORDER.indexOf(record.capacityType);
  const title = record.capacityType || "capacity type unknown";
  return { key: `1${order < 0 ? 9 : order}`, title, reservation: -1 };
}

/** @param {StoryModel} model @param {number} place */
function reservationGroup(model, place) {
  const { id, instanceType, zone } = model.reservations[place];
  const [title, brief] = [id, shorten(id, 12)].map((name) => [name, instanceType, zone].filter(Boolean).join(" · "));
  return { key: `0${id}`, title, brief, reservation: place };
}

/** The side of a node's box: its area is what it has of cpu.
 * @param {number} milli */
function sideOf(milli) {
  return Math.sqrt(Math.max(milli, 1000) / 4000);
}

/** What is known of the size of instance types: from nodes, else from the name.
 * @param {StoryModel} model */
export function cpuOfTypes(model) {
  const known = new Map();
  model.nodes.forEach((each, n) => {
    if (model.cpuOf[n] > 0) known.set(each.instanceType, model.cpuOf[n]);
  });
  return (/** @type {string} */ type) => known.get(type) ?? cpuByName(type);
}

/** @param {string} type */
function cpuByName(type) {
  const size = type.split(".")[1] ?? "";
  const many = /^(\d+)xlarge$/.exec(size);
  if (many) return Number(many[1]) * 4000;
  return { xlarge: 4000, large: 2000, medium: 1000 }[size] ?? 2000;
}

/** @param {StoryModel} model @param {Grouping} grouping */
function collectGroups(model, grouping) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  const ensure = (/** @type {{key: string, title: string, brief?: string, reservation: number}} */ wanted) => {
    const known = groups.get(wanted.key);
    if (known) return known;
    const made = { ...wanted, x: 0, y: 0, width: 0, height: 0, slots: /** @type {Slot[]} */ ([]) };
    groups.set(wanted.key, made);
    return made;
  };
  if (grouping === "capacity") {
    model.reservations.forEach((_, place) => ensure(reservationGroup(model, place)));
  }
  /** Slots that are free again, by group and size, with the moment from which they are. */
  const free = new Map();
  const order = [...model.nodes.keys()].sort((a, b) => model.launched[a] - model.launched[b] || a - b);
  for (const node of order) {
    const group = ensure(groupOf(model, node, grouping));
    const side = sideOf(model.cpuOf[node]);
    const key = `${group.key} ${side.toFixed(3)}`;
    const slots = free.get(key) ?? [];
    free.set(key, slots);
    const place = slots.findIndex((/** @type {{until: number}} */ each) => each.until <= model.launched[node]);
    const entry = place >= 0 ? slots[place] : { slot: newSlot(group, side), until: 0 };
    if (place < 0) slots.push(entry);
    entry.until = model.nodeEnded[node];
    entry.slot.nodes.push(node);
  }
  return [...groups.values()];
}

/** @param {Group} group @param {number} side @returns {Slot} */
function newSlot(group, side) {
  const slot = { side, x: 0, y: 0, nodes: [] };
  group.slots.push(slot);
  return slot;
}

/** Idle instances of a reservation need places beside those that nodes ever had.
 * @param {StoryModel} model @param {Group[]} groups */
function addIdleSlots(model, groups) {
  const cpuOf = cpuOfTypes(model);
  for (const group of groups) {
    if (group.reservation < 0) continue;
    const record = model.reservations[group.reservation];
    const most = Math.max(0, ...record.counts.map(([, , total]) => total));
    const side = sideOf(cpuOf(record.instanceType));
    while (group.slots.length < Math.min(most, 5000)) newSlot(group, side);
  }
}

/** Slots from left to right, row by row, within a width.
 * @param {Group} group @param {number} unit @param {number} width */
function placeSlots(group, unit, width) {
  const gap = Math.max(1, Math.min(7, unit * 0.09));
  let [x, y, row] = [PADDING, TITLE_HEIGHT + PADDING, 0];
  let widest = 0;
  for (const slot of group.slots) {
    const side = slot.side * unit;
    if (x > PADDING && x + side + PADDING > width) [x, y, row] = [PADDING, y + row + gap, 0];
    [slot.x, slot.y] = [x, y];
    x += side + gap;
    row = Math.max(row, side);
    widest = Math.max(widest, x - gap + PADDING);
  }
  group.width = widest;
  group.height = y + row + PADDING;
}

/** Groups from left to right, as wide as the picture at most. Returns the height.
 * @param {Group[]} groups @param {number} unit @param {number} width */
function placeGroups(groups, unit, width) {
  let [x, y, row] = [0, 0, 0];
  for (const group of groups) {
    placeSlots(group, unit, width);
    const title = Math.min(width, group.title.length * 7.4 + 110);
    const wanted = Math.min(width, Math.max(group.width, title));
    group.width = wanted;
    if (x > 0 && x + wanted > width) [x, y, row] = [0, y + row + GROUP_GAP, 0];
    [group.x, group.y] = [x, y];
    x += wanted + GROUP_GAP;
    row = Math.max(row, group.height);
  }
  return y + row;
}

/** As large as fits.
 * @param {StoryModel} model @param {Grouping} grouping @param {number} width
 * @param {number} height @returns {Layout} */
export function layOut(model, grouping, width, height) {
  const groups = collectGroups(model, grouping);
  addIdleSlots(model, groups);
  for (const group of groups) group.slots.sort((a, b) => b.side - a.side);
  groups.sort((a, b) => (a.key < b.key ? -1 : 1));
  let [low, high] = [MIN_UNIT, MAX_UNIT];
  for (let step = 0; step < 12; step += 1) {
    const middle = (low + high) / 2;
    if (placeGroups(groups, middle, width) <= height) low = middle;
    else high = middle;
  }
  const used = placeGroups(groups, low, width);
  const slotOf = new Map();
  for (const group of groups) {
    for (const slot of group.slots) {
      slot.x += group.x;
      slot.y += group.y;
      slot.side *= low;
      for (const node of slot.nodes) slotOf.set(node, slot);
    }
  }
  return { groups, slotOf, width, height: Math.max(used, 1) };
}

/** Rectangles whose areas are the weights, as square as can be (squarified treemap).
 * @param {number[]} weights descending @param {number} x @param {number} y
 * @param {number} width @param {number} height
 * @returns {{x: number, y: number, width: number, height: number}[]} */
export function squarify(weights, x, y, width, height) {
  const total = weights.reduce((sum, each) => sum + each, 0);
  const found = [];
  if (!(total > 0) || width <= 0 || height <= 0) return [];
  const scale = (width * height) / total;
  let index = 0;
  while (index < weights.length) {
    const short = Math.max(Math.min(width, height), 1e-6);
    let [end, sum, worst] = [index, 0, Infinity];
    while (end < weights.length) {
      const area = weights[end] * scale;
      const next = sum + area;
      const first = weights[index] * scale;
      const ratio = Math.max((short * short * first) / (next * next), (next * next) / (short * short * area));
      if (ratio > worst) break;
      [sum, worst, end] = [next, ratio, end + 1];
    }
    const thick = sum / short;
    let along = 0;
    for (; index < end; index += 1) {
      const long = (weights[index] * scale) / Math.max(thick, 1e-6);
      found.push(width >= height
        ? { x, y: y + along, width: thick, height: long }
        : { x: x + along, y, width: long, height: thick });
      along += long;
    }
    if (width >= height) [x, width] = [x + thick, width - thick];
    else [y, height] = [y + thick, height - thick];
  }
  return found;
}
