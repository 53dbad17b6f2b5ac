// What all pages share: classes, labels, the state of training. Polled, so that several tabs show the same.

import { get, post } from "./api.js";
import { announce, attempt } from "./parts.js";

export const store = {
  session: "",
  seq: 0,
  photos: 0,
  root: "",
  project: "",
  classes: [],
  labels: new Map(),
  problems: [],
  training: { round: 0, running: false },
  finished: 0,
  diverse: [0, 0],
  found: null, // what was found in the folder when the project began
  test: 0, // photos that are kept apart
  live: { state: "off", seq: 0, version: 0 }, // the model that follows the labels
  pending: 0, // labels that are being written
  working: 0, // changes of the classes that are being made
  isReachable: true,
};

// A listener gets what has changed: labels, classes, training, live (new answers), problems, or isBack after the Studio
// was away.
const listeners = new Set();
export const listen = (listener) => listeners.add(listener);
const tell = (what) => {
  for (const listener of listeners) listener(what);
};

function take(state, isWhole) {
  if (store.session && state.session !== store.session) {
    location.reload();
    return;
  } // photos have other numbers
  const before = {
    finished: store.finished,
    running: store.training.running,
    classes: JSON.stringify(store.classes),
    version: store.live.version,
  };
  const { labels, ...others } = state;
  Object.assign(store, others);
  if (isWhole) store.labels = new Map();
  mergeLabels(labels);
  tell({
    labels: isWhole || Object.keys(labels).length > 0,
    classes: before.classes !== JSON.stringify(store.classes),
    training: before.running !== store.training.running || before.finished !== store.finished,
    live: before.version !== store.live.version,
  });
}

const FAST = 300, // milliseconds between two questions while the model is behind the labels
  MOST_QUESTIONS = 60;
let isFollowing = false;

// Ask for the answers to the newest labels until they are there.
export async function follow() {
  if (isFollowing || store.live.state !== "running" || !store.live.is_ready) return;
  isFollowing = true;
  try {
    for (let i = 0; i < MOST_QUESTIONS; i += 1) {
      const { version } = store.live;
      store.live = await get("/api/live");
      tell({ live: version !== store.live.version });
      if (store.live.seq >= store.live.wanted || store.live.without_label.length) break;
      await new Promise((resolve) => {
        setTimeout(resolve, FAST);
      });
    }
  } catch {
    /* the banner says that the Studio does not answer */
  } finally {
    isFollowing = false;
  }
}

// Whether there are answers: of the model that follows the labels, or of a round.
export const hasModel = () => store.finished > 0 || store.live.version > 0;

function mergeLabels(labels) {
  for (const [number, label] of Object.entries(labels)) {
    if (label === null) store.labels.delete(Number(number));
    else store.labels.set(Number(number), label);
  }
}

export async function load() {
  take(await get("/api/state"), true);
}

export async function refresh() {
  const numbers = (classes) => JSON.stringify(classes.map(([number]) => number).sort());
  try {
    const state = await get(`/api/state?since=${store.seq}`);
    const isWhole = numbers(state.classes) !== numbers(store.classes); // labels of removed classes come and go
    take(isWhole ? await get("/api/state") : state, isWhole);
    if (!store.isReachable) {
      store.isReachable = true;
      tell({ isBack: true });
    }
    if (store.live.seq < store.live.wanted && !store.live.without_label?.length) follow();
  } catch (error) {
    store.isReachable = false;
    store.problems = [error.message];
    tell({ problems: true });
  }
}

// Label photos: shown at once, and taken back with a sentence if the Studio could not write it. `blind`: the answer of
// the model was not shown.
export async function label(numbers, classNumber, blind = false) {
  const before = Object.fromEntries(numbers.map((number) => [number, store.labels.get(number) ?? null]));
  const seen = store.seq;
  mergeLabels(Object.fromEntries(numbers.map((number) => [number, classNumber])));
  store.pending += 1;
  tell({ labels: true });
  try {
    const values = () => ({ photos: numbers, label: classNumber, blind, seen: Math.max(seen, ownSeq) });
    const answer = await queue(() => post("/api/labels", values()));
    ownSeq = Math.max(ownSeq, answer.seq);
    settle(answer);
    follow();
  } catch (error) {
    mergeLabels(before);
    if (error.content?.labels) settle(error.content);
    announce(error.message, "error");
  } finally {
    store.pending -= 1;
    tell({ labels: true });
  }
}

// Confirm answers of the model: pairs of a photo and its class.
export async function confirm(pairs) {
  const byClass = Map.groupBy(pairs, ([, classNumber]) => classNumber);
  await Promise.all(
    [...byClass].map(([classNumber, some]) =>
      label(
        some.map(([number]) => number),
        classNumber,
      ),
    ),
  );
}

// Change the classes, one change after the other; each is made to what the one before it has left. `values` is a
// function, because only then the page knows what it has seen.
export async function changeClasses(values) {
  const next = changing.then(() => post("/api/classes", values()));
  changing = next.catch(() => undefined);
  store.working += 1;
  tell({});
  try {
    return await next;
  } finally {
    store.working -= 1;
    tell({});
  }
}

let changing = Promise.resolve();
let ownSeq = 0; // the last change that this tab made
let last = Promise.resolve();

// One label at a time, in order, so that a tab never conflicts with itself.
function queue(work) {
  const next = last.then(work, work);
  last = next.catch(() => undefined);
  return next;
}

function settle(answer) {
  mergeLabels(answer.labels);
  store.seq = Math.max(store.seq, answer.seq);
}

export const undo = (of = null, redo = false) =>
  attempt(async () => {
    await changing;
    take(await queue(() => post("/api/undo", { of, redo, seen: store.seq })), false);
    await load();
    announce(redo ? "Done again." : "Undone.");
  });

export const className = (number) => store.classes.find(([each]) => each === number)?.[1] ?? "?";

export function labelCounts() {
  const counts = new Map(store.classes.map(([number]) => [number, 0]));
  for (const each of store.labels.values()) if (counts.has(each)) counts.set(each, counts.get(each) + 1);
  return counts;
}

// How many classes have labels; training needs two.
export const labelledClasses = () => [...labelCounts().values()].filter(Boolean).length;
