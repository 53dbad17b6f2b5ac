// Classes: their names, what each was taken for, the groups by name, and a map.

import { get } from "./api.js";
import { colour, count, h, isNarrow, put, putNew, svg } from "./dom.js";
import { announce, attempt, badge, busy } from "./parts.js";
import { changeClasses, labelCounts, refresh, store } from "./store.js";

const HEIGHT = 360,
  MARGIN = 56,
  EDGE = 28; // of the map
const NO_CLASSES = "They appear here, each with the meaning that SemCo has found for it.";

export function classesPage() {
  let described = { classes: [], groups: [], together: [], apart: [], seq: 0 };
  let isListOld = false; // while a person types in a row, the rows are not drawn again
  const list = h("ol", { class: "class-list" }),
    groups = h("div"),
    map = h("div", { class: "map" });
  const names = h("input", {
    id: "new-class",
    type: "text",
    placeholder: "tabby, siamese cat, dog",
    autocomplete: "off",
    maxlength: 400,
  });

  const working = h("div", { class: "working", role: "status" });

  // Return whether the change was made. If it was refused, another tab may have changed what is shown here.
  const change = (values) =>
    attempt(async () => {
      try {
        show(await changeClasses(() => ({ ...values, seen: described.seq })));
      } catch (error) {
        if (error.content) reload();
        throw error;
      }
      await refresh();
      return true;
    });

  // Answers may come in any order; the newest is shown.
  function show(answer) {
    if (answer.seq >= described.seq) described = answer;
    draw();
  }

  async function add(event) {
    event.preventDefault();
    const wanted = names.value
      .split(/[,;\n]/)
      .map((name) => name.trim())
      .filter(Boolean);
    if (!wanted.length || !(await change({ action: "add", names: wanted }))) return;
    names.value = "";
    names.focus();
  }

  // A text of a class; if the Studio refuses another one, the old one is shown again.
  function field(each, action, name, properties) {
    const onchange = async ({ target }) => {
      if (!(await change({ action, class: each.number, [name]: target.value }))) target.value = each[name];
    };
    const shown = { "data-class": each.number, "data-field": name };
    return h("input", { type: "text", value: each[name], autocomplete: "off", onchange, ...shown, ...properties });
  }

  function meaning(each) {
    if (each.confidence === 0)
      return h("p", { class: "taken unsure" }, "Not a known word: it is in no group. Another word helps.");
    const near = each.nearest.length ? `, near ${each.nearest.slice(0, 2).join(" and ")}` : "";
    const doubt = each.is_doubtful ? ". Far from the other classes: if another sense is meant, write another word" : "";
    return h(
      "p",
      { class: each.is_doubtful || each.confidence < 0.7 ? "taken unsure" : "taken" },
      `${each.term ? `Taken for “${each.term}”` : "Placed by its meaning"}${near}${doubt}.`,
    );
  }

  function row(each, place) {
    const up = () => change({ action: "move", class: each.number, place: place - 1 });
    const remove = async () => {
      if (await change({ action: "remove", class: each.number }))
        announce(`${each.name} is removed, with its labels. Undo brings both back.`);
    };
    return h(
      "li",
      { class: "class-row", style: { "--own": colour(each.number) } },
      h("kbd", { title: place < 9 ? "Key on the Label page" : null }, place < 9 ? String(place + 1) : "·"),
      h(
        "div",
        { class: "class-main" },
        field(each, "rename", "name", {
          class: "class-name",
          "aria-label": `Name of class ${place + 1}`,
          maxlength: 80,
        }),
        meaning(each),
      ),
      h(
        "div",
        { class: "class-alias" },
        field(each, "alias", "alias", {
          class: "alias",
          placeholder: "another word",
          "aria-label": `Word that means the same as ${each.name}`,
        }),
      ),
      h("span", { class: "number" }, count(labelCounts().get(each.number) ?? 0, "label")),
      h(
        "div",
        { class: "class-tools" },
        h(
          "button",
          {
            class: "quiet",
            "aria-label": `Move ${each.name} up`,
            title: "Move up",
            disabled: place === 0,
            onclick: up,
          },
          "↑",
        ),
        h("button", { class: "quiet", "aria-label": `Remove ${each.name}`, title: "Remove", onclick: remove }, "×"),
      ),
    );
  }

  const nameOf = (number) => described.classes.find((each) => each.number === number)?.name ?? "?";

  function groupCard(members) {
    const apart = async () => {
      for (const other of members.slice(1)) await change({ action: "pair", class: members[0], other, how: "apart" });
    };
    return h(
      "li",
      { class: "group-card" },
      members.map((number) => badge(number, nameOf(number))),
      h(
        "button",
        { class: "quiet", "aria-label": `${members.map(nameOf).join(" and ")} are not alike`, onclick: apart },
        "Not alike",
      ),
    );
  }

  function pairForm() {
    const options = described.classes.map((each) => [each.number, each.name]);
    const box = (name, chosen) =>
      h(
        "select",
        { "aria-label": name },
        options.map(([value, text], i) => h("option", { value, selected: i === chosen }, text)),
      );
    const first = box("First class", 0),
      second = box("Second class", 1);
    const join = (how) => () =>
      change({ action: "pair", class: Number(first.value), other: Number(second.value), how });
    return h(
      "div",
      { class: "row pair-form" },
      first,
      h("span", {}, "and"),
      second,
      h("button", { onclick: join("together") }, "look alike"),
      h("button", { onclick: join("apart") }, "do not"),
    );
  }

  function drawGroups() {
    const shared = described.groups.filter((members) => members.length > 1);
    const own = [
      ...described.together.map((pair) => [pair, "alike"]),
      ...described.apart.map((pair) => [pair, "not alike"]),
    ];
    const free = ([a, b]) => change({ action: "pair", class: a, other: b, how: "free" });
    put(
      groups,
      h(
        "p",
        { class: "soft" },
        shared.length
          ? "If SemCo cannot decide between the classes of a group, it still learns that a photo is one of them."
          : described.classes.length
            ? "No two of these names are close in meaning."
            : "Groups of similar classes appear here.",
      ),
      shared.length ? h("ul", { class: "group-cards" }, shared.map(groupCard)) : null,
      own.length
        ? h(
            "ul",
            { class: "own-pairs" },
            own.map(([pair, how]) =>
              h(
                "li",
                {},
                `${pair.map(nameOf).join(" and ")} are ${how}: your choice `,
                h(
                  "button",
                  {
                    class: "quiet",
                    "aria-label": `Undo the choice about ${pair.map(nameOf).join(" and ")}`,
                    onclick: () => free(pair),
                  },
                  "Undo",
                ),
              ),
            ),
          )
        : null,
      described.classes.length > 1 ? pairForm() : null,
    );
  }

  function drawMap() {
    if (described.classes.length < 2) {
      put(
        map,
        h("p", { class: "soft" }, "From two classes on, a map shows those with similar meanings close to each other."),
      );
      return;
    }
    const width = isNarrow() ? 340 : 560;
    const at = (each) => [MARGIN + each.x * (width - 2 * MARGIN), EDGE + each.y * (HEIGHT - 2 * EDGE)];
    const points = new Map(described.classes.map((each) => [each.number, at(each)]));
    const pairs = described.groups.flatMap((members) => members.slice(1).map((number, i) => [members[i], number]));
    const line = ([[x1, y1], [x2, y2]]) => svg("line", { x1, y1, x2, y2, class: "alike" });
    const spoken = `Map of ${count(described.classes.length, "class", "classes")}; classes of one group are joined by a line`;
    put(
      map,
      svg(
        "svg",
        { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": spoken },
        pairs.map((pair) => line(pair.map((number) => points.get(number)))),
        named(described.classes, points, width).map(({ each, x, y }) =>
          svg(
            "g",
            {},
            svg("circle", {
              cx: points.get(each.number)[0],
              cy: points.get(each.number)[1],
              r: 6,
              fill: colour(each.number),
            }),
            svg("text", { x, y, "text-anchor": "middle" }, each.name),
          ),
        ),
      ),
    );
  }

  // Whether a person has written something into a row that is not sent yet.
  function isTyping() {
    const field = list.contains(document.activeElement) ? document.activeElement : null;
    const each = described.classes.find(({ number }) => String(number) === field?.dataset.class);
    return Boolean(each && field.dataset.field && field.value !== each[field.dataset.field]);
  }

  function drawList() {
    isListOld = isTyping();
    if (isListOld) return;
    put(list, described.classes.length ? described.classes.map(row) : h("li", { class: "soft" }, NO_CLASSES));
  }

  function drawWorking() {
    element.setAttribute("aria-busy", String(store.working > 0));
    putNew(working, store.working > 0, () => (store.working ? busy("Working …") : null));
  }

  function draw() {
    drawList();
    drawGroups();
    drawMap();
  }

  const card = (id, title, ...content) =>
    h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), content);
  const element = h(
    "div",
    { class: "page" },
    h(
      "header",
      { class: "intro" },
      h("h1", {}, "Which kinds of photos are there?"),
      h(
        "p",
        { class: "lead" },
        "Name the classes in everyday words. SemCo knows what they mean, and so which classes may look alike.",
      ),
    ),
    h(
      "form",
      { class: "add", onsubmit: add },
      h("label", { for: "new-class" }, "New classes, separated by commas"),
      h("div", { class: "row" }, names, h("button", { class: "primary", type: "submit" }, "Add"), working),
    ),
    h(
      "div",
      { class: "two" },
      card(
        "classes-title",
        "Classes",
        h(
          "p",
          { class: "soft" },
          "If a name was taken for the wrong thing, write another word for it beside it. The name stays.",
        ),
        list,
      ),
      h(
        "div",
        { class: "stack" },
        card("groups-title", "Grouped by name", groups),
        card("map-title", "Map of meanings", map),
      ),
    ),
    h("p", { class: "next" }, h("a", { class: "button primary big", href: "#label" }, "Label some photos →")),
  );
  const reload = () => attempt(async () => show(await get("/api/classes")));
  list.addEventListener("focusout", () => setTimeout(() => isListOld && !store.working && drawList()));
  for (const box of [list, groups, map]) put(box, busy("Looking the words up …"));
  reload();
  if (!store.classes.length) setTimeout(() => names.focus());
  const update = (what) => {
    drawWorking();
    if (what.isBack || (what.classes && !element.contains(document.activeElement))) reload();
  };
  return { element, update, close: () => undefined };
}

// Return the classes with a place for each name, above or below its point; names hide nothing if possible.
function named(classes, points, width) {
  const placed = [];
  for (const each of classes) {
    const half = each.name.length * 3.6 + 4,
      [left, top] = points.get(each.number);
    const x = Math.max(half, Math.min(width - half, left));
    const isFree = (y) =>
      placed.every((other) => Math.abs(other.x - x) > half + other.half || Math.abs(other.y - y) > 15) &&
      [...points.values()].every((point) => Math.abs(point[0] - x) > half + 6 || Math.abs(point[1] - (y - 4)) > 12);
    const y = [-12, 22, -28, 38, -44, 54].map((offset) => top + offset).find(isFree) ?? top - 12;
    placed.push({ each, x, y, half });
  }
  return placed;
}
