/** The page: one moment, shown by a header, a picture, charts and details, and ways to change it. */

import { readReport } from "./report.js";
import { StoryModel } from "./model.js";
import { Picture } from "./picture.js";
import { Charts } from "./charts.js";
import { readTheme } from "./theme.js";
import { byId, element, foreign, replaceChildren } from "./dom.js";
import { EventPanel, LiveFeed, speedOptions, speedText } from "./live.js";
import { bar, momentText, nodeDetails, overview, podDetails } from "./inspector.js";
import {
  formatClock, formatCount, formatCpu, formatHourly, formatMemory, formatMonthly, formatNumber, formatSeconds, formatShare, shorten,
} from "./format.js";

/** @typedef {import("./picture.js").Selection} Selection */

const PLAY_SECONDS = 24; // in which a whole story is played at speed 1
const PAGE_ROWS = 50;
const STRIP_PODS = 80;

class App {
  /** @param {import("./report.js").Report} report */
  constructor(report) {
    this.report = report;
    this.models = report.stories.map((story) => new StoryModel(story, report.live !== null));
    this.end = Math.max(...this.models.map((each) => each.story.end));
    this.isTime = report.stories[0].unit === "seconds";
    this.at = Math.min(this.models[0].story.opensAt ?? this.end, this.end);
    this.theme = readTheme();
    /** @type {{story: number, selection: Selection} | null} */
    this.selected = null;
    this.query = "";
    this.listed = 0; // page of the table
    this.isPlaying = false;
    /** Whether the page stays at the latest moment of a story that goes on. */
    this.isFollowing = report.live !== null;
    this.isConnected = true;
    this.moments = this.#collectMoments();
    this.hasPending = this.#everPending();
    this.#build();
    this.charts = new Charts(byId("charts", HTMLCanvasElement), (at) => this.seek(at));
    this.charts.setStories(this.models, this.horizon);
    this.#listen();
    this.prepare();
  }

