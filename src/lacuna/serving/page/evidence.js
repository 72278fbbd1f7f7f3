// The evidence for the translation of one sentence: its words, and for a selected word why and by whom it was chosen.
import { moveWithArrows, reachable } from "/page/arrows.js";
import { byId, knownMark, make, meter, percent, spoken } from "/page/dom.js";
import { forgetButton, offerCorrection } from "/page/edits.js";
import { showSentence } from "/page/sentence.js";
import { aboutOf, markOf, numbersOf, pick, spansOf } from "/page/term_marks.js";
import { level, wordsOf } from "/page/words.js";

export function prepareEvidence() {
  moveWithArrows(byId("adapted"), "button");
}

export function hideEvidence() {
  byId("evidence").hidden = true;
}

// A match is the memory whose translation of the same sentence this is: a person's, about which the model's confidence says nothing.
// The terms are those of the glossary in this sentence.
export function showEvidence(answer, memories, doubt, match, terms) {
  byId("evidence").hidden = false;
  byId("why").hidden = true;
  byId("legend").hidden = !memories.length;
  byId("why-hint").hidden = false;
  byId("base").textContent = answer.base_text;
  byId("adapted-title").textContent = memories.length ? `Model with memory: ${memories.join(" and ")}` : "No memory chosen";
  const words = wordsOf(answer.tokens), written = words.filter((word) => /[\p{L}\p{N}]/u.test(word.text)), changed = written.filter((word) => word.changed).length;
  const sure = match || answer.confidence === null ? "" : ` Confidence of the model alone: ${percent(answer.confidence)} per word.`;
  const exact = match ? `Exact match: this is the translation of the same sentence in the memory ${match}. ` : "";
  byId("score").textContent = exact + (!memories.length ? "Translation of the model alone. Select a memory above."
    : (changed ? `The memory changed ${changed} of ${written.length} words.` : "The memory changed no word.") + sure);
  byId("doubt").textContent = doubt && `⚠ Please check: ${doubt}.`;
  byId("doubt").hidden = !doubt;
  const spans = spansOf(terms);
  byId("adapted").replaceChildren(...words.flatMap((word, place) => [word.space ? " " : "", wordButton(word, place, spans)]));
  byId("without").hidden = !answer.without_glossary;
  byId("without-text").textContent = answer.without_glossary;
  pick();
  offerCorrection(answer, memories);
}

function wordButton(word, place, spans) {
  const terms = termsInWord(word, spans), mark = terms.length ? markOf(terms) : {};
  const kind = `word level-${level(word.margin)}${word.changed ? " changed" : ""}${word.end ? " end" : ""} ${mark.class || ""}`;
  const about = [word.margin === null ? null : `margin ${word.margin}`, word.changed ? "changed by the memory" : null, terms.length ? aboutOf(terms) : null].filter(Boolean);
  const label = [word.end ? "end of sentence" : word.text, ...about].join(", ");
  return make("button", {
    ...mark, type: "button", class: kind.trim(), "aria-label": label, "aria-pressed": "false", "aria-controls": "why", tabindex: place ? "-1" : "0",
    onclick: (event) => choose(word, event.currentTarget),
  }, word.text);
}

const termsInWord = (word, spans) => (word.end ? []
  : spans.filter(({ start, end }) => start < word.start + [...word.text].length && end > word.start).map(({ number }) => number));

function choose(word, button) {
  const all = byId("adapted").querySelectorAll("button");
  for (const other of all) other.setAttribute("aria-pressed", String(other === button));
  reachable(all, button);
  pick(numbersOf(button));
  byId("why-hint").hidden = true;
  explain(word, Math.max(0, word.tokens.findIndex((token) => token.changed)));
}

