// Terms of the glossary, marked in a text and in its translation. Selecting one in either marks it in both.
import { moveWithArrows, reachable } from "/page/arrows.js";
import { byId, make } from "/page/dom.js";

let shown = [], picked = [];

export function prepareTermMarks() {
  const source = byId("term-source");
  moveWithArrows(source, "button");
  source.addEventListener("click", ({ target }) => {
    if (!target.dataset.terms) return;
    reachable([...source.querySelectorAll("button")], target);
    pick(numbersOf(target));
  });
}

// The terms of a translated text, each with where its sentence starts and with what became of it.
export function termsOf(text, { terms, sentences }) {
  const starts = startsOf(text, sentences);
  return terms.map((term, number) => {
    const sentence = starts.findLastIndex((start) => start <= term.start);
    return { ...term, number, ...becameOf(term, sentences[sentence].flag), sentence: sentences[sentence], within: term.start - starts[sentence] };
  });
}

// Only white space is between sentences. Places count characters as the server does, not as JavaScript does.
function startsOf(text, sentences) {
  let place = 0;
  return sentences.map(({ source }) => {
    const start = text.indexOf(source, place);
    place = start + source.length;
    return [...text.slice(0, start)].length;
  });
}

function becameOf({ source, targets, target, enforced }, flag) {
  const pair = targets.length ? `${source} → ${targets.join(", ")}` : source;
  if (target) return { state: enforced ? "enforced" : "own", about: `term: ${pair}; ${enforced ? "the glossary asked for it" : "the model had it by itself"}` };
  if (flag.includes(`term missing: ${targets.length ? `${source} (${targets.join(", ")})` : source}`)) return { state: "missing", about: `term: ${pair}; missing in the translation` };
  return { state: "free", about: `term: ${pair}; the translation need not have it` };
}

// The terms of one sentence, with their places in its own translation.
export function termsWithin(terms, sentence, explained) {
  const own = terms.filter((term) => term.sentence === sentence);
  return explained.map((term) => ({ ...own.find(({ within }) => within === term.start), target: term.target, target_start: term.target_start }))
    .filter((term) => term.number !== undefined);
}

// Shows the source with its terms, if it has any.
export function showTermSource(text, terms, language) {
  shown = terms;
  picked = [];
  byId("term-card").hidden = !terms.length;
  byId("term-source").lang = language || "";
  byId("term-source").replaceChildren(...cut(text, terms.map(({ start, end, number }) => ({ start, end, number }))).map((piece) => {
    const [term] = piece.terms.map((number) => terms[number]);
    return term ? make("button", { type: "button", class: `term ${term.state}`, title: term.about, "aria-label": `${piece.text}, ${term.about}`,
      "aria-pressed": "false", "data-terms": piece.terms.join(" "), tabindex: term.number ? "-1" : "0" }, piece.text) : piece.text;
  }));
}

// A part of the translation with its terms marked; the part starts at a place of the translation.
export function markedTarget(text, terms, start) {
  return cut(text, spansOf(terms, start)).map((piece) => (piece.terms.length ? make("mark", markOf(piece.terms), piece.text) : piece.text));
}

export const spansOf = (terms, start = 0) => terms.filter(({ target }) => target)
  .map(({ number, target, target_start: place }) => ({ number, start: place - start, end: place - start + [...target].length }));

// The class, title and numbers of what is marked as some terms.
export function markOf(numbers) {
  const terms = numbers.map((number) => shown[number]);
  return { class: `term ${terms[0].state}`, title: aboutOf(numbers), "data-terms": numbers.join(" ") };
}

export const aboutOf = (numbers) => [...new Set(numbers.map((number) => shown[number].about))].join("; ");

export const numbersOf = (element) => (element.dataset.terms || "").split(" ").filter(Boolean).map(Number);

// Marks some terms wherever they are shown; without numbers, those that were marked before.
export function pick(numbers = picked) {
  picked = numbers;
  for (const element of byId("result").querySelectorAll("[data-terms]")) {
    const isPicked = numbersOf(element).some((number) => picked.includes(number));
    element.classList.toggle("picked", isPicked);
    if (byId("term-source").contains(element)) element.setAttribute("aria-pressed", String(isPicked));
  }
}

// The pieces between all places where a span starts or ends, each with the numbers of its spans.
function cut(text, spans) {
  const all = [...text], inside = (place) => Math.max(0, Math.min(all.length, place));
  const edges = [...new Set([0, all.length, ...spans.flatMap(({ start, end }) => [inside(start), inside(end)])])].sort((one, other) => one - other);
  return edges.slice(1).map((end, place) => ({ text: all.slice(edges[place], end).join(""),
    terms: spans.filter((span) => span.start <= edges[place] && span.end >= end).map(({ number }) => number) }));
}
