// Review: what the model says about photos without a label; confirm or correct, many at once.

import { get } from "./api.js";
import { announce, colour, count, h, percent, say } from "./dom.js";
import { confirmAnswers, segmented } from "./page_label.js";
import { Palette } from "./palette.js";
import { openPreview } from "./preview.js";
import { className, label, store } from "./store.js";
import { Wall } from "./wall.js";

const SURE = 0.9, MOST_OF_PAIR = 100;

export function reviewPage() {
  let summary = null, view = "sure", group = "", pair = null, isClosed = false, active = null, round = store.finished;
  const numbers = h("div", { class: "tiles" }), walls = h("div", { class: "walls" }), table = h("div"), bar = h("div", { class: "bar-top" }), status = h("p", { class: "status", role: "status" });
  const actions = { label: (...all) => label(...all).then(reloadSummary), confirm: (pairs) => confirmAnswers(pairs).then(reloadSummary), preview: openPreview };
  let shown = [];
  const palette = new Palette((classNumber) => { active?.assign(classNumber); active?.element.focus(); });
  palette.back = () => active?.element.focus();

  async function reloadSummary() {
    try { summary = await get("/api/review"); if (!isClosed && summary) drawNumbers(); } catch (error) { announce(error.message, "error"); }
  }

  function drawNumbers() {
    const { checked } = summary;
    const tile = (name, value, small) => h("div", {}, h("dt", {}, name), h("dd", {}, value, small ? h("small", {}, small) : null));
    numbers.replaceChildren(
      tile("Without a label", summary.open.toLocaleString("en")), tile("Sure", summary.sure.toLocaleString("en"), `${Math.round(100 * SURE)} % or more, heads agree`),
      tile("Heads disagree", summary.disagree.toLocaleString("en")),
      tile("Right when checked", checked.count ? percent(checked.right / checked.count) : "–", checked.count ? `${checked.right} of ${count(checked.count, "photo")} that you labelled since` : "confirm or correct some photos"));
    table.replaceChildren(...(checked.count ? [h("h2", {}, "Right per class"), h("ul", { class: "bars" }, store.classes.filter(([number]) => checked.classes[number]).map(([number, name]) => {
      const [right, all] = checked.classes[number];
      return h("li", {}, h("span", { class: "name" }, name), h("span", { class: "track" }, h("i", { style: { width: `${100 * right / all}%`, background: colour(number) } })), h("b", {}, `${right} of ${all}`));
    })), h("p", { class: "soft" }, `Photos that round ${summary.round} was not trained on. Those you chose to check may be harder or easier than the rest.`)] : []));
  }

  function drawBar() {
    const groups = summary.groups.filter((each) => each.open).map((each) => [each.classes.join(","), each.classes.map(className).join(" + "), each.open]);
    const groupBox = h("select", { "aria-label": "Group", onchange: (event) => { group = event.target.value; reload(); } }, h("option", { value: "" }, "All groups"),
      groups.map(([key, name, open]) => h("option", { value: key, selected: key === group }, `${name} (${open})`)));
    const pairBox = h("select", { "aria-label": "Pair", onchange: (event) => { pair = event.target.value; reload(); } },
      summary.pairs.slice(0, 40).map((each) => h("option", { value: each.classes.join(","), selected: each.classes.join(",") === pair }, `${each.classes.map(className).join(" or ")} (${each.count}${each.alike ? ", look-alikes" : ""})`)));
    bar.replaceChildren(
      segmented("Photos", [["sure", "Sure"], ["disagree", "Heads disagree"], ["unsure", "Unsure"], ["pair", "Pairs"]], view, (value) => { view = value; reload(); }),
      view === "pair" ? pairBox : groupBox, h("span", { class: "spacer" }),
      h("button", { onclick: () => { if (active) { active.selectRange(0, active.numbers.length - 1); active.update(); drawStatus(); active.element.focus(); } } }, "Select all"),
      h("button", { class: "primary", id: "confirm", onclick: () => { active?.confirm(); drawStatus(); active?.element.focus(); } }, "Confirm"));
  }

  function wallFor(name, found) {
    const wall = new Wall(name, actions);
    wall.element.addEventListener("focus", () => { active = wall; });
    wall.element.addEventListener("pointerup", () => setTimeout(drawStatus));
    wall.element.addEventListener("keyup", drawStatus);
    shown.push(wall);
    requestAnimationFrame(() => wall.show(found));
    return h("section", { class: "half", "aria-label": name }, h("h3", {}, name, h("span", { class: "number" }, String(found.numbers.length))), wall.element);
  }

  async function reload() {
    for (const wall of shown) wall.close();
    shown = [];
    pair ??= summary.pairs[0]?.classes.join(",") ?? null;
    drawBar();
    const ask = (values) => get(`/api/view?${new URLSearchParams({ labelled: "no", order: "useful", ...values })}`);
    try {
      if (view === "pair" && pair) {
        const [a, b] = pair.split(",").map(Number), both = await ask({ guesses: pair });
        walls.replaceChildren(...[a, b].map((own) => wallFor(`Taken for ${className(own)}`, only(both, own))));
      } else {
        const queries = { sure: { order: "sure", least: SURE }, disagree: { disagree: "yes" }, unsure: { most: SURE - 0.001 }, pair: { disagree: "yes" } };
        const found = await ask({ ...queries[view], ...(group && view !== "pair" ? { guesses: group } : {}) });
        const kept = view === "sure" ? filtered(found, (i) => found.others[i] < 0) : found;
        walls.replaceChildren(wallFor({ sure: "Sure answers", disagree: "Heads disagree", unsure: "Unsure answers", pair: "No pair is confused" }[view], kept));
      }
      [active] = shown;
      drawStatus();
    } catch (error) { announce(error.message, "error"); }
  }

  const filtered = (found, keep) => {
    const rows = found.numbers.map((_, i) => i).filter(keep), pick = (column) => rows.map((i) => found[column][i]);
    return { numbers: pick("numbers"), guesses: pick("guesses"), confidence: pick("confidence"), others: pick("others") };
  };
  // The most useful answers of one class of a pair: the heads disagree, or the model is unsure.
  const only = (found, own) => {
    const kept = filtered(found, (i) => found.guesses[i] === own);
    return Object.fromEntries(Object.entries(kept).map(([column, values]) => [column, values.slice(0, MOST_OF_PAIR)]));
  };

  function drawStatus() {
    if (!active) return;
    const chosen = active.selected.size;
    say(status, chosen ? `${count(chosen, "photo")} selected: Enter confirms the model's answers, a number corrects them.` : "Select photos that are right and press Enter; for wrong ones press the number of the right class.");
    const button = document.getElementById("confirm");
    if (button) button.textContent = chosen ? `Confirm ${chosen}` : "Confirm";
  }

  const body = h("div", { class: "work review" }), element = h("div", { class: "fill" }, body);
  async function begin() {
    await reloadSummary();
    if (isClosed) return;
    if (!summary) {
      body.replaceChildren(h("div", { class: "empty" }, h("h1", {}, "Nothing to review yet"), h("p", {}, "After the first round this page shows what the model says about photos without a label."), h("a", { class: "button primary", href: "#train" }, "Train a round →")));
      return;
    }
    body.replaceChildren(h("section", { class: "stage", "aria-label": "Answers of the model" }, h("h1", { class: "visually-hidden" }, "Review"), numbers, bar, walls, h("div", { class: "bar-bottom" }, status)),
      h("div", { class: "side-stack" }, palette.element, h("section", { class: "side checked", "aria-label": "Right per class" }, table)));
    if (!summary.sure && view === "sure") view = summary.disagree ? "disagree" : "unsure";
    await reload();
  }
  begin();
  return {
    element, title: "Review",
    update: (what) => {
      for (const wall of shown) wall.update();
      palette.update();
      if (what.training && store.finished !== round) { round = store.finished; begin(); }
    },
    close: () => { isClosed = true; for (const wall of shown) wall.close(); },
  };
}