function explain(word, place) {
  const token = word.tokens[place], panel = byId("why");
  panel.hidden = false;
  panel.replaceChildren(
    make("h2", { id: "why-title" }, "Why ", make("q", {}, word.end ? "end of sentence" : word.text)),
    word.tokens.length > 1 ? parts(word, place) : "",
    verdict(token),
    shares(token),
    ...(token.neighbors.length ? neighbors(token) : [make("p", { class: "hint" }, "No memory was used.")]),
  );
  panel.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

function parts(word, place) {
  const buttons = word.tokens.map((token, number) => make("button", {
    type: "button", "aria-pressed": String(number === place), onclick: () => explain(word, number),
  }, token.text.trim() || spoken(token.token)));
  return make("div", { class: "parts", role: "group", "aria-label": "Subword tokens of the word" },
    make("span", { class: "hint" }, "Subword tokens:"), ...buttons);
}

const CHOSEN = { glossary: "Chosen by the glossary, which asked for a term that the translation lacked. ", memory: "Chosen by the memory. ", model: "Chosen by the model. " };

function verdict(token) {
  const said = spoken(token.model_token);
  const margin = token.margin === null ? null
    : token.margin === 0 ? "The nearest memory entry is unknown to the model."
    : token.margin >= token.margin_cap ? `The nearest ${token.margin_cap} or more memory entries are known to the model.`
    : `The nearest ${token.margin === 1 ? "memory entry is" : `${token.margin} memory entries are`} known to the model; the next one is unknown.`;
  return make("p", {}, make("strong", {}, CHOSEN[token.chosen_by]), ...(!token.changed ? ["The model alone predicts the same. "]
    : said ? ["The model alone predicts ", make("q", {}, said), ". "] : ["The model alone predicts another token. "]), margin || "");
}

function shares(token) {
  const rows = [["Model", token.p_model, "model"]];
  if (token.neighbors.length) rows.push(["Memory", token.p_knn, "memory"], ["Together", token.p, "both"]);
  const list = make("dl", { class: "shares" });
  for (const [name, share, kind] of rows) {
    list.append(make("div", {}, make("dt", {}, name), make("dd", {}, meter(share, kind), make("span", {}, percent(share)))));
  }
  const notes = [token.neighbors.length ? `Weight of the memory: ${percent(token.knn_weight)}.` : null,
    token.confidence === null ? null : `Confidence of the model alone: ${percent(token.confidence)}.`].filter(Boolean);
  return make("div", {}, make("h3", {}, "Probability"), list, make("p", { class: "hint" }, notes.join(" ")));
}

// The target sentence, with the token and, more lightly, its word marked.
function marked(near) {
  const start = near.word ? near.before.match(/[\p{L}\p{N}]*$/u)[0] : "", rest = near.word ? near.after.match(/^[\p{L}\p{N}]*/u)[0] : "";
  const piece = make("mark", {}, near.word || (near.token.startsWith("<") ? "¶" : spoken(near.token)));
  return [near.before.slice(0, near.before.length - start.length), make("span", { class: "whole" }, start, piece, rest), near.after.slice(rest.length)];
}

function neighbors(token) {
  const several = new Set(token.neighbors.map((near) => near.memory)).size > 1;
  const items = token.neighbors.filter((near) => near.weight >= 0.0005).map((near) => make("li", { class: near.token === token.token ? "agrees" : "" },
    make("div", { class: "vote" }, meter(near.weight, "memory"), make("span", {}, percent(near.weight))),
    make("div", { class: "pair" },
      make("p", { class: "target" }, ...marked(near)),
      make("p", { class: "source" }, near.source),
      make("p", { class: "origin" }, knownMark(near.known), several ? make("span", {}, near.memory) : null, make("span", {}, near.origin),
        make("span", {}, `distance ${near.distance.toFixed(1)}`),
        make("button", { type: "button", class: "link", onclick: () => showSentence(near.memory, near.sentence) }, `sentence ${near.sentence}`), forgetButton(near)))));
  return [make("h3", {}, "Retrieved neighbors"), make("ol", { class: "neighbors" }, ...items)];
}
