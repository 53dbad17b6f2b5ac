// Train: one button, live curves, stop and resume.

import { get, post } from "./api.js";
import { lineChart } from "./chart.js";
import { announce, colour, count, duration, h, percent, put } from "./dom.js";
import { labelCounts, refresh, store } from "./store.js";
import { segmented } from "./page_label.js";

export function trainPage() {
  let progress = {}, isClosed = false, minutes = localStorage.getItem("semco-minutes") || "5", start = "auto";
  const labels = h("div"), control = h("div"), curves = h("div", { class: "charts" }), log = h("ul", { class: "log" });

  function drawLabels() {
    const counts = labelCounts(), most = Math.max(1, ...counts.values()), ready = [...counts.values()].filter(Boolean).length;
    labels.replaceChildren(h("h2", {}, "Your labels"),
      h("ul", { class: "bars" }, store.classes.map(([number, name]) => h("li", {}, h("span", { class: "name" }, name),
        h("span", { class: "track" }, h("i", { style: { width: `${100 * counts.get(number) / most}%`, background: colour(number) } })), h("b", {}, String(counts.get(number)))))),
      h("p", { class: "soft" }, ready < 2 ? "Label photos of at least two classes first."
        : [...counts.values()].some((each) => each < 3) ? "Five labels per class are a good start; classes without any are left out."
          : `${count(store.labels.size, "label")}, ${count(store.photos - store.labels.size, "photo")} without: both are learned from.`));
  }

  async function act(values) {
    try { progress = await post("/api/training", values); await refresh(); draw(); } catch (error) { announce(error.message, "error"); }
  }

  function drawControl() {
    const isRunning = progress.state === "running", ready = [...labelCounts().values()].filter(Boolean).length >= 2;
    const focused = control.contains(document.activeElement) ? document.activeElement.id : "";
    if (isRunning) { put(control, running()); document.getElementById(focused)?.focus(); return; }
    const starts = [["auto", "Best start"], ["scratch", "From scratch"], ...(store.finished ? [["last", "Last round"]] : [])];
    put(control,
      h("h2", {}, progress.round ? `Round ${progress.round + (progress.can_resume ? 0 : 1)}` : "First round"), outcome(),
      h("div", { class: "field" }, h("span", {}, "Time at most"), segmented("Time at most", [["1", "1 min"], ["5", "5 min"], ["15", "15 min"], ["60", "1 h"]], minutes, (value) => { minutes = value; localStorage.setItem("semco-minutes", value); })),
      h("div", { class: "field" }, h("span", {}, "Begin with"), segmented("Begin with", starts, start, (value) => { start = value; })),
      h("p", { class: "soft" }, "Best start is a network trained on ImageNet if it is installed. A few steps are measured first, and the plan is shown."),
      h("div", { class: "row" }, h("button", { class: "primary big", id: "start", disabled: !ready, onclick: () => act({ action: "start", minutes: Number(minutes), start }) }, progress.round ? "Train again" : "Train"),
        progress.can_resume ? h("button", { class: "big", id: "resume", onclick: () => act({ action: "resume" }) }, `Resume round ${progress.round}`) : null));
  }

  function outcome() {
    if (progress.state === "failed") return h("p", { class: "notice bad", role: "alert" }, `Round ${progress.round} failed: ${progress.error}`);
    if (progress.state === "stopped") return h("p", { class: "notice" }, `Round ${progress.round} is stopped${progress.step ? ` after step ${progress.step}` : ""}; ${progress.can_resume ? "what was learned is saved." : "it had not begun to learn."}`);
    if (progress.state === "finished") return h("p", { class: "notice good" }, `Round ${progress.round} is finished${progress.seconds ? ` (${duration(progress.seconds)} of training)` : ""}. `, h("a", { href: "#review" }, "Review its answers"), " · ", h("a", { href: `/report/${progress.round}`, target: "_blank", rel: "noopener" }, "Report"));
    return null;
  }

  function running() {
    const { step = 0, total_steps: total = 0, phase, seconds_left: left } = progress;
    const part = phase?.total ? phase.done / phase.total : total ? step / total : 0;
    const what = phase ? phase.what : total ? `Step ${step.toLocaleString("en")} of ${total.toLocaleString("en")}` : "Preparing";
    return [h("h2", {}, `Round ${progress.round} is training`),
      h("div", { class: "progress", role: "progressbar", "aria-valuenow": Math.round(100 * part), "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": "Progress" }, h("i", { style: { width: percent(part, 1).replace(" ", "") } })),
      h("p", { class: "now" }, h("b", {}, what), left ? h("span", {}, `about ${duration(left)} left`) : null),
      h("p", { class: "soft" }, ...sentences(progress.messages)),
      h("div", { class: "row" }, h("button", { class: "big", id: "stop", onclick: () => act({ action: "stop" }) }, "Stop and save"), h("span", { class: "soft" }, "You can label on meanwhile."))];
  }

  // The plan, which names the measured time, and what was reported last.
  function sentences(messages = []) {
    const plan = messages.filter((each) => each.startsWith("plan: ")).map((each) => each.slice(6)).join("; "), last = messages.at(-1);
    return [plan ? `Plan: ${plan}.` : null, last && !last.startsWith("plan: ") ? ` ${last[0].toUpperCase()}${last.slice(1)}.` : null, messages.length ? null : "The process starts."];
  }

  function drawCurves() {
    const found = progress.curves ?? {}, steps = progress.total_steps ?? 0;
    const fit = found["loss/supervised_one_hot"]?.map(([step, loss]) => [step, Math.exp(-loss)]);
    curves.replaceChildren(...(Object.keys(found).length ? [
      lineChart("Loss", [{ name: "all terms", points: found.loss, kind: "one" }], { steps }),
      lineChart("Photos learned from without a label", [{ name: "one-hot head", points: found.mask_one_hot, kind: "one" }, { name: "semantic head", points: found.mask_semantic, kind: "two" }], { isShare: true, steps }),
      found.validation_accuracy ? lineChart("Accuracy on labels held out", [{ name: "accuracy", points: found.validation_accuracy, kind: "three" }], { isShare: true, steps })
        : lineChart("Probability of your labels", [{ name: "labelled photos", points: fit, kind: "three" }], { isShare: true, steps }),
      lineChart("Heads disagree", [{ name: "share of photos", points: found.disagreement, kind: "four" }], { isShare: true, steps }),
    ] : [h("p", { class: "soft empty-chart" }, "Curves appear here as soon as a round trains.")]));
    log.replaceChildren(...(progress.messages ?? []).map((message) => h("li", {}, message)));
  }

  function draw() { drawLabels(); drawControl(); drawCurves(); }

  async function poll() {
    while (!isClosed) {
      try {
        const before = JSON.stringify(progress);
        progress = await get("/api/training");
        if (!isClosed && before !== JSON.stringify(progress)) draw();
      } catch { /* the banner says that the Studio does not answer */ }
      await new Promise((resolve) => setTimeout(resolve, progress.state === "running" ? 700 : 2000));
    }
  }

  const element = h("div", { class: "page" }, h("header", { class: "intro" }, h("h1", {}, "Train"),
    h("p", { class: "lead" }, "SemCo learns from your labels and, as it becomes sure, from the photos without a label.")),
  h("div", { class: "two" }, h("section", { class: "card", "aria-label": "Training" }, control), h("section", { class: "card", "aria-label": "Labels" }, labels)),
  h("section", { "aria-label": "Curves" }, curves), h("details", { class: "log-box" }, h("summary", {}, "What the run reports"), log));
  drawLabels();
  control.append(h("p", { class: "soft" }, h("span", { class: "spinner", "aria-hidden": "true" })));  // no button that moves
  poll();
  return { element, title: "Train", update: (what) => {
    if (!what.labels && !what.classes) return;
    drawLabels();
    if (progress.state && progress.state !== "running" && !control.contains(document.activeElement)) drawControl();
  },  close: () => { isClosed = true; } };
}
