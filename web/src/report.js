/**
 * The JSON that the page shows, as `report/visual/story.py` writes it. Fields that have their
 * default are left out there; `readReport` puts them back.
 *
 * @typedef {[number, number | null][]} Prices
 *
 * @typedef {object} NodeRecord
 * @property {string} id
 * @property {string} name
 * @property {string} claim
 * @property {string} pool
 * @property {string} instanceType
 * @property {string} zone
 * @property {string} capacityType
 * @property {string | null} reservationID
 * @property {[number, string, string | null][]} capacityChanges
 * @property {Record<string, number>} allocatable
 * @property {number | null} created
 * @property {number} launched
 * @property {number | null} joined
 * @property {number[]} ready
 * @property {number[]} silent
 * @property {number | null} deleting
 * @property {number | null} ended
 * @property {string} endReason
 * @property {Prices} prices
 * @property {number[]} modelled when its price became an estimate, when it ceased to be one, and so on
 *
 * @typedef {object} PodRecord
 * @property {string} name
 * @property {string} owner
 * @property {number} cpu
 * @property {number} memory
 * @property {Record<string, number>} other
 * @property {boolean} daemon
 * @property {number} created
 * @property {[number, string][]} waits
 * @property {number | null} bound
 * @property {number | null} node
 * @property {number | null} running
 * @property {number | null} deleting
 * @property {boolean} evicted
 * @property {number | null} ended
 *
 * @typedef {object} ReservationRecord
 * @property {string} id
 * @property {string} instanceType
 * @property {string} zone
 * @property {[number, number, number, number][]} counts
 * @property {Prices} prices
 * @property {boolean} modelledPrice
 * @property {string} unusable
 * @property {string[]} notes
 *
 * @typedef {object} ClusterHistory
 * @property {NodeRecord[]} nodes
 * @property {PodRecord[]} pods
 * @property {ReservationRecord[]} reservations
 *
 * @typedef {object} Series
 * @property {number[]} at
 * @property {number[]} nodes
 * @property {{running: number[], pending: number[]}} pods
 * @property {number[]} pricePerHour
 * @property {Record<string, {used: number[], total: number[]}>} reservations
 *
 * @typedef {object} StoryEvent
 * @property {string} what
 * @property {number} at
 * @property {string} object
 * @property {string} message
 * @property {string} [reason]
 * @property {string} [method]
 * @property {string} [verb]
 * @property {string} [node]
 * @property {boolean} [held]
 * @property {string[]} [candidates]
 * @property {string[]} [replacements]
 * @property {number | null} [savingsPerHour]
 * @property {boolean} [modelledPrices]
 *
 * @typedef {object} BlockerInfo
 * @property {string} kind
 * @property {string} name
 * @property {string} message
 *
 * @typedef {object} VerdictRecord
 * @property {number} at
 * @property {number} node
 * @property {string} verdict
 * @property {string} reason
 * @property {string} message
 * @property {string} change
 * @property {number | null} savingPerHour
 * @property {boolean} modelledPrices
 * @property {BlockerInfo[]} blockers
 *
 * @typedef {object} PendingExplanation
 * @property {number[]} pods
 * @property {string} reason
 * @property {string} suggestion
 * @property {{pool: string, reason: string, funnel?: number[]}[]} pools
 * @property {string[]} nodes
 *
 * @typedef {object} NodeNote
 * @property {number} node
 * @property {string[]} why
 * @property {string[]} elsewhere
 *
 * @typedef {object} Story
 * @property {"Plan" | "Consolidation" | "Simulation" | "Cluster"} kind
 * @property {string} name
 * @property {string} answer
 * @property {"seconds" | "steps"} unit
 * @property {string | null} start
 * @property {number} end
 * @property {number | null} opensAt
 * @property {{name: string, weight?: number}[]} pools
 * @property {ClusterHistory} history
 * @property {Series | null} series
 * @property {StoryEvent[]} events
 * @property {VerdictRecord[]} verdicts
 * @property {PendingExplanation[]} pending
 * @property {NodeNote[]} notes
 * @property {[string, string][]} totals
 * @property {{text: string, held?: boolean | null}[]} findings
 * @property {string[]} warnings
 * @property {Record<string, any>} figures
 *
 * @typedef {object} Comparison
 * @property {string} answer
 * @property {[string, string]} names
 * @property {[string, string, string, string][]} rows
 *
 * @typedef {object} LiveInfo
 * @property {"scenario" | "cluster"} mode
 * @property {string} frame
 * @property {boolean} isPlaying
 * @property {boolean} isOver
 * @property {number} speed
 * @property {number | null} until
 * @property {string[]} zones
 * @property {{kind: string, namespace: string, name: string, replicas?: number}[]} workloads
 * @property {string} problem
 *
 * @typedef {object} Report
 * @property {string} version
 * @property {Story[]} stories
 * @property {Comparison | null} comparison
 * @property {LiveInfo | null} live
 */

const NODE = {
  name: "", claim: "", pool: "", instanceType: "", zone: "", capacityType: "", reservationID: null,
  capacityChanges: [], allocatable: {}, created: null, launched: 0, joined: null, ready: [], silent: [], deleting: null,
  ended: null, endReason: "", prices: [], modelled: [],
};
const POD = {
  owner: "", cpu: 0, memory: 0, other: {}, daemon: false, created: 0, waits: [], bound: null,
  node: null, running: null, deleting: null, evicted: false, ended: null,
};
const RESERVATION = { instanceType: "", zone: "", counts: [], prices: [], modelledPrice: false, unusable: "", notes: [] };
const VERDICT = { reason: "", message: "", change: "", savingPerHour: null, modelledPrices: false, blockers: [] };
const EXPLANATION = { suggestion: "", pools: [], nodes: [] };
const LIVE = { isPlaying: false, isOver: false, speed: 0, until: null, zones: [], workloads: [], problem: "" };
const STORY = {
  start: null, opensAt: null, pools: [], series: null, events: [], verdicts: [], pending: [],
  notes: [], totals: [], findings: [], warnings: [],
  figures: {},
};

/**
 * The report with every field in its place.
 *
 * @param {any} raw
 * @returns {Report}
 */
export function readReport(raw) {
  const live = raw.live ? { ...LIVE, ...raw.live } : null;
  return { version: "", comparison: null, ...raw, live, stories: raw.stories.map(readStory) };
}

/**
 * @param {any} raw
 * @returns {Story}
 */
function readStory(raw) {
  const history = raw.history ?? {};
  const story = { ...STORY, ...raw };
  story.history = {
    nodes: withDefaults(history.nodes, NODE),
    pods: withDefaults(history.pods, POD),
    reservations: withDefaults(history.reservations, RESERVATION),
  };
  story.verdicts = withDefaults(raw.verdicts, VERDICT);
  story.pending = withDefaults(raw.pending, EXPLANATION);
  story.notes = withDefaults(raw.notes, { why: [], elsewhere: [] });
  return story;
}

/**
 * @param {any[] | undefined} records
 * @param {object} defaults
 * @returns {any[]}
 */
function withDefaults(records, defaults) {
  return (records ?? []).map((each) => ({ ...defaults, ...each }));
}
