// Label: a wall of photos, the classes beside it.

import { getNewest } from "./api.js";
import { count, h, plain, put, putNew, say } from "./dom.js";
import { Palette } from "./palette.js";
import { attempt, liveText, nothing, segmented } from "./parts.js";
import { openPreview } from "./preview.js";
import { confirm, hasModel, label, labelCounts, labelledClasses, store } from "./store.js";
import { Wall } from "./wall.js";

const ORDERS = [
  ["diverse", "Varied"],
  ["useful", "Most useful"],
  ["name", "By name"],
];
const SHOWN = [
  ["no", "Without a label"],
  ["yes", "Labelled"],
  ["", "All"],
];
const CONFIDENCES = [
  ["0 1", "Any confidence"],
  ["0 0.5", "Below 50 %"],
  ["0.5 0.9", "50 to 90 %"],
  ["0.9 1", "90 % or more"],
];
const ENOUGH = 5; // labels per class, for a first round

const keys = (rows) =>
  h(
    "p",
    { class: "keys" },
    rows.map(([name, what]) => h("span", {}, h("kbd", {}, name), ` ${what}`)),
  );

export function labelPage() {
  const query = {
    order: hasModel() ? "useful" : "diverse",
    labelled: "no",
    class: "",
    text: "",
    disagree: "",
    least: "0",
    most: "1",
  };
  let isClosed = false,
    isDiverse = store.diverse[0] >= store.diverse[1],
    waiting = 0;
  const wall = new Wall("Photos", { label, confirm, preview: openPreview, changed: () => drawStatus() });
  const next = h("div", { class: "next-step" }),
    following = h("p", { class: "soft following", role: "status" });
  const palette = new Palette(
    (classNumber) => wall.assign(classNumber),
    () => wall.element.focus(),
    h("p", { class: "hint" }, "Select photos, then press a number, click a class, or drag the photos onto it."),
    following,
    next,
  );
  const status = h("p", { class: "status", role: "status" }),
    empty = h("div", { hidden: true });
  const noClasses = h(
    "div",
    { class: "notice", hidden: true },
    "There are no classes yet. ",
    h("a", { href: "#classes" }, "Name the classes first"),
    ".",
  );

  const get = getNewest();
  const ask = (show) =>
    attempt(async () => {
      const { class: chosen, ...others } = query;
      if (chosen) others[query.labelled === "yes" ? "label" : "guesses"] = chosen;
      const view = await get(`/api/view?${new URLSearchParams(others)}`);
      if (isClosed || !view) return;
      show(view);
      draw();
    });
  const reload = () => ask((view) => wall.show(view));
  const set = (values) => {
    Object.assign(query, values);
    reload();
  };

  function drawStatus() {
    const isChoosing = query.order === "diverse" && store.diverse[0] < store.diverse[1];
    say(
      status,
      [
        `${count(wall.numbers.length, "photo")} shown`,
        `${plain(store.labels.size)} of ${plain(store.photos)} labelled`,
        wall.selected.size ? `${plain(wall.selected.size)} selected` : "",
        isChoosing ? `choosing a varied selection: ${plain(store.diverse[0])} of ${plain(store.diverse[1])}` : "",
      ]
        .filter(Boolean)
        .join(" · "),
    );
  }

  // What to do next, below the classes.
  function drawNext() {
    const classes = store.classes.length,
      ready = [...labelCounts().values()].filter((each) => each >= ENOUGH).length;
    const sentence =
      ready === classes
        ? `Every class has ${ENOUGH} labels or more.`
        : `${ready} of ${count(classes, "class", "classes")} with ${ENOUGH} labels, which is a good start.`;
    const kind = ready === classes ? "button primary" : "button",
      canTrain = labelledClasses() >= 2;
    putNew(next, [classes, sentence, kind, canTrain], () => [
      classes ? h("p", { class: "soft" }, sentence) : null,
      canTrain ? h("a", { class: kind, href: "#train" }, "Train →") : null,
    ]);
  }

  function drawEmpty() {
    const isDone = query.labelled === "no" && store.labels.size >= store.photos;
    empty.hidden = wall.numbers.length > 0;
    put(
      empty,
      isDone
        ? nothing("h2", "Every photo has a label", "Look at them with “Labelled” above.")
        : nothing("h2", "No photo fits", "Choose another selection or filter above."),
    );
  }

  function draw() {
    wall.update();
    palette.update();
    say(following, liveText(store.live));
    drawStatus();
    drawNext();
    drawEmpty();
    noClasses.hidden = store.classes.length > 0;
  }

  const options = () => [["", "Any class"], ...store.classes].map(([value, text]) => h("option", { value }, text));
  const classFilter = h(
    "select",
    { "aria-label": "Class", onchange: (event) => set({ class: event.target.value }) },
    options(),
  );
  const later = (text) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => set({ text }), 200);
  };
  const search = h("input", {
    type: "search",
    placeholder: "File name",
    "aria-label": "Part of the file name",
    oninput: (event) => later(event.target.value),
  });
  const between = (event) => {
    const [least, most] = event.target.value.split(" ");
    set({ least, most });
  };
  const confidence = h(
    "select",
    { "aria-label": "Confidence of the model", onchange: between },
    CONFIDENCES.map(([value, text]) => h("option", { value }, text)),
  );
  const disagree = h(
    "label",
    { class: "check" },
    h("input", {
      type: "checkbox",
      onchange: (event) => set({ disagree: event.target.checked ? "yes" : "" }),
    }),
    "Heads disagree",
  );
  const size = h("input", {
    type: "range",
    min: 90,
    max: 280,
    step: 10,
    value: wall.size,
    "aria-label": "Size of the photos",
    title: "Size of the photos",
    class: "size",
    oninput: (event) => wall.resize(Number(event.target.value)),
  });
  const orders = h("div"),
    hints = h("div");
  // What needs answers appears with the first ones.
  function drawChoices() {
    putNew(orders, hasModel(), () =>
      segmented(
        "Order",
        ORDERS.filter(([key]) => key !== "useful" || hasModel()),
        query.order,
        (order) => set({ order }),
      ),
    );
    putNew(hints, hasModel(), () =>
      keys([
        ["1–9", "label"],
        ["←↑↓→", "move"],
        ["Space", "large"],
        ...(hasModel() ? [["Enter", "confirm"]] : []),
        ["X", "select"],
        ["0", "no label"],
        ["U", "undo"],
      ]),
    );
    for (const each of [confidence, disagree]) each.hidden = !hasModel();
  }
  const filters = h(
    "details",
    { class: "filters" },
    h("summary", {}, "Filter"),
    h("div", { class: "filter-box" }, search, classFilter, confidence, disagree),
  );
  drawChoices();

  const element = h(
    "div",
    { class: "work" },
    h(
      "section",
      { class: "stage", "aria-label": "Photos" },
      h("h1", { class: "visually-hidden" }, "Label"),
      h(
        "div",
        { class: "bar-top" },
        orders,
        segmented("Shown", SHOWN, query.labelled, (labelled) => set({ labelled })),
        filters,
        size,
      ),
      noClasses,
      empty,
      wall.element,
      h(
        "div",
        { class: "bar-bottom" },
        status,
        hints,
      ),
    ),
    palette.element,
  );
  reload().then(() => wall.element.focus({ preventScroll: true }));
  return {
    element,
    update: (what) => {
      draw();
      if (what.isBack) wall.retry();
      if (what.classes) put(classFilter, options());
      if (what.live || what.training) {
        drawChoices();
        ask((view) => wall.follow(view));
      }
      const isReady = store.diverse[0] >= store.diverse[1];
      if (isReady && !isDiverse && query.order === "diverse" && store.labels.size === 0) reload();
      isDiverse = isReady;
    },
    close: () => {
      isClosed = true;
      wall.close();
    },
  };
}
