// SVG charts. The style sheet sets the colors, so that they follow the light and dark themes.
import { draw, make, number, spoken } from "/page/dom.js";

const LARGE = 64;

const legend = () => make("p", { class: "key" }, make("span", { class: "known" }, "● known"), make("span", { class: "unknown" }, "▲ unknown"));

export function histogram(bins) {
  const used = merged(bins), most = Math.max(...used.map((bin) => bin.known + bin.unknown), 1);
  const width = 440, height = 330, left = 2, foot = 42, head = 22, step = (width - left) / used.length;
  const scale = (count) => (count / most) * (height - foot - head);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": describe(used) });
  svg.append(draw("line", { class: "axis", x1: 0, x2: width, y1: height - foot, y2: height - foot }));
  used.forEach((bin, place) => {
    const x = left + place * step + step * 0.12, wide = step * 0.76;
    const unknown = scale(bin.unknown), known = scale(bin.known), base = height - foot;
    const bar = draw("g", {}, draw("title", {}, `margin ${bin.name}: ${number(bin.known)} known, ${number(bin.unknown)} unknown`));
    if (known) bar.append(draw("rect", { class: "known", x, width: wide, y: base - known, height: known }));
    if (unknown) bar.append(draw("rect", { class: "unknown", x, width: wide, y: base - known - unknown, height: unknown }));
    const label = draw("text", { class: "label", x: x + wide / 2, y: base + 17, "text-anchor": "middle" }, bin.name);
    const count = draw("text", { class: "count", x: x + wide / 2, y: base - known - unknown - 6, "text-anchor": "middle" }, short(bin.known + bin.unknown));
    svg.append(bar, label, count);
  });
  svg.append(draw("text", { class: "label", x: width / 2, y: height - 4, "text-anchor": "middle" }, "knowledge margin"));
  return make("figure", {}, svg, legend());
}

// Merges all large margins into one bar, so that the labels stay readable on a phone.
function merged(bins) {
  const shown = bins.filter((bin) => bin.least <= LARGE).map((bin) => ({ ...bin }));
  for (const bin of bins.filter((one) => one.least > LARGE)) {
    shown.at(-1).known += bin.known;
    shown.at(-1).unknown += bin.unknown;
  }
  shown.forEach((bin, place) => {
    const next = shown[place + 1]?.least;
    bin.name = !next ? `${bin.least}+` : next === bin.least + 1 ? `${bin.least}` : `${bin.least}–${next - 1}`;
  });
  return shown;
}

const short = (count) => (count >= 10000 ? `${Math.round(count / 1000)}k` : count >= 1000 ? `${(count / 1000).toFixed(1)}k` : String(count));

const describe = (bins) => `Entries by margin. ${bins.map((bin) => `${bin.name}: ${bin.known} known, ${bin.unknown} unknown`).join(". ")}.`;

export function keyMap(found, onChoose) {
  const narrow = matchMedia("(max-width: 48rem)").matches, width = narrow ? 420 : 900, height = narrow ? 400 : 480, edge = 14;
  const range = (values) => [Math.min(...values), Math.max(...values)];
  const [[left, right], [low, high]] = [range(found.x), range(found.y)];
  const across = (x) => edge + ((x - left) / (right - left || 1)) * (width - 2 * edge);
  const down = (y) => height - edge - ((y - low) / (high - low || 1)) * (height - 2 * edge);
  const known = found.known.filter(Boolean).length;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "map",
    "aria-label": `${found.x.length} keys in two dimensions, ${known} known and ${found.x.length - known} unknown.` });
  found.x.forEach((x, place) => {
    const cx = across(x).toFixed(1), cy = down(found.y[place]).toFixed(1);
    const point = found.known[place] ? draw("circle", { class: "known", cx, cy, r: 3 })
      : draw("path", { class: "unknown", d: `M${cx} ${(cy - 4).toFixed(1)}l3.6 6.4h-7.2z` });
    point.dataset.place = place;
    point.append(draw("title", {}, `${spoken(found.token[place])} · sentence ${found.sentence[place]} · ${found.known[place] ? "known" : "unknown"}`));
    svg.append(point);
  });
  svg.addEventListener("click", (event) => { const place = event.target.dataset?.place; if (place) onChoose(Number(place)); });
  return make("figure", {}, svg, legend());
}
