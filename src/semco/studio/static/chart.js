// Lines over the steps of a run, as SVG that follows the width of its card.

import { h, isNarrow, plain, svg } from "./dom.js";

const HEIGHT = 200,
  LEFT = 44,
  BOTTOM = 26,
  TOP = 10,
  RIGHT = 10;

// `lines`: name, points as [step, value], kind (a colour); lines without points are left out.
export function lineChart(title, lines, { isShare = false, steps = 0 }, explanation) {
  const drawn = lines.filter(({ points }) => points?.length),
    values = drawn.flatMap(({ points }) => points);
  const width = isNarrow() ? 340 : 520;
  const last = Math.max(steps, 1, ...values.map(([step]) => step));
  const high = isShare ? 1 : 1.05 * Math.max(1e-6, ...values.map(([, value]) => value));
  const low = isShare ? 0 : Math.min(0, ...values.map(([, value]) => value));
  const x = (step) => LEFT + (step / last) * (width - LEFT - RIGHT);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const text = (value) =>
    isShare ? `${Math.round(100 * value)} %` : value.toFixed(high > 10 ? 0 : high > 0.5 ? 1 : 2);
  const now = (points) => text(points.at(-1)[1]);
  const tick = (value) => [
    svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text(value)),
  ];
  const line = ({ points, kind }) => [
    svg("polyline", {
      class: `line ${kind}`,
      points: points.map(([s, v]) => `${x(s).toFixed(1)},${y(v).toFixed(1)}`).join(" "),
    }),
    svg("circle", { class: `dot ${kind}`, cx: x(points.at(-1)[0]), cy: y(points.at(-1)[1]), r: 3.5 }),
  ];
  const spoken = drawn.map(({ name, points }) => `${name} ${now(points)}`).join(", ") || "no values yet";
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${spoken}` },
    [low, (low + high) / 2, high].map(tick),
    drawn.map(line),
    svg("text", { x: width - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, `step ${plain(last)}`),
  );
  const legend = drawn.map(({ name, kind, points }) =>
    h("li", {}, h("i", { class: kind }), `${name} `, h("b", {}, now(points))),
  );
  return h(
    "figure",
    { class: "card chart", "aria-label": title },
    h("figcaption", {}, h("h2", {}, title), h("ul", { class: "legend" }, legend)),
    picture,
    h("p", { class: "soft" }, explanation),
  );
}
