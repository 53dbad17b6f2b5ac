// The shell: steps, undo, history, problems, and the page that the address names.

import { get } from "./api.js";
import { colour, count, find, h, put, say } from "./dom.js";
import { classesPage } from "./page_classes.js";
import { labelPage } from "./page_label.js";
import { reviewPage } from "./page_review.js";
import { trainPage } from "./page_train.js";
import { usePage } from "./page_use.js";
import { announce, attempt, nothing } from "./parts.js";
import { className, hasModel, listen, load, refresh, store, undo } from "./store.js";

const PAGES = {
  classes: ["Classes", classesPage],
  label: ["Label", labelPage],
  train: ["Train", trainPage],
  review: ["Review", reviewPage],
  use: ["Use", usePage],
};
const POLL = 2000; // milliseconds
let current = null,
  drawnSteps = "",
  finished = 0;

function drawSteps(name) {
  const done = {
    classes: store.classes.length >= 2,
    label: store.labels.size > 0,
    train: store.finished > 0,
    review: hasModel() && store.labels.size >= store.photos,
  };
  const key = JSON.stringify([name, done, store.training.running]);
  if (key === drawnSteps) return; // the element that has the focus stays
  drawnSteps = key;
  const live = () => h("span", { class: "live", role: "img", "aria-label": "training" });
  find("#steps").replaceChildren(
    ...Object.entries(PAGES).map(([each, [title]], place) =>
      h(
        "li",
        {},
        h(
          "a",
          {
            href: `#${each}`,
            "aria-current": each === name ? "page" : null,
            class: done[each] ? "done" : null,
          },
          h("span", { class: "place", "aria-hidden": "true" }, done[each] ? "✓" : String(place + 1)),
          title,
          each === "train" && store.training.running ? live() : null,
        ),
      ),
    ),
  );
}

function pageName() {
  const name = location.hash.slice(1);
  return name in PAGES ? name : store.classes.length < 2 ? "classes" : "label";
}

function show() {
  const name = pageName();
  current?.page.close();
  const page = PAGES[name][1]();
  current = { name, page };
  document.title = `${PAGES[name][0]} · SemCo Studio`;
  document.body.dataset.page = name;
  find("#main").replaceChildren(page.element);
  drawSteps(name);
}

function drawShell() {
  drawSteps(current?.name);
  const doing = store.working ? "Working …" : store.pending ? "Saving …" : "All saved";
  say(find("#saved"), store.isReachable ? doing : "No connection");
  find("#saved").classList.toggle("gone", !store.isReachable);
  const problems = find("#problems"),
    before = [...problems.children].map((each) => each.textContent);
  if (JSON.stringify(before) !== JSON.stringify(store.problems)) {
    put(
      problems,
      store.problems.map((sentence) => h("p", {}, sentence)),
    );
  }
}

// Say when a round is finished, wherever the person is; pages that show another model get the new one.
function drawFinished() {
  if (store.finished === finished) return;
  const isFirst = finished === 0;
  finished = store.finished;
  announce(`Round ${finished} is finished.`, "note", {
    name: "Review",
    run: () => {
      location.hash = "review";
    },
  });
  if (current.name === "use" || (isFirst && current.name === "label")) show();
}

// Say once what was found in the folder; one click takes it back.
function drawFound() {
  const { found, session } = store;
  if (!found || localStorage.getItem("semco-found") === session) return;
  localStorage.setItem("semco-found", session);
  const folders = count(found.classes, "folder"),
    apart = store.test ? ` ${count(store.test, "photo")} in test/ are kept apart.` : "";
  announce(`${count(found.labels, "label")} in ${folders} found.${apart}`, "found", {
    name: "Undo",
    run: () => undo(found.seq),
  });
}

function historyRow(each) {
  const found = each.count > 1 ? `Classes and ${count(each.count - 1, "label")} found in folders` : "Classes changed";
  const what =
    each.kind === "classes"
      ? found
      : `${count(each.count, "photo")} ${each.label === null ? "lost the label" : `labelled ${className(each.label)}`}`;
  const when = new Date(1000 * each.time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  const again = async () => {
    await undo(each.seq, each.undone);
    openHistory();
  };
  return h(
    "li",
    { class: each.undone ? "undone" : null },
    h("i", { style: { background: each.label ? colour(each.label) : "var(--line)" } }),
    h("span", {}, what),
    h("time", {}, when),
    h("button", { class: "quiet", onclick: again }, each.undone ? "Redo" : "Undo"),
  );
}

const openHistory = () =>
  attempt(async () => {
    const entries = await get("/api/history"),
      dialog = find("#history");
    const close = h("button", { class: "quiet close", "aria-label": "Close", onclick: () => dialog.close() }, "×");
    put(
      dialog,
      h("div", { class: "dialog-head" }, h("h2", { id: "history-title" }, "History"), close),
      h("p", { class: "soft" }, "Everything is kept. An entry can be undone, also when others came after it."),
      entries.length ? h("ol", { class: "history" }, entries.map(historyRow)) : h("p", {}, "Nothing has happened yet."),
    );
    if (!dialog.open) dialog.showModal();
  });

function onKey(event) {
  const typed = "input:not([type=radio]):not([type=checkbox]):not([type=range]), textarea, select";
  if (event.target.closest?.(typed)) return;
  const isCommand = event.ctrlKey || event.metaKey;
  if (event.key === (isCommand ? "z" : "u")) {
    event.preventDefault();
    undo();
  }
  if (event.key === "/" && find(".find-class:not([hidden])")) {
    event.preventDefault();
    find(".find-class").focus();
  }
}

// Show the first page, as soon as the Studio answers.
async function start() {
  try {
    await load();
  } catch (error) {
    put(find("#main"), nothing("h1", "There is no connection to the Studio", error.message));
    setTimeout(start, POLL);
    return;
  }
  finished = store.finished;
  show();
  drawShell();
  listen((what) => {
    drawShell();
    current.page.update(what);
    drawFinished();
  });
  drawFound();
  setInterval(refresh, POLL);
  document.documentElement.dataset.ready = "yes";
}

document.addEventListener("keydown", onKey);
find("#undo").addEventListener("click", () => undo());
find("#history-button").addEventListener("click", openHistory);
addEventListener("hashchange", () => {
  show();
  find("#main").focus({ preventScroll: true });
});
addEventListener("beforeunload", (event) => {
  if (store.pending || store.working) event.preventDefault();
});
start();
