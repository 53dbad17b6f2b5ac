// Review: what the model says about photos without a label; confirm or correct, many at once.

import { get, getNewest } from "./api.js";
import { openCheck } from "./check.js";
import { colour, count, h, percent, plain, put, say } from "./dom.js";
import { Palette } from "./palette.js";
import { accuracyText, attempt, bar, busy, liveText, nothing, segmented } from "./parts.js";
import { openPreview } from "./preview.js";
import { className, confirm, hasModel, label, store } from "./store.js";
import { Wall } from "./wall.js";

const SURE = 0.9,
  MOST_OF_PAIR = 100,
  MOST_PAIRS = 40;
const VIEWS = {
  sure: ["Sure", "Sure answers", { order: "sure", least: SURE }],
  disagree: ["Heads disagree", "Heads disagree", { disagree: "yes" }],
  unsure: ["Unsure", "Unsure answers", { most: SURE - 0.001 }],
  pair: ["Pairs", "No pair is confused", { disagree: "yes" }],
};
const NONE = {
  sure: "The model is not sure of any photo without a label. More labels help.",
  disagree: "The two heads agree on every photo without a label.",
  unsure: "The model is sure of every photo without a label.",
  pair: "The heads confuse no two classes.",
};

// Keep some rows of a view, which has its photos and their answers in columns.
function filtered(view, keep) {
  const rows = view.numbers.map((_, i) => i).filter(keep),
    columns = ["numbers", "guesses", "confidence", "others"];
  return Object.fromEntries(columns.map((column) => [column, rows.map((i) => view[column][i])]));
}

