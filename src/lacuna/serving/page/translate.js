// The view that translates a sentence and explains every word.
import { ask } from "/page/api.js";
import { byId, knownMark, make, meter, percent, spoken } from "/page/dom.js";
import { clearNote, forgetButton, offerCorrection, prepareEdits } from "/page/edits.js";
import { showSentence } from "/page/sentence.js";
import { level, wordsOf } from "/page/words.js";

const EXAMPLES = {
  de: [
    "Die Datei konnte nicht geöffnet werden.",
    "Möchten Sie die Änderungen speichern?",
    "Klicken Sie auf die Schaltfläche, um das Fenster zu schließen.",
  ],
};

let latest = 0, translated = null;

export function prepareTranslating(info) {
  const names = new Intl.DisplayNames("en", { type: "language", fallback: "code" });
  const language = (code) => { try { return names.of(code.replace("_", "-")); } catch { return code; } };
  byId("text-label").textContent = info.source ? `${language(info.source)} sentence` : "Sentence";
  byId("text").lang = info.source || "";
  byId("base").lang = byId("adapted").lang = info.target || "";
  byId("text").maxLength = info.limits.max_characters;
  byId("text-hint").replaceChildren(info.target ? `Target language: ${language(info.target)}. ` : "",
    make("span", { class: "for-keys" }, "Ctrl + Enter translates."));
  prepareEdits(info, () => translate(translated));
  addMemories(info);
  addExamples(EXAMPLES[info.source] || []);
  byId("ask").addEventListener("submit", (event) => { event.preventDefault(); start(); });
  byId("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
  });
  byId("memories").addEventListener("change", () => { if (!byId("result").hidden) start(); });
  byId("adapted").addEventListener("keydown", moveAlong);
}

function addMemories(info) {
  const chips = byId("memories").querySelector(".chips");
  info.memories.forEach((memory, place) => {
    const box = make("input", { type: "checkbox", value: memory.name, checked: place === 0 });
    chips.append(make("label", { class: "chip" }, box, make("span", {}, memory.name)));
  });
  if (!info.memories.length) chips.append(make("p", { class: "hint" }, "This server has no memory; the model translates alone."));
}

function addExamples(sentences) {
  byId("examples").hidden = !sentences.length;
  byId("examples").querySelector("ul").append(...sentences.map((sentence) => make("li", {}, make("button", {
    type: "button", class: "example", onclick: () => { byId("text").value = sentence; start(); },
  }, sentence))));
}

const chosen = () => [...byId("memories").querySelectorAll("input:checked")].map((box) => box.value);

function start() {
  const text = byId("text").value;
  if (!text.trim()) { byId("text").focus(); return; }
  clearNote();
  translate({ text, memories: chosen() });
}

async function translate(request) {
  const mine = ++latest, { memories } = request;
  busy(true);
  try {
    const answer = await ask("/api/v1/explain", request);
    if (mine !== latest) return;
    translated = request;
    byId("trouble").hidden = true;
    show(answer, memories);
  } catch (error) {
    if (mine !== latest) return;
    byId("trouble").textContent = error.message;
    byId("trouble").hidden = false;
  } finally {
    if (mine === latest) busy(false);
  }
}

function busy(is) {
  byId("go").textContent = is ? "Translating…" : "Translate";
  byId("go").toggleAttribute("aria-disabled", is);
  byId("result").toggleAttribute("aria-busy", is);
  byId("result").classList.toggle("busy", is);
}

function show(answer, memories) {
  byId("examples").hidden = true;
  byId("result").hidden = false;
  byId("why").hidden = true;
  byId("legend").hidden = !memories.length;
  byId("why-hint").hidden = false;
  byId("base").textContent = answer.base_text;
  byId("adapted-title").textContent = memories.length ? `Model with memory: ${memories.join(" and ")}` : "No memory chosen";
  const words = wordsOf(answer.tokens), written = words.filter((word) => /[\p{L}\p{N}]/u.test(word.text)), changed = written.filter((word) => word.changed).length;
  const sure = answer.confidence === null ? "" : ` Confidence of the model alone: ${percent(answer.confidence)} per word.`;
  byId("score").textContent = !memories.length ? "Translation of the model alone. Select a memory above."
    : (changed ? `The memory changed ${changed} of ${written.length} words.` : "The memory changed no word.") + sure;
  byId("adapted").replaceChildren(...words.flatMap((word, place) => [word.space ? " " : "", wordButton(word, place)]));
  offerCorrection(answer, memories);
}

function wordButton(word, place) {
  const kind = `word level-${level(word.margin)}${word.changed ? " changed" : ""}${word.end ? " end" : ""}`;
  const about = [word.margin === null ? null : `margin ${word.margin}`, word.changed ? "changed by the memory" : null].filter(Boolean);
  const label = [word.end ? "end of sentence" : word.text, ...about].join(", ");
  return make("button", {
    type: "button", class: kind, "aria-label": label, "aria-pressed": "false", "aria-controls": "why", tabindex: place ? "-1" : "0",
    onclick: (event) => choose(word, event.currentTarget),
  }, word.text);
}

function moveAlong(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const all = [...byId("adapted").querySelectorAll("button")], next = all[all.indexOf(event.target) + step];
  if (!step || !next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function choose(word, button) {
  for (const other of byId("adapted").querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
  byId("why-hint").hidden = true;
  explain(word, word.tokens.findIndex((token) => token.changed) > 0 ? word.tokens.findIndex((token) => token.changed) : 0);
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

function verdict(token) {
  const said = spoken(token.model_token);
  const margin = token.margin === null ? null
    : token.margin === 0 ? "The nearest memory entry is unknown to the model."
    : token.margin >= token.margin_cap ? `The nearest ${token.margin_cap} or more memory entries are known to the model.`
    : `The nearest ${token.margin === 1 ? "memory entry is" : `${token.margin} memory entries are`} known to the model; the next one is unknown.`;
  return make("p", {}, ...(!token.changed ? ["The model alone predicts the same. "]
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
