// Classes: their names, what each was taken for, the look-alike groups, and a map.

import { get, post } from "./api.js";
import { announce, colour, count, h, put, svg } from "./dom.js";
import { labelCounts, refresh, store } from "./store.js";

const WIDTH = 560, HEIGHT = 400, MARGIN = 56;

export function classesPage() {
  let described = { classes: [], groups: [], together: [], apart: [] };
  const list = h("ol", { class: "class-list" }), map = h("div", { class: "map" }), groups = h("div", { class: "group-list" });
  const names = h("input", { id: "new-class", type: "text", placeholder: "tabby, siamese cat, dog", autocomplete: "off", maxlength: 400 });

  async function change(values, done) {
    try {
      described = await post("/api/classes", values);
      await refresh();
      draw();
      done?.();
      return true;
    } catch (error) { announce(error.message, "error"); return false; }
  }

  const form = h("form", {
    class: "add", onsubmit: (event) => {
      event.preventDefault();
      const wanted = names.value.split(/[,;\n]/).map((name) => name.trim()).filter(Boolean);
      if (wanted.length) change({ action: "add", names: wanted }, () => { names.value = ""; names.focus(); });
    },
  }, h("label", { for: "new-class" }, "New classes, separated by commas"), h("div", { class: "row" }, names, h("button", { class: "primary", type: "submit" }, "Add")));

  function row(each, place) {
    const isUnknown = each.confidence === 0, isUnsure = each.is_doubtful || each.confidence < 0.7;
    const name = h("input", {
      class: "class-name", type: "text", value: each.name, "aria-label": `Name of class ${place + 1}`, maxlength: 80,
      onchange: async (event) => { if (!await change({ action: "rename", class: each.number, name: event.target.value })) event.target.value = each.name; },
    });
    const alias = h("input", {
      class: "alias", type: "text", value: each.alias, placeholder: "other word", "aria-label": `Word that means the same as ${each.name}`,
      onchange: async (event) => { if (!await change({ action: "alias", class: each.number, alias: event.target.value })) event.target.value = each.alias; },
    });
    const taken = isUnknown ? "not a known word: it has no look-alikes"
      : `taken for “${each.term}”${each.nearest.length ? `, near ${each.nearest.slice(0, 2).join(", ")}` : ""}`;
    return h("li", { class: "class-row", style: { "--own": colour(each.number) } },
      h("kbd", { title: place < 9 ? "Key on the Label page" : "" }, place < 9 ? String(place + 1) : "·"),
      h("div", { class: "class-main" }, name, h("p", { class: isUnknown || isUnsure ? "taken unsure" : "taken" }, taken,
        each.is_doubtful ? "; far from the other classes: if another sense is meant, write another word" : "")),
      h("div", { class: "class-alias" }, alias),
      h("span", { class: "number" }, count(labelCounts().get(each.number) ?? 0, "label")),
      h("div", { class: "class-tools" },
        h("button", { class: "quiet", "aria-label": `Move ${each.name} up`, disabled: place === 0, onclick: () => change({ action: "move", class: each.number, place: place - 1 }) }, "↑"),
        h("button", { class: "quiet", "aria-label": `Remove ${each.name}`, onclick: () => change({ action: "remove", class: each.number }, () => announce(`${each.name} is removed, with its labels. Undo brings both back.`)) }, "×")));
  }

  const nameOf = (number) => described.classes.find((each) => each.number === number)?.name ?? "?";

  function drawGroups() {
    const shared = described.groups.filter((members) => members.length > 1);
    const cards = shared.map((members) => h("li", { class: "group-card" }, members.map((number) => h("span", { class: "badge", style: { "--own": colour(number) } }, h("i"), nameOf(number))),
      h("button", { class: "quiet", onclick: () => members.slice(1).reduce((before, other) => before.then(() => change({ action: "pair", class: members[0], other, how: "apart" })), Promise.resolve()) }, "Not alike")));
    const first = h("select", { "aria-label": "First class" }), second = h("select", { "aria-label": "Second class" });
    for (const box of [first, second]) box.append(...described.classes.map((each) => h("option", { value: each.number }, each.name)));
    if (described.classes.length > 1) second.selectedIndex = 1;
    const join = (how) => () => change({ action: "pair", class: Number(first.value), other: Number(second.value), how });
    const own = [...described.together.map((pair) => [pair, "alike"]), ...described.apart.map((pair) => [pair, "not alike"])];
    put(groups,
      shared.length ? h("ul", { class: "group-cards" }, cards) : h("p", { class: "soft" }, "No two of these classes look alike by their names."),
      own.length ? h("ul", { class: "own-pairs" }, own.map(([[a, b], how]) => h("li", {}, `${nameOf(a)} and ${nameOf(b)} are ${how}: your choice `,
        h("button", { class: "quiet", onclick: () => change({ action: "pair", class: a, other: b, how: "free" }) }, "Undo")))) : null,
      described.classes.length > 1 ? h("div", { class: "row pair-form" }, first, h("span", {}, "and"), second,
        h("button", { onclick: join("together") }, "look alike"), h("button", { onclick: join("apart") }, "do not")) : null);
  }

  function drawMap() {
    if (described.classes.length < 2) { map.replaceChildren(h("p", { class: "soft" }, "The map shows classes with similar meanings close to each other, from two classes on.")); return; }
    const at = (each) => [MARGIN + each.x * (WIDTH - 2 * MARGIN), 28 + each.y * (HEIGHT - 56)];
    const points = new Map(described.classes.map((each) => [each.number, at(each)]));
    const lines = described.groups.flatMap((members) => members.slice(1).map((number, i) => [members[i], number]));
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Map of ${count(described.classes.length, "class", "classes")}; look-alikes are joined by a line` },
      lines.map(([a, b]) => { const [p, q] = [points.get(a), points.get(b)]; return svg("line", { x1: p[0], y1: p[1], x2: q[0], y2: q[1], class: "alike" }); }),
      spread(described.classes.map((each) => ({ each, point: points.get(each.number) }))).map(({ each, point, text }) => svg("g", {},
        svg("circle", { cx: point[0], cy: point[1], r: 6, fill: colour(each.number) }),
        svg("text", { x: text[0], y: text[1], "text-anchor": "middle" }, each.name))));
    map.replaceChildren(drawing);
  }

  function draw() {
    list.replaceChildren(...described.classes.map(row));
    drawGroups();
    drawMap();
  }

  const element = h("div", { class: "page" },
    h("header", { class: "intro" }, h("h1", {}, "Which kinds of photos are there?"),
      h("p", { class: "lead" }, "Name the classes with words as people use them. SemCo knows what the words mean, and so which classes look alike and are easily confused.")),
    form,
    h("div", { class: "two" },
      h("section", { class: "card wide", "aria-labelledby": "classes-title" }, h("h2", { id: "classes-title" }, "Classes"), list,
        h("p", { class: "soft", id: "no-class" }, "A word in “other word” replaces the name when SemCo looks up its meaning.")),
      h("div", { class: "stack" },
        h("section", { class: "card", "aria-labelledby": "groups-title" }, h("h2", { id: "groups-title" }, "Look-alikes"), groups),
        h("section", { class: "card", "aria-labelledby": "map-title" }, h("h2", { id: "map-title" }, "Map of meanings"), map))),
    h("p", { class: "next" }, h("a", { class: "button primary", href: "#label" }, "Label some photos →")));
  const reload = () => get("/api/classes").then((found) => { described = found; draw(); }).catch((error) => announce(error.message, "error"));
  if (store.classes.length) for (const box of [list, groups, map]) box.append(h("p", { class: "soft" }, h("span", { class: "spinner", "aria-hidden": "true" }), " Looking the words up …"));
  reload();
  if (!store.classes.length) setTimeout(() => names.focus());
  return { element, title: "Classes", update: (what) => { if (what.classes && !element.contains(document.activeElement)) reload(); }, close: () => undefined };
}

// Names above or below their points, moved apart until none overlap.
function spread(items) {
  const placed = [];
  for (const item of items) {
    const half = item.each.name.length * 3.6 + 4;
    const x = Math.max(half, Math.min(WIDTH - half, item.point[0]));
    const free = [-12, 22, -28, 38, -44, 54].find((dy) => placed.every((other) => Math.abs(other.x - x) > half + other.half || Math.abs(other.y - (item.point[1] + dy)) > 15)) ?? -12;
    placed.push({ x, y: item.point[1] + free, half });
    item.text = [x, item.point[1] + free];
  }
  return items;
}
