// The view that translates a text sentence by sentence, and explains every word of a sentence.
import { ask } from "/page/api.js";
import { byId, isSubmit, make, percent } from "/page/dom.js";
import { clearNote, prepareEdits } from "/page/edits.js";
import { hideEvidence, prepareEvidence, showEvidence } from "/page/evidence.js";
import { hideMatches, showMatches } from "/page/matches.js";
import { doubtOf, markSentence, prepareParagraph, showParagraph, written } from "/page/paragraph.js";
import { languageName, makeSelection } from "/page/selection.js";
import { pick, prepareTermMarks, showTermSource, termsOf, termsWithin } from "/page/term_marks.js";

const EXAMPLES = {
  de: [
    "Die Datei konnte nicht geöffnet werden.",
    "Möchten Sie die Änderungen speichern?",
    "Klicken Sie auf die Schaltfläche, um das Fenster zu schließen.",
  ],
};

// The text that is shown: its request, its sentences, and the explanations that were asked for.
let latest = 0, running = 0, selection = null, shown = null;

export function prepareTranslating(info) {
  selection = makeSelection(byId("selection"), info, () => { describe(); if (!byId("result").hidden) start(); });
  byId("text").maxLength = info.limits.max_characters;
  describe();
  prepareEdits(info, () => translate(shown.request, shown.place));
  prepareEvidence();
  prepareParagraph(chooseByHand);
  prepareTermMarks();
  addExamples(EXAMPLES[info.source] || []);
  byId("ask").addEventListener("submit", (event) => { event.preventDefault(); start(); });
  byId("text").addEventListener("keydown", (event) => {
    if (isSubmit(event)) byId("ask").requestSubmit();
  });
  byId("again").addEventListener("click", translateAgain);
  addEventListener("keydown", (event) => { if (!byId("outdated").hidden && !document.querySelector("dialog[open]") && isSubmit(event)) translateAgain(); });
}

// The name of the glossary that is chosen; empty for none, or if it depends on the text.
export const chosenGlossary = () => selection.glossary();

// A glossary was edited. Marks the translation as outdated if it may be another one now, and tells whether it is.
export function glossaryChanged(name) {
  if (byId("result").hidden) return false;
  const { glossary, source } = shown.request, used = glossary ?? (source === "auto" ? name : null);
  if (used !== name) return false;
  byId("outdated").querySelector("p").firstChild.textContent = `The glossary ${name} was edited: this translation is outdated. `;
  byId("outdated").hidden = false;
  return true;
}

function translateAgain() {
  if (location.hash !== "#translate") { // known at once, while a view is shown only after the event
    addEventListener("hashchange", () => byId("text").focus(), { once: true });
    location.hash = "#translate";
  }
  clearNote();
  translate(shown.request, shown.place);
}

function describe() {
  const { source, target } = selection.chosen(), known = source && source !== "auto";
  byId("text-label").textContent = known ? `${languageName(source)} text` : "Text";
  byId("text").lang = known ? source : "";
  byId("text-hint").replaceChildren(target ? `Target language: ${languageName(target)}. ` : "",
    make("span", { class: "for-keys" }, "Ctrl + Enter translates."));
}

function addExamples(sentences) {
  byId("examples").hidden = !sentences.length;
  byId("examples").querySelector("ul").append(...sentences.map((sentence) => make("li", {}, make("button", {
    type: "button", class: "example", onclick: () => { byId("text").value = sentence; start(); },
  }, sentence))));
}

function start() {
  const text = byId("text").value;
  if (!text.trim()) { byId("text").focus(); return; }
  clearNote();
  translate({ text, ...selection.fields() });
}

// A text of one sentence is explained at once; of a longer one, the sentence at the given place, if any.
async function translate(request, place = null) {
  const mine = ++latest, isCurrent = () => mine === latest, { text, ...fields } = request;
  await attempt(isCurrent, async () => {
    const answer = await ask("/api/v1/translate", { texts: [text], confidence: true, ...fields });
    if (!isCurrent()) return;
    const [translation] = answer.translations, sentences = written(translation.sentences);
    shown = { request, answer, translation, sentences, terms: termsOf(text, translation), place: null, explained: new Map(),
      fields: { memories: answer.memories, source: answer.source, target: answer.target } };
    if (sentences.length > 1) showText();
    const wanted = sentences.length > 1 ? place : 0;
    if (wanted !== null && wanted < sentences.length) await choose(wanted);
  });
}

function chooseByHand(place) {
  const mine = shown;
  attempt(() => mine === shown && mine.place === place, () => choose(place));
}

// Explains a sentence. If that is not possible, its translation is shown nevertheless.
async function choose(place) {
  const mine = shown, sentence = mine.sentences[place], alone = mine.sentences.length === 1;
  mine.place = place;
  if (!alone) markSentence(place);
  try {
    if (!mine.explained.has(place)) mine.explained.set(place, await ask("/api/v1/explain", { text: sentence.source, ...mine.fields, glossary: mine.request.glossary }));
  } catch (error) {
    if (mine === shown && mine.place === place) showText(alone);
    throw error;
  }
  if (mine !== shown || mine.place !== place) return;
  if (alone) showResult();
  byId("paragraph").hidden = alone;
  byId("paragraph-hint").hidden = true;
  byId("sentence-of").hidden = alone;
  byId("sentence-of").replaceChildren(make("strong", {}, `Sentence ${place + 1} of ${mine.sentences.length}: `),
    make("span", { lang: mine.fields.source || "" }, sentence.source));
  const explained = mine.explained.get(place), doubt = doubtOf(sentence) || (alone && mine.translation.flag) || "";
  showEvidence(explained, mine.fields.memories, doubt, sentence.match, termsWithin(mine.terms, sentence, explained.terms));
  showMatches(sentence.source, mine.fields);
}

// Shows the text without evidence. If it is there already, it stays, and with it the selected sentence.
function showText(isNew = true) {
  if (isNew) { showResult(); showParagraph(shown.translation, shown.terms); pick(); }
  byId("paragraph-hint").hidden = shown.sentences.length === 1;
  hideEvidence();
  hideMatches();
}

function showResult() {
  const { target, detected: found } = shown.answer;
  byId("examples").hidden = true;
  byId("outdated").hidden = true;
  byId("result").hidden = false;
  showTermSource(shown.request.text, shown.terms, shown.answer.source);
  for (const id of ["whole", "whole-without-text", "base", "adapted", "without-text", "corrected"]) byId(id).lang = target || "";
  byId("detected").hidden = !found;
  byId("detected").textContent = !found ? "" : found.confidence ? `Detected language: ${languageName(found.language)}, ${percent(found.confidence)}.`
    : `The language could not be detected; ${languageName(found.language)} is assumed.`;
}

// Does some work, and shows its error if it is still what the user wants to see.
async function attempt(isCurrent, work) {
  busy(1);
  try {
    await work();
    if (isCurrent()) byId("trouble").hidden = true;
  } catch (error) {
    if (!isCurrent()) return;
    byId("trouble").textContent = error.message;
    byId("trouble").hidden = false;
  } finally {
    busy(-1);
  }
}

function busy(change) {
  running += change;
  byId("go").textContent = running ? "Translating…" : "Translate";
  byId("go").toggleAttribute("aria-disabled", running > 0);
  byId("result").toggleAttribute("aria-busy", running > 0);
  byId("result").classList.toggle("busy", running > 0);
}