export function reviewPage() {
  let summary = null,
    view = "sure",
    group = "",
    pair = null,
    isClosed = false,
    round = store.finished,
    walls = [],
    active = null;
  const numbers = h("dl", { class: "tiles" }),
    stage = h("div", { class: "walls" }),
    table = h("div");
  const controls = h("div", { class: "bar-top" }),
    status = h("p", { class: "status", role: "status" });
  const actions = {
    label: (...all) => label(...all).then(reloadSummary),
    confirm: (pairs) => confirm(pairs).then(reloadSummary),
    preview: openPreview,
    changed: () => drawStatus(),
  };
  const focus = () => active?.element.focus();
  const palette = new Palette(
    (classNumber) => active?.assign(classNumber),
    focus,
    h(
      "p",
      { class: "hint" },
      "For wrong answers press the number of the right class, click it, or drag the photos onto it.",
    ),
  );

  const reloadSummary = () =>
    attempt(async () => {
      summary = await get("/api/review");
      if (!isClosed && summary) drawNumbers();
    });

  function drawNumbers() {
    const { checked, accuracy } = summary;
    const interval = ({ low, high }) => `95 % interval ${Math.round(100 * low)} to ${percent(high)}`;
    const tile = (name, value, small) => h("div", {}, h("dt", {}, name), h("dd", {}, value, h("small", {}, small)));
    put(
      numbers,
      tile("Without a label", plain(summary.open), summary.round ? `answers of round ${summary.round}` : "answers now"),
      tile("Sure", plain(summary.sure), `${percent(SURE)} or more`),
      summary.has_two_heads ? tile("Heads disagree", plain(summary.disagree), "the two name different classes") : null,
      tile(
        "Accuracy",
        accuracy ? percent(accuracy.value) : "–",
        accuracy ? `${interval(accuracy)}; ${accuracy.photos}` : "not measured yet",
      ),
      tile(
        "Right when checked",
        checked.count ? percent(checked.right / checked.count) : "–",
        checked.count
          ? `${checked.right} of ${count(checked.count, "random photo")} judged blind; ${interval(checked)}`
          : "“Check blind” asks about random photos",
      ),
    );
    const rows = store.classes
      .filter(([number]) => checked.classes[number])
      .map(([number, name]) => {
        const [right, all] = checked.classes[number];
        return bar(name, right / all, colour(number), `${right} of ${all}`);
      });
    put(
      table,
      accuracy
        ? [
            h("h2", {}, "How good is the model?"),
            h("p", { class: "soft" }, `It is ${accuracyText(accuracy)}${accuracy.probe ? `; ${accuracy.probe}` : ""}.`),
          ]
        : null,
      rows.length
        ? [
            h("h2", {}, "Right when checked"),
            h("ul", { class: "bars" }, rows),
            h(
              "p",
              { class: "soft" },
              "Random photos that you judged without seeing the answer which the model gave at that time. Answers that " +
                "you confirm are no check.",
            ),
          ]
        : null,
    );
  }

  function drawControls() {
    const option = (value, text, selected) => h("option", { value, selected: value === selected }, text);
    const groups = summary.groups
      .filter((each) => each.open)
      .map((each) =>
        option(each.classes.join(","), `${each.classes.map(className).join(" + ")} (${plain(each.open)})`, group),
      );
    const pairs = summary.pairs
      .slice(0, MOST_PAIRS)
      .map((each) =>
        option(
          each.classes.join(","),
          `${each.classes.map(className).join(" or ")} (${plain(each.count)}${each.alike ? ", grouped by name" : ""})`,
          pair,
        ),
      );
    const groupBox = h(
      "select",
      {
        "aria-label": "Group",
        onchange: (event) => {
          group = event.target.value;
          reload();
        },
      },
      option("", "All groups", group),
      groups,
    );
    const pairBox = h(
      "select",
      {
        "aria-label": "Pair",
        onchange: (event) => {
          pair = event.target.value;
          reload();
        },
      },
      pairs,
    );
    const views = Object.entries(VIEWS)
      .filter(([key]) => key !== "disagree" || summary.has_two_heads)
      .map(([key, [name]]) => [key, name]);
    put(
      controls,
      segmented("Photos", views, view, (value) => {
        view = value;
        reload();
      }),
      view !== "pair" ? groupBox : pairs.length ? pairBox : null,
      h("span", { class: "spacer" }),
      h("button", { id: "check", onclick: () => openCheck(begin) }, "Check blind"),
      h(
        "button",
        {
          onclick: () => {
            active?.selectAll();
            focus();
          },
        },
        "Select all",
      ),
      h(
        "button",
        {
          class: "primary",
          id: "confirm",
          onclick: () => {
            active?.confirm();
            focus();
          },
        },
        "Confirm",
      ),
    );
  }

  function wallFor(name, found) {
    const wall = new Wall(name, actions);
    wall.element.addEventListener("focus", () => {
      active = wall;
      drawStatus();
    });
    walls.push(wall);
    requestAnimationFrame(() => wall.show(found));
    return h(
      "section",
      { class: "half", "aria-label": name },
      h("h2", {}, name, h("span", { class: "number" }, plain(found.numbers.length))),
      found.numbers.length ? wall.element : h("p", { class: "empty" }, NONE[view]),
    );
  }

  const getView = getNewest();
  const ask = (values) => getView(`/api/view?${new URLSearchParams({ labelled: "no", order: "useful", ...values })}`);

  async function wallsOfPair() {
    const both = await ask({ guesses: pair });
    if (!both) return null;
    // The most useful answers of each class of the pair: the heads disagree, or the model is unsure.
    return pair
      .split(",")
      .map(Number)
      .map((own) => {
        const rows = filtered(both, (i) => both.guesses[i] === own).numbers.slice(0, MOST_OF_PAIR),
          kept = new Set(rows);
        return wallFor(
          `Taken for ${className(own)}`,
          filtered(both, (i) => kept.has(both.numbers[i])),
        );
      });
  }

  async function wallOfView() {
    const [, name, values] = VIEWS[view];
    const found = await ask({ ...values, ...(group && view !== "pair" ? { guesses: group } : {}) });
    return found && [wallFor(name, view === "sure" ? filtered(found, (i) => found.others[i] < 0) : found)];
  }

  const reload = () =>
    attempt(async () => {
      for (const wall of walls) wall.close();
      walls = [];
      pair ??= summary.pairs[0]?.classes.join(",") ?? null;
      const focused = controls.contains(document.activeElement) ? document.activeElement.tagName : "";
      drawControls();
      if (focused) controls.querySelector(focused === "SELECT" ? "select" : "input:checked").focus();
      const shown = await (view === "pair" && pair ? wallsOfPair() : wallOfView());
      if (!shown) return;
      put(stage, shown);
      [active] = walls;
      drawStatus();
      if ([document.body, document.getElementById("main")].includes(document.activeElement)) focus();
    });

  // New answers: those in sight change in their places; walls of pairs stay as they are.
  const followAnswers = () =>
    attempt(async () => {
      await reloadSummary();
      if (view === "pair" || walls.length !== 1) return;
      const found = await ask({ ...VIEWS[view][2], ...(group ? { guesses: group } : {}) });
      if (found && !isClosed && walls.length === 1) walls[0].follow(found);
    });

  function drawStatus() {
    const chosen = active?.selected.size ?? 0;
    say(
      status,
      chosen
        ? `${count(chosen, "photo")} selected: Enter confirms the model's answers, a number corrects them.`
        : "Enter confirms the answer under the cursor, or all that are selected.",
    );
    const button = document.getElementById("confirm");
    if (button) say(button, chosen ? `Confirm ${plain(chosen)}` : "Confirm");
  }

  const body = h("div", { class: "work review" }, busy("Reading the answers of the model …"));
  async function begin() {
    if (hasModel() && (await reloadSummary()) === null && !summary) return; // a message says why
    if (isClosed) return;
    if (!summary) {
      put(
        body,
        nothing(
          "h1",
          "Nothing to review yet",
          `This page shows what the model says about photos without a label. ${liveText(store.live)}`,
          store.live.state === "running" ? "#label" : "#train",
          store.live.state === "running" ? "Label some photos →" : "Train a round →",
        ),
      );
      return;
    }
    put(
      body,
      h(
        "section",
        { class: "stage", "aria-label": "Answers of the model" },
        h("h1", { class: "visually-hidden" }, "Review"),
        numbers,
        controls,
        stage,
        h("div", { class: "bar-bottom" }, status),
      ),
      h(
        "div",
        { class: "side-stack" },
        palette.element,
        h("section", { class: "side checked", "aria-label": "Right per class" }, table),
      ),
    );
    if (!summary.sure && view === "sure") view = summary.disagree ? "disagree" : "unsure";
    await reload();
  }
  begin();
  return {
    element: h("div", { class: "fill" }, body),
    update: (what) => {
      for (const wall of walls) {
        wall.update();
        if (what.isBack) wall.retry();
      }
      palette.update();
      if ((what.training && store.finished !== round) || (what.live && !summary)) {
        round = store.finished;
        begin();
      } else if (what.live) {
        followAnswers();
      }
    },
    close: () => {
      isClosed = true;
      for (const wall of walls) wall.close();
    },
  };
}
