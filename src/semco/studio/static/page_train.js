// Train: one button, live curves, stop and resume.

import { get, post } from "./api.js";
import { lineChart } from "./chart.js";
import { colour, count, duration, h, percent, plain, put } from "./dom.js";
import { accuracyText, attempt, bar, busy, segmented } from "./parts.js";
import { labelCounts, labelledClasses, refresh, store } from "./store.js";

const TIMES = [
  ["1", "1 min"],
  ["5", "5 min"],
  ["15", "15 min"],
  ["60", "1 h"],
];
// What a run does before its first step, in words that need no knowledge of networks.
const PHASES = { "frozen layers": "Looking at every photo once", "looking at the photos": "Looking at the photos" };
const POLL = { running: 700, other: 2000 }; // milliseconds

export function trainPage() {
  let progress = {},
    isClosed = false,
    minutes = localStorage.getItem("semco-minutes") || "5",
    start = "auto";
  const labels = h("div"),
    accuracies = h("div", { class: "later" }),
    control = h("div", {}, busy("Asking for the last round …"));
  const curves = h("div", { class: "charts" }),
    log = h("ul", { class: "log" });

  function drawLabels() {
    const counts = labelCounts(),
      most = Math.max(1, ...counts.values()),
      open = store.photos - store.labels.size;
    const isFew = [...counts.values()].some((each) => each < 3);
    const rows = store.classes.map(([number, name]) =>
      bar(name, counts.get(number) / most, colour(number), plain(counts.get(number))),
    );
    put(
      labels,
      h("h2", {}, "Your labels"),
      rows.length ? h("ul", { class: "bars" }, rows) : null,
      labelledClasses() < 2
        ? h(
            "p",
            { class: "notice" },
            "Training needs labelled photos of at least two classes. ",
            h("a", { href: rows.length ? "#label" : "#classes" }, rows.length ? "Label some" : "Name the classes"),
          )
        : null,
      h(
        "p",
        { class: "soft" },
        isFew
          ? "Five labels per class are a good start. Classes without any are left out."
          : `${count(store.labels.size, "label")}; the ${count(open, "photo")} without one are learned from as well.`,
      ),
    );
  }

  const act = (values) =>
    attempt(async () => {
      progress = await post("/api/training", values);
      await refresh();
      draw();
    });

  function drawControl() {
    const focused = control.contains(document.activeElement) ? document.activeElement.id : "";
    put(control, progress.state === "running" ? running() : idle());
    if (focused) document.getElementById(focused)?.focus();
  }

  function idle() {
    const starts = [
      ["auto", "Best start"],
      ["scratch", "From scratch"],
      ...(store.finished ? [["last", "Last round"]] : []),
    ];
    const keep = (value) => {
      minutes = value;
      localStorage.setItem("semco-minutes", value);
    };
    const field = (name, options, value, onchange) =>
      h("div", { class: "field" }, h("span", {}, name), segmented(name, options, value, onchange));
    const number = progress.round + (progress.can_resume ? 0 : 1);
    return [
      h("h2", {}, number > 1 || progress.can_resume ? `Round ${number}` : "First round"),
      outcome(),
      field("Time at most", TIMES, minutes, keep),
      field("Begin with", starts, start, (value) => {
        start = value;
      }),
      h(
        "p",
        { class: "soft" },
        "Best start: a network trained on ImageNet, if installed; its last layer is fitted in seconds.",
      ),
      h(
        "div",
        { class: "row" },
        h(
          "button",
          {
            class: "primary big",
            id: "start",
            disabled: labelledClasses() < 2,
            onclick: () => act({ action: "start", minutes: Number(minutes), start }),
          },
          progress.round ? "Train again" : "Train",
        ),
        progress.can_resume
          ? h(
              "button",
              { class: "big", id: "resume", onclick: () => act({ action: "resume" }) },
              `Resume round ${progress.round}`,
            )
          : null,
      ),
    ];
  }

  function outcome() {
    const { state, round, step, error, seconds, can_resume: canResume } = progress;
    if (state === "failed") return h("p", { class: "notice bad", role: "alert" }, `Round ${round} failed: ${error}`);
    if (state === "stopped") {
      return h(
        "p",
        { class: "notice" },
        `Round ${round} is stopped${step ? ` after step ${plain(step)}` : ""}; ` +
          (canResume ? "what was learned is saved." : "it had not begun to learn."),
      );
    }
    if (state !== "finished") return null;
    return h(
      "p",
      { class: "notice good" },
      `Round ${round} is finished${seconds ? ` (${duration(seconds)} of training)` : ""}. `,
      h("a", { href: "#review" }, "Review its answers"),
      " · ",
      h("a", { href: `/report/${round}`, target: "_blank", rel: "noopener" }, "Report"),
    );
  }

  function running() {
    const { step = 0, total_steps: total = 0, phase, seconds_left: left } = progress;
    const part = phase?.total ? phase.done / phase.total : total ? step / total : 0;
    const what = phase
      ? `${PHASES[phase.what] ?? capital(phase.what)}: ${plain(phase.done)} of ${plain(phase.total)}`
      : total
        ? `Step ${plain(step)} of ${plain(total)}`
        : "Preparing";
    const track = h(
      "div",
      {
        class: "progress",
        role: "progressbar",
        "aria-valuenow": Math.round(100 * part),
        "aria-valuemin": 0,
        "aria-valuemax": 100,
        "aria-label": "Progress",
      },
      h("i", { style: { width: `${100 * part}%` } }),
    );
    return [
      h("h2", {}, `Round ${progress.round} is training`),
      track,
      h("p", { class: "now" }, h("b", {}, what), left ? h("span", {}, `about ${duration(left)} left`) : null),
      plan(),
      h(
        "div",
        { class: "row" },
        h("button", { class: "big", id: "stop", onclick: () => act({ action: "stop" }) }, "Stop and save"),
        h("span", { class: "soft" }, "You can go on labelling meanwhile."),
      ),
    ];
  }

  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  // What the run has decided after timing a few steps.
  function plan() {
    const found = (progress.messages ?? []).filter((each) => each.startsWith("plan: ")).map((each) => each.slice(6));
    return found.length
      ? h(
          "ul",
          { class: "plan", "aria-label": "Plan" },
          found.map((each) => h("li", {}, each)),
        )
      : h("p", { class: "soft" }, "The run reads the photos and times a few steps.");
  }

  // On photos whose labels a round has not learned from.
  function drawAccuracies() {
    const rows = (progress.accuracies ?? []).filter(({ accuracy }) => accuracy);
    const [newest] = rows;
    put(
      accuracies,
      newest
        ? [
            h("h2", {}, "How good are the rounds?"),
            h(
              "ul",
              { class: "bars" },
              rows.map(({ round, accuracy: { value, right, total } }) =>
                bar(`Round ${round}`, value, "var(--c3)", `${plain(right)} of ${plain(total)}`),
              ),
            ),
            h(
              "p",
              { class: "soft" },
              `Round ${newest.round} is ${accuracyText(newest.accuracy)}` +
                `${newest.accuracy.probe ? `; ${newest.accuracy.probe}` : ""}.`,
            ),
          ]
        : null,
    );
  }

  function drawCurves() {
    const found = progress.curves ?? {},
      steps = progress.total_steps ?? 0;
    const line = (name, metric, kind) => ({ name, points: found[metric], kind });
    put(
      curves,
      Object.keys(found).length
        ? [
            found.validation_accuracy
              ? lineChart(
                  "Accuracy on photos held out",
                  [line("held out", "validation_accuracy", "four")],
                  { isShare: true, steps },
                  "Photos with labels that it does not learn from.",
                )
              : null,
            lineChart(
              "Retained photos",
              [
                line("one-hot head", "pseudo/one_hot/ratio", "one"),
                line("semantic head", "pseudo/semantic/ratio", "two"),
              ],
              { isShare: true, steps },
              "Retained ratio: the share of photos without a label of which a head is sure enough to learn from them.",
            ),
            lineChart(
              "Loss",
              [line("all terms", "loss", "one")],
              { steps },
              "What training makes smaller. It may rise while more photos are taken in.",
            ),
            lineChart(
              "Heads disagree",
              [line("share of photos", "disagreement", "four")],
              { isShare: true, steps },
              "Photos without a label for which the two heads name different classes.",
            ),
          ]
        : null,
    );
    put(
      log,
      (progress.messages ?? []).map((message) => h("li", {}, message)),
    );
  }

  function draw() {
    drawLabels();
    drawControl();
    drawAccuracies();
    drawCurves();
  }

  async function poll() {
    while (!isClosed) {
      try {
        const before = JSON.stringify(progress);
        progress = await get("/api/training");
        if (!isClosed && before !== JSON.stringify(progress)) draw();
      } catch {
        /* the banner says that the Studio does not answer */
      }
      await new Promise((resolve) => {
        setTimeout(resolve, POLL[progress.state] ?? POLL.other);
      });
    }
  }

  const card = (name, ...content) => h("section", { class: "card", "aria-label": name }, content);
  const element = h(
    "div",
    { class: "page" },
    h(
      "header",
      { class: "intro" },
      h("h1", {}, "Train"),
      h(
        "p",
        { class: "lead" },
        "SemCo learns from your labels and, as it becomes sure, from the photos without a label.",
      ),
    ),
    h("div", { class: "two" }, card("Training", control), card("Labels", labels, accuracies)),
    h("section", { "aria-label": "Curves" }, curves),
    h("details", { class: "log-box" }, h("summary", {}, "What the run reports"), log),
  );
  drawLabels();
  poll();
  const update = (what) => {
    if (!what.labels && !what.classes) return;
    drawLabels();
    if (progress.state && progress.state !== "running" && !control.contains(document.activeElement)) drawControl();
  };
  return {
    element,
    update,
    close: () => {
      isClosed = true;
    },
  };
}
