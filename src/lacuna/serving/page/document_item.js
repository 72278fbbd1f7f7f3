// A document in the list: how far it is, and when it is done, what was translated and what a person should look at.
import { make, number, percent } from "/page/dom.js";

const FIRST_REVIEWED = 10;

// Only what changes is replaced, so that a button keeps the focus while the document is translated.
export function makeItem(name, onRemove, onDownload) {
  const line = make("p", { class: "hint" }), bar = make("progress", { "aria-label": `Progress of ${name}` });
  const error = make("p", { class: "notice error" }), report = make("div");
  const fetched = make("button", { type: "button", class: "primary", "aria-label": `Download the translation of ${name}`, onclick: onDownload }, "Download");
  const removal = make("button", { type: "button", onclick: onRemove });
  const element = make("li", { class: "card document" }, make("div", { class: "heading" }, make("h2", {}, name), make("div", { class: "actions" }, fetched, removal)),
    line, bar, error, report);
  const show = (state) => {
    const ended = state.status === "done" || state.status === "failed", verb = ended ? "Remove" : "Cancel";
    element.dataset.status = state.status;
    line.textContent = describe(state);
    bar.hidden = ended;
    error.textContent = state.error || "";
    error.hidden = !state.error;
    fetched.hidden = state.status !== "done";
    removal.textContent = verb;
    removal.setAttribute("aria-label", `${verb} ${name}`);
    if (state.report && !report.hasChildNodes()) report.append(figures(state.report), ...reviews(state.report));
  };
  return { element, show };
}

function describe({ status, sentences, download }) {
  if (status === "running") return `Translating: ${number(sentences)} sentence${sentences === 1 ? "" : "s"} so far`;
  if (status === "done") return `Done: ${download}`;
  return { sending: "Sending…", waiting: "Waiting for its turn…", failed: "Failed" }[status];
}

function figures(report) {
  const counts = [["Segments", report.segments], ["Translated", report.translated], ["Exact matches", report.matched], ["Kept", report.kept],
    ["To review", report.review], ...(report.without_memory ? [["Without memory", report.without_memory]] : [])];
  return make("dl", { class: "figures" }, ...counts.map(([name, count]) => make("div", {}, make("dt", {}, name), make("dd", {}, number(count)))));
}

function reviews({ review, least_sure: listed }) {
  if (!listed.length) return [];
  const items = listed.map((one, place) => reviewItem(one, place >= FIRST_REVIEWED));
  const more = make("button", { type: "button", class: "quiet", onclick: () => {
    for (const item of items) item.hidden = false;
    more.remove();
    items[FIRST_REVIEWED].focus();
  } }, `Show all ${number(items.length)}`);
  return [make("h3", {}, "To review, least sure first"),
    review > listed.length ? make("p", { class: "hint" }, `The first ${number(listed.length)} of ${number(review)}.`) : "",
    make("ol", { class: "reviews" }, ...items), items.length > FIRST_REVIEWED ? more : ""];
}

function reviewItem({ place, source, text, confidence, reason }, hidden) {
  return make("li", { hidden, tabindex: "-1" }, make("p", { class: "source" }, source), make("p", { class: "target" }, text),
    make("p", { class: "origin" }, make("span", { class: "doubt" }, `⚠ ${reason}`), confidence === null ? null : make("span", {}, `confidence ${percent(confidence)}`),
      place ? make("span", {}, /^\d+$/.test(place) ? `line ${place}` : place) : null));
}
