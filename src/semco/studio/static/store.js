// What all pages share: classes, labels, the state of training. Polled, so that several tabs show the same.

import { get, post } from "./api.js";
import { announce } from "./dom.js";

export const store = {
  session: "", seq: 0, photos: 0, root: "", project: "", classes: [], labels: new Map(), problems: [],
  training: { round: 0, running: false }, finished: 0, diverse: [0, 0], pending: 0, reachable: true,
};

const listeners = new Set();
export const listen = (listener) => { listeners.add(listener); return () => listeners.delete(listener); };
const tell = (what) => { for (const listener of [...listeners]) listener(what); };

function take(state, isWhole) {
  const before = { finished: store.finished, running: store.training.running, classes: JSON.stringify(store.classes) };
  const { labels, ...others } = state;
  if (store.session && state.session && state.session !== store.session) return location.reload();
  Object.assign(store, others);
  if (isWhole) store.labels = new Map();
  const hasLabels = isWhole || Object.keys(labels).length > 0;
  mergeLabels(labels);
  tell({
    labels: hasLabels, classes: before.classes !== JSON.stringify(store.classes),
    training: before.running !== store.training.running || before.finished !== store.finished,
  });
  return undefined;
}

function mergeLabels(labels) {
  for (const [number, label] of Object.entries(labels)) {
    if (label === null) store.labels.delete(Number(number));
    else store.labels.set(Number(number), label);
  }
}

export async function load() { take(await get("/api/state"), true); }

export async function refresh() {
  try {
    const numbers = (classes) => JSON.stringify(classes.map(([number]) => number).sort());
    const state = await get(`/api/state?since=${store.seq}`);
    const isWhole = numbers(state.classes) !== numbers(store.classes);  // labels of removed classes come and go
    take(isWhole ? await get("/api/state") : state, isWhole);
    if (!store.reachable) { store.reachable = true; tell({ problems: true }); }
  } catch (error) {
    if (store.reachable) { store.reachable = false; store.problems = [error.message]; tell({ problems: true }); }
  }
}

// Label photos: shown at once, and taken back with a sentence if the Studio could not write it.
export async function label(numbers, classNumber) {
  const before = new Map(numbers.map((number) => [number, store.labels.get(number) ?? null]));
  const seen = store.seq;
  mergeLabels(Object.fromEntries(numbers.map((number) => [number, classNumber])));
  store.pending += 1;
  tell({ labels: true });
  try {
    const answer = await queue(() => post("/api/labels", { photos: numbers, label: classNumber, seen: Math.max(seen, ownSeq) }));
    ownSeq = Math.max(ownSeq, answer.seq);
    settle(answer);
  } catch (error) {
    mergeLabels(Object.fromEntries(before));
    if (error.content?.labels) settle(error.content);
    announce(error.message, "error");
  } finally {
    store.pending -= 1;
    tell({ labels: true });
  }
}

let ownSeq = 0;
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

export async function undo(of = null, redo = false) {
  try {
    take(await queue(() => post("/api/undo", { of, redo, seen: store.seq })), false);
    await load();
    announce(redo ? "Done again." : "Undone.");
  } catch (error) { announce(error.message, "error"); }
}

export const className = (number) => store.classes.find(([each]) => each === number)?.[1] ?? "?";

export function labelCounts() {
  const counts = new Map(store.classes.map(([number]) => [number, 0]));
  for (const label of store.labels.values()) if (counts.has(label)) counts.set(label, counts.get(label) + 1);
  return counts;
}