  #everPending() {
    const [model] = this.models;
    return model.pods.some((pod, p) => !pod.daemon && model.bound[p] > pod.created);
  }

  /** Where the time line ends: a story that goes on has got somewhere only. */
  get horizon() {
    return Math.max(this.end, this.report.live?.until ?? 0);
  }

  // A story that goes on

  /** @param {any} raw the JSON of the report */
  connect(raw) {
    if (!this.report.live) return;
    document.body.classList.add("live");
    /** @type {LiveFeed | null} */
    this.feed = new LiveFeed(raw, (json, isNew) => this.#update(json, isNew), (isConnected) => {
      this.isConnected = isConnected;
      this.#showLive();
    });
    byId("latest", HTMLButtonElement).addEventListener("click", () => this.seek(this.end));
    if (this.report.live.mode === "scenario") this.#addControls(this.feed);
    this.#showLive();
  }

  /** @param {LiveFeed} feed */
  #addControls(feed) {
    const speed = byId("speed", HTMLSelectElement);
    replaceChildren(speed, speedOptions(feed.live.speed));
    speed.addEventListener("change", () => {
      if (this.report.live?.isPlaying) feed.send("/play", { speed: Number(speed.value) });
      this.#showLive();
    });
    for (const id of ["step", "latest"]) byId(id, HTMLButtonElement).hidden = false;
    byId("step", HTMLButtonElement).addEventListener("click", () => this.#stepLive());
    this.panel = new EventPanel(
      () => ({
        live: /** @type {import("./report.js").LiveInfo} */ (this.report.live), now: this.end,
        reservations: this.models[0].reservations.filter((_, n) => this.models[0].reservationAt(n, this.end).total).map((each) => each.id),
        start: this.models[0].story.start,
      }),
      async (event) => {
        const { note, error } = await feed.send("/inject", { event });
        return error || note || "";
      },
    );
    this.charts?.setStories(this.models, this.horizon);
    this.prepare();
  }

  /** As far as a second of playing goes. */
  #stepLive() {
    this.isFollowing = true;
    this.feed?.send("/step", { seconds: Number(byId("speed", HTMLSelectElement).value) });
  }

  /** @param {any} raw @param {boolean} isNew */
  #update(raw, isNew) {
    this.report = readReport(raw);
    if (isNew) {
      this.models = this.report.stories.map((story) => new StoryModel(story, true));
      this.end = this.models[0].story.end;
      this.moments = this.#collectMoments();
      this.hasPending = this.#everPending();
      this.pictures?.forEach((picture, n) => (picture.model = this.models[n]));
      if (this.selected && !this.#isKnown(this.selected.selection)) this.select(0, null);
      this.charts?.setStories(this.models, this.horizon);
      if (this.isFollowing) this.at = this.end;
      this.#showAnswer();
      this.prepare();
    }
    this.panel?.refresh();
    this.#showLive();
  }

  /** Numbers of nodes and pods are those of one scenario; of a cluster they are another one's later.
   * @param {Selection} selection */
  #isKnown({ kind, number }) {
    if (this.report.live?.mode === "cluster") return false;
    return number < (kind === "node" ? this.models[0].nodes : this.models[0].pods).length;
  }

  #showLive() {
    const { live } = this.report;
    if (!live) return;
    const state = byId("live-state", HTMLElement);
    const isProblem = !this.isConnected || live.problem !== "";
    state.classList.toggle("failed", isProblem);
    const text = this.#liveText(live);
    if (state.textContent !== text) state.textContent = text;
    if (live.mode === "cluster") return;
    this.#showPlaying(live.isPlaying);
    byId("step", HTMLButtonElement).textContent = `Step ${formatSeconds(Number(byId("speed", HTMLSelectElement).value))}`;
    byId("latest", HTMLButtonElement).disabled = this.isFollowing;
  }

  /** @param {import("./report.js").LiveInfo} live */
  #liveText(live) {
    if (!this.isConnected) return "· disconnected, reconnecting";
    if (live.problem) return `· ${shorten(live.problem, 200)}`;
    if (live.mode === "cluster") return "· live, read-only";
    if (live.isOver) return "· finished";
    return live.isPlaying ? `· playing ${speedText(live.speed)}` : "· paused";
  }

  /** The moments at which something happens that is worth stopping at. */
  #collectMoments() {
    const found = this.models.flatMap((model) => [
      ...model.story.events.filter((event) => !["event", "evict"].includes(event.what)).map((event) => event.at),
      ...model.nodes.map((node) => node.launched), 0, model.story.end,
    ]);
    return [...new Set(found)].sort((a, b) => a - b);
  }

  // The page

  #build() {
    const { report, models } = this;
    const names = report.comparison?.names ?? models.map((model) => model.story.name);
    document.title = `${shorten(names[0], 60)}: wain`;
    this.#showAnswer();
    const kinds = { Plan: "wain plan", Consolidation: "wain consolidate", Simulation: "wain simulate", Cluster: "wain top" };
    byId("kind", HTMLElement).textContent = report.live ? "wain serve" : kinds[models[0].story.kind];
    document.body.classList.toggle("compare", models.length > 1);
    const pictures = byId("pictures", HTMLElement);
    this.pictures = models.map((model, n) => {
      const canvas = element("canvas", {
        class: "picture", tabindex: "0", role: "application",
        "aria-describedby": "picture-help", id: `picture-${n}`,
      });
      const parts = [models.length > 1 ? element("h2", {}, foreign(names[n])) : null, canvas];
      pictures.append(element("div", { class: "picture-frame" }, ...parts));
      return new Picture(canvas, model, (selection) => this.select(n, selection));
    });
    byId("moment", HTMLInputElement).step = this.isTime ? "any" : "1";
    if (this.end <= 0 && report.live?.mode !== "scenario") byId("timeline", HTMLElement).hidden = true;
    document.body.classList.toggle("steps", !this.isTime);
    if (models[0].story.kind === "Consolidation") byId("colouring", HTMLSelectElement).value = "verdict";
    if (report.comparison) this.#buildComparison(report.comparison);
    byId("version", HTMLElement).textContent = report.version ? `wain ${report.version}` : "wain";
  }

  #showAnswer() {
    replaceChildren(byId("answer", HTMLElement), foreign(this.report.comparison?.answer ?? this.models[0].story.answer));
    byId("price-note", HTMLElement).hidden = !this.models.some((model) => model.nodes.some((node) => node.modelled.length));
  }

  /** @param {import("./report.js").Comparison} comparison */
  #buildComparison(comparison) {
    const cells = (/** @type {string[]} */ row, /** @type {"th" | "td"} */ tag) => row.map((text, n) =>
      element(n ? tag : "th", { scope: n ? (tag === "th" ? "col" : null) : (tag === "th" ? "col" : "row") }, foreign(text)));
    const holder = byId("comparison", HTMLElement);
    holder.hidden = false;
    replaceChildren(byId("comparison-table", HTMLElement), element("table", {},
      element("thead", {}, element("tr", {}, ...cells(["total", ...comparison.names, "difference"], "th"))),
      element("tbody", {}, comparison.rows.map((row) => element("tr", {}, ...cells(row, "td")))),
    ));
  }

  /** Sizes and colours; to be called when the window or the preference changes. */
  prepare() {
    this.theme = readTheme();
    this.charts?.prepare(this.theme);
    this.#fitHeight();
    for (const picture of this.pictures ?? []) {
      picture.grouping = /** @type {import("./layout.js").Grouping} */ (byId("grouping", HTMLSelectElement).value);
      picture.colouring = /** @type {import("./picture.js").Colouring} */ (byId("colouring", HTMLSelectElement).value);
      picture.prepare(this.theme);
    }
    this.#showLegend();
    this.show();
  }

  /** The picture gets what header and time line leave of the window. */
  #fitHeight() {
    const taken = [document.querySelector("header"), byId("timeline", HTMLElement)].reduce((sum, each) => sum + (each instanceof HTMLElement ? each.offsetHeight : 0), 0);
    document.documentElement.style.setProperty("--taken", `${taken + 32}px`);
  }

  #showLegend() {
    const entries = new Map((this.pictures ?? []).flatMap((picture) => picture.legend()));
    const shown = [...entries].slice(0, 14);
    replaceChildren(byId("legend", HTMLElement), shown.map(([name, colour]) => {
      const patch = element("span", { class: "patch" });
      patch.style.background = colour;
      return element("li", {}, patch, foreign(shorten(name, 40)));
    }), this.models.some((model) => model.reservations.length) ? element("li", {}, element("span", { class: "patch idle-patch" }), "idle reserved instance") : null,
    element("li", {}, element("span", { class: "patch removed-patch" }), "being removed, or not ready"),
    entries.size > shown.length ? element("li", {}, `and ${entries.size - shown.length} more`) : null);
  }

  // One moment

  /** @param {number} at */
  seek(at) {
    this.at = Math.min(Math.max(at, 0), this.end);
    this.isFollowing = this.at >= this.end;
    this.show();
    this.#showLive();
  }

  /** Draws the moment; nothing else is drawn anywhere. */
  show() {
    performance.mark("wain-frame");
    for (const model of this.models) model.state = model.stateAt(Math.min(this.at, model.story.end));
    for (const picture of this.pictures ?? []) picture.draw(picture.model.state);
    this.charts?.draw(this.at);
    this.#showHeader();
    performance.measure("wain-draw", "wain-frame");
    this.#scheduleDetails();
  }

  /** Details follow when the moment stays for a little: they are text, and slower than a frame. */
  #scheduleDetails() {
    if (this.detailsTimer) return;
    this.detailsTimer = setTimeout(() => {
      this.detailsTimer = 0;
      this.#showDetails();
    }, this.isPlaying ? 200 : 60);
  }

  #showHeader() {
    const text = this.#momentLine();
    byId("moment-text", HTMLElement).textContent = text;
    const slider = byId("moment", HTMLInputElement);
    slider.max = String(this.horizon);
    slider.value = String(this.at);
    slider.setAttribute("aria-valuetext", text);
    replaceChildren(byId("figures", HTMLElement), this.models.map((model, n) => this.#figures(model, n)));
  }

  #momentLine() {
    const model = this.models[0];
    if (this.isTime) {
      const since = formatSeconds(this.at);
      if (model.story.start === null) return since;
      const clock = `${formatClock(model.story.start, this.at, true)} UTC`;
      return this.report.live ? `${clock} · ${since}` : `${clock}, ${since} after the start`;
    }
    if (this.at === 0) return model.story.kind === "Plan" ? "now" : "now, before any command";
    if (model.story.kind === "Plan") return "with the planned nodes";
    const command = model.story.events.find((event) => event.at === this.at);
    return `after command ${this.at} of ${this.end}: ${shorten(command?.message ?? "", 120)}`;
  }

  /** @param {StoryModel} model @param {number} n */
  #figures(model, n) {
    const { state } = model;
    const figure = (/** @type {string} */ name, /** @type {string} */ value, /** @type {Node | null} */ more, /** @type {string} */ id) =>
      element("div", { class: "figure" }, element("dt", {}, name), element("dd", { "data-figure": id }, value, more));
    const wait = state.pending.length;
    const name = this.report.comparison?.names[n];
    return element("dl", { class: "figures" },
      name ? element("div", { class: "figure run" }, element("dt", {}, n ? "dashed" : "solid"), element("dd", {}, foreign(shorten(name, 34)))) : null,
      figure("nodes", formatNumber(state.nodes), null, "nodes"),
      figure("cpu", `${formatCpu(state.cpu)} / ${formatCpu(state.cpuTotal)}`, bar(state.cpu, state.cpuTotal, formatShare(state.cpu, state.cpuTotal), "cpu requested"), "cpu"),
      figure("memory", `${formatMemory(state.memory)} / ${formatMemory(state.memoryTotal)}`, bar(state.memory, state.memoryTotal, formatShare(state.memory, state.memoryTotal), "memory requested"), "memory"),
      figure("price", formatHourly(state.price, state.isModelled), element("span", { class: "sub" }, formatMonthly(state.price, state.isModelled)), "price"),
      figure("pods", `${formatNumber(state.running)} running`, element("span", { class: wait ? "sub waiting" : "sub" }, `${formatNumber(wait)} pending`), "pods"),
    );
  }

  #showDetails() {
    const { selected } = this;
    const model = this.models[selected?.story ?? 0];
    const actions = {
      select: (/** @type {Selection | null} */ selection) => this.select(selected?.story ?? 0, selection),
      seek: (/** @type {number} */ at) => this.seek(at),
    };
    const details = byId("details", HTMLElement);
    const scroll = details.scrollTop;
    if (!selected) {
      byId("details-title", HTMLElement).textContent = `Cluster at ${momentText(model, model.state.at)}${this.models.length > 1 ? `: ${shorten(this.report.comparison?.names[0] ?? "", 40)}` : ""}`;
      byId("close-details", HTMLElement).hidden = true;
      replaceChildren(byId("details-body", HTMLElement), ...overview(model, model.state, actions));
    } else {
      const { kind, number } = selected.selection;
      const name = kind === "node" ? model.nodeLabel(number) : model.pods[number].name;
      replaceChildren(byId("details-title", HTMLElement), `${kind === "node" ? "Node" : "Pod"} `, foreign(shorten(name, 300)));
      byId("close-details", HTMLElement).hidden = false;
      const parts = kind === "node" ? nodeDetails(model, model.state, number, actions) : podDetails(model, model.state, number, actions);
      replaceChildren(byId("details-body", HTMLElement), ...parts);
    }
    details.scrollTop = scroll;
    this.#showStrip();
    this.#showTable();
    this.#describePictures();
  }

  #describePictures() {
    for (const picture of this.pictures ?? []) {
      const { state } = picture.model;
      const name = this.models.length > 1 ? `${picture.model.story.name}: ` : "";
      const of = picture.selection ? `; selected ${picture.describe(picture.selection)}` : "";
      picture.canvas.setAttribute("aria-label", `${name}picture of the cluster, ${formatCount(state.nodes, "node")}, ${formatCount(state.running, "running pod")}, ${state.pending.length} pending${shorten(of, 240)}`);
    }
    byId("charts", HTMLCanvasElement).setAttribute("aria-label", `charts over time: ${this.charts?.describe(this.at) ?? ""}`);
  }

  /** Pods that wait, as boxes above the picture. */
  #showStrip() {
    const strip = byId("strip", HTMLElement);
    const model = this.models[0];
    const { pending } = model.state;
    // Where pods ever wait it is always there, so that the picture keeps its size.
    strip.hidden = this.models.length > 1 || !this.hasPending;
    if (strip.hidden) return;
    strip.classList.toggle("empty", !pending.length);
    replaceChildren(strip, element("span", { class: "strip-title" }, `${formatNumber(pending.length)} pending`),
      pending.slice(0, STRIP_PODS).map((pod) => element("button", {
        type: "button", class: "pod-box", title: shorten(model.pods[pod].name, 200),
        "aria-label": `pending pod ${shorten(model.pods[pod].name, 200)}`, click: () => this.select(0, { kind: "pod", number: pod }),
      })),
      pending.length > STRIP_PODS ? element("span", { class: "muted" }, `and ${pending.length - STRIP_PODS} more`) : null);
  }

  // Selection and search

  /** @param {number} story @param {Selection | null} selection */
  select(story, selection) {
    this.selected = selection ? { story, selection } : null;
    this.pictures?.forEach((picture, n) => (picture.selection = n === story ? selection : null));
    if (selection) {
      const node = selection.kind === "node" ? selection.number : this.models[story].nodeOf[selection.number];
      if (node >= 0) this.pictures?.[story].reveal(node);
    }
    this.show();
    byId("announce", HTMLElement).textContent = selection ? this.pictures?.[story].describe(selection) ?? "" : "nothing selected";
  }

  /** @param {StoryModel} model @param {number} n */
  #matches(model, n) {
    const node = model.nodes[n];
    const verdict = model.verdictOf(n, this.at);
    const own = [node.name, node.claim, node.id, node.pool, node.instanceType, node.zone, node.capacityType, node.reservationID ?? "", verdict?.verdict ?? "", verdict?.reason ?? ""].join("\n").toLowerCase();
    return this.query.split(/\s+/).every((word) => own.includes(word) || model.podsOn(n, this.at).some((pod) => model.pods[pod].name.toLowerCase().includes(word) || model.pods[pod].owner.toLowerCase().includes(word)));
  }

  #search() {
    this.query = byId("search", HTMLInputElement).value.trim().toLowerCase();
    this.listed = 0;
    let count = 0;
    for (const picture of this.pictures ?? []) {
      const { model } = picture;
      picture.found = this.query ? new Set(model.state.present.filter((n) => this.#matches(model, n))) : null;
      count += picture.found?.size ?? 0;
    }
    byId("found", HTMLElement).textContent = this.query ? `${formatCount(count, "node")} found` : "";
    this.show();
  }

  /** The nodes as a table: for those who do not see the picture, and for the printer. */
  #showTable() {
    if (!byId("table-holder", HTMLDetailsElement).open) return;
    const model = this.models[0];
    const { state } = model;
    const picture = this.pictures?.[0];
    const rows = state.present.filter((n) => !picture?.found || picture.found.has(n));
    const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
    this.listed = Math.min(this.listed, pages - 1);
    const shown = rows.slice(this.listed * PAGE_ROWS, (this.listed + 1) * PAGE_ROWS);
    const headings = ["node", "NodePool", "type", "zone", "capacity", "price", "cpu", "memory", "pods", "verdict"];
    replaceChildren(byId("table", HTMLElement), element("table", {},
      element("thead", {}, element("tr", {}, headings.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, shown.map((n) => {
        const node = model.nodes[n];
        const verdict = model.verdictOf(n, this.at);
        return element("tr", {},
          element("th", { scope: "row" }, element("button", { type: "button", class: "link", click: () => this.select(0, { kind: "node", number: n }) }, foreign(shorten(model.nodeLabel(n), 80)))),
          ...[node.pool || "none", node.instanceType, node.zone, model.capacityOf(n, this.at).filter(Boolean).join(" "), model.hourlyText(n, this.at),
            formatShare(state.usedCpu[n], model.cpuOf[n]), formatShare(state.usedMemory[n], model.memoryOf[n]), String(state.podCount[n]), verdict?.verdict ?? ""].map((text) => element("td", {}, foreign(shorten(text, 80)))));
      })),
    ));
    byId("page-text", HTMLElement).textContent = `${formatCount(rows.length, "node")}, page ${this.listed + 1} of ${pages}`;
    byId("page-before", HTMLButtonElement).disabled = this.listed === 0;
    byId("page-after", HTMLButtonElement).disabled = this.listed >= pages - 1;
  }

  // Time

  /** @param {number} by */
  #jump(by) {
    if (by > 0 && this.isFollowing && this.report.live?.mode === "scenario") {
      this.#stepLive();
      return;
    }
    const next = by > 0 ? this.moments.find((each) => each > this.at + 1e-6) : this.moments.findLast((each) => each < this.at - 1e-6);
    if (next !== undefined) this.seek(next);
  }

  /** @param {boolean} isPlaying */
  #showPlaying(isPlaying) {
    const button = byId("play", HTMLButtonElement);
    button.textContent = isPlaying ? "Pause" : "Play";
    button.setAttribute("aria-pressed", String(isPlaying));
  }

  #togglePlay() {
    if (this.feed) {
      const { isPlaying } = this.feed.live;
      this.isFollowing = true;
      this.feed.send(isPlaying ? "/pause" : "/play", isPlaying ? {} : { speed: Number(byId("speed", HTMLSelectElement).value) });
      return;
    }
    this.isPlaying = !this.isPlaying;
    this.#showPlaying(this.isPlaying);
    if (!this.isPlaying) return;
    if (this.at >= this.end) this.at = 0;
    let last = performance.now();
    let position = this.at;
    const frame = (/** @type {number} */ now) => {
      if (!this.isPlaying) return;
      const speed = Number(byId("speed", HTMLSelectElement).value);
      const length = this.isTime ? PLAY_SECONDS : Math.max(2, this.end * 1.2);
      if (Math.abs(position - this.at) > 1 && this.isTime) position = this.at;
      position += ((now - last) / 1000 / length) * this.end * speed;
      last = now;
      this.seek(this.isTime ? position : Math.floor(position));
      if (position >= this.end) this.#togglePlay();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  #listen() {
    const on = (/** @type {string} */ id, /** @type {string} */ name, /** @type {EventListener} */ act) => byId(id, HTMLElement).addEventListener(name, act);
    on("moment", "input", () => this.seek(Number(byId("moment", HTMLInputElement).value)));
    on("play", "click", () => this.#togglePlay());
    on("before", "click", () => this.#jump(-1));
    on("after", "click", () => this.#jump(1));
    on("grouping", "change", () => this.prepare());
    on("colouring", "change", () => this.prepare());
    on("search", "input", () => this.#search());
    on("close-details", "click", () => this.select(0, null));
    on("zoom-in", "click", () => this.pictures?.forEach((each) => each.zoom(1.5)));
    on("zoom-out", "click", () => this.pictures?.forEach((each) => each.zoom(1 / 1.5)));
    on("table-holder", "toggle", () => this.#showDetails());
    on("page-before", "click", () => this.#turnPage(-1));
    on("page-after", "click", () => this.#turnPage(1));
    document.addEventListener("keydown", (event) => this.#onKey(event));
    let timer = 0;
    new ResizeObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(() => this.prepare(), 60);
    }).observe(byId("pictures", HTMLElement));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.prepare());
    matchMedia("print").addEventListener("change", () => this.prepare());
  }

  /** @param {number} by */
  #turnPage(by) {
    this.listed += by;
    this.#showTable();
  }

  /** Keys that work anywhere but where something is typed or chosen.
   * @param {KeyboardEvent} event */
  #onKey(event) {
    const target = event.target;
    const isTyping = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && !(target instanceof HTMLCanvasElement)) this.select(0, null);
    if (isTyping) return;
    if (event.key === "/") {
      event.preventDefault();
      byId("search", HTMLInputElement).focus();
    } else if (event.key === " " && !(target instanceof HTMLButtonElement)) {
      event.preventDefault();
      this.#togglePlay();
    } else if (event.key === ",") this.#jump(-1);
    else if (event.key === ".") this.#jump(1);
  }
}

/** @returns {App | null} */
function start() {
  const text = byId("report", HTMLScriptElement).textContent?.trim();
  if (!text) return null;
  const raw = JSON.parse(text);
  const app = new App(readReport(raw));
  performance.measure("wain-open", { start: 0 });
  app.connect(raw);
  return app;
}

start();
