// Lines over the steps of a run, as SVG that follows the width of its card.

import { h, svg } from "./dom.js";

const WIDTH = 520, HEIGHT = 210, LEFT = 44, BOTTOM = 26, TOP = 10, RIGHT = 10;

export function lineChart(title, lines, { isShare = false, steps = 0 } = {}) {
  const drawn = lines.filter(({ points }) => points?.length);
  const all = drawn.flatMap(({ points }) => points);
  const last = Math.max(steps, ...all.map(([step]) => step), 1);
  const high = isShare ? 1 : Math.max(...all.map(([, value]) => value), 1e-6) * 1.05;
  const low = isShare ? 0 : Math.min(0, ...all.map(([, value]) => value));
  const x = (step) => LEFT + (step / last) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const ticks = [low, (low + high) / 2, high];
  const text = (value) => (isShare ? `${Math.round(100 * value)} %` : value.toFixed(high > 10 ? 0 : 1));
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${drawn.map(({ name, points }) => `${name} ${text(points.at(-1)[1])}`).join(", ") || "no values yet"}` },
    ticks.map((value) => svg("g", {}, svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }), svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text(value)))),
    svg("text", { x: WIDTH - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, `step ${last.toLocaleString("en")}`),
    drawn.map(({ points, kind }) => [svg("polyline", { class: `line ${kind}`, points: points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }),
      svg("circle", { class: `dot ${kind}`, cx: x(points.at(-1)[0]), cy: y(points.at(-1)[1]), r: 3.5 })]));
  return h("figure", { class: "card chart" }, h("figcaption", {}, h("b", {}, title), h("ul", { class: "legend" }, drawn.map(({ name, kind, points }) => h("li", {}, h("i", { class: kind }), `${name} `, h("b", {}, text(points.at(-1)[1])))))), picture);
}
