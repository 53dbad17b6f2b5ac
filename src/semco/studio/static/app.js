// The shell: steps, undo, history, problems, and the page that the address names.

import { get } from "./api.js";
import { announce, colour, find, h, put, say } from "./dom.js";
import { classesPage } from "./page_classes.js";
import { labelPage } from "./page_label.js";
import { reviewPage } from "./page_review.js";
import { trainPage } from "./page_train.js";
import { usePage } from "./page_use.js";
import { className, listen, load, refresh, store, undo } from "./store.js";

const PAGES = { classes: ["Classes", classesPage], label: ["Label", labelPage], train: ["Train", trainPage], review: ["Review", reviewPage], use: ["Use", usePage] };
const POLL = 2000;
let current = null, drawn = "", finished = 0;

function drawSteps(name) {
  const key = JSON.stringify([name, store.classes.length >= 2, store.labels.size > 0, store.finished > 0, store.training.running]);
  if (key === drawn) return;  // the element that has the focus stays
  drawn = key;
  const done = { classes: store.classes.length >= 2, label: store.labels.size > 0, train: store.finished > 0, review: false, use: false };
  find("#steps").replaceChildren(...Object.entries(PAGES).map(([key, [title]], place) => h("li", {},
    h("a", { href: `#${key}`, "aria-current": key === name ? "page" : null, class: done[key] ? "done" : null },
      h("span", { class: "place", "aria-hidden": "true" }, done[key] ? "✓" : String(place + 1)), title,
      key === "train" && store.training.running ? h("span", { class: "live", role: "img", "aria-label": "training" }) : null))));
}

function pageName() { const name = location.hash.slice(1); return name in PAGES ? name : store.classes.length < 2 ? "classes" : "label"; }

function show() {
  const name = pageName();
  current?.page.close();
  const page = PAGES[name][1]();
  current = { name, page };
  document.title = `${page.title} · SemCo Studio`;
  document.body.dataset.page = name;
  find("#main").replaceChildren(page.element);
  drawSteps(name);
}

function drawShell() {
  drawSteps(current?.name);
  say(find("#saved"), store.pending ? "Saving …" : "All saved");
  const problems = find("#problems"), before = [...problems.children].map((each) => each.textContent);
  if (JSON.stringify(before) !== JSON.stringify(store.problems)) put(problems, store.problems.map((sentence) => h("p", {}, sentence)));
}

// Say when a round is finished, wherever the person is; pages that had no model get theirs.
function drawFinished() {
  if (store.finished === finished) return;
  const isFirst = finished === 0;
  finished = store.finished;
  announce(`Round ${finished} is finished.`, "note", { name: "Review", run: () => { location.hash = "review"; } });
  if (isFirst && ["label", "use"].includes(current?.name)) show();
}

async function openHistory() {
  const dialog = find("#history");
  const entries = await get("/api/history");
  const describe = (each) => each.kind === "classes" ? "Classes changed" : `${each.count} photo${each.count === 1 ? "" : "s"} ${each.label === null ? "lost the label" : `labelled ${className(each.label)}`}`;
  dialog.replaceChildren(h("div", { class: "dialog-head" }, h("h2", { id: "history-title" }, "History"), h("button", { class: "quiet close", "aria-label": "Close", onclick: () => dialog.close() }, "×")),
    h("p", { class: "soft" }, "Everything is kept. An entry can be undone, also when others came after it."),
    h("ol", { class: "history" }, entries.map((each) => h("li", { class: each.undone ? "undone" : null },
      h("i", { style: { background: each.label ? colour(each.label) : "var(--line)" } }), h("span", {}, describe(each)), h("time", {}, new Date(1000 * each.time).toLocaleString("en-GB", { dateStyle: "short", timeStyle: "short" })),
      h("button", { class: "quiet", onclick: async () => { await undo(each.seq, each.undone); openHistory(); } }, each.undone ? "Redo" : "Undo")))),
    entries.length ? "" : h("p", {}, "Nothing has happened yet."));
  if (!dialog.open) dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input:not([type=radio]):not([type=checkbox]):not([type=range]), textarea, select");
  if (isTyping) return;
  const isUndo = (event.key === "u" && !event.ctrlKey && !event.metaKey) || (event.key === "z" && (event.ctrlKey || event.metaKey));
  if (isUndo) { event.preventDefault(); undo(); }
  if (event.key === "/" && find(".find-class:not([hidden])")) { event.preventDefault(); find(".find-class").focus(); }
});
find("#undo").addEventListener("click", () => undo());
find("#history-button").addEventListener("click", openHistory);
addEventListener("hashchange", () => { show(); find("#main").focus({ preventScroll: true }); });
addEventListener("beforeunload", (event) => { if (store.pending) event.preventDefault(); });
listen((what) => { drawShell(); current?.page.update(what); if (current) drawFinished(); });

try {
  await load();
  finished = store.finished;
  show();
  drawShell();
  setInterval(refresh, POLL);
  document.documentElement.dataset.ready = "yes";
} catch (error) {
  announce(error.message, "error");
  find("#main").replaceChildren(h("div", { class: "empty" }, h("h1", {}, "The Studio does not answer"), h("p", {}, error.message)));
}
