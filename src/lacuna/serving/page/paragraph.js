// A translated text whose sentences can be selected. Those that a person should look at are marked, with the reason.
import { moveWithArrows, reachable } from "/page/arrows.js";
import { byId, make, percent } from "/page/dom.js";
import { markedTarget, numbersOf, pick } from "/page/term_marks.js";

const LOW = 0.6; // a lower confidence is marked

export function prepareParagraph(onChoose) {
  const whole = byId("whole");
  const choose = ({ target }) => {
    const sentence = target.closest("[data-place]");
    if (target.dataset.terms) pick(numbersOf(target));
    if (sentence) onChoose(Number(sentence.dataset.place));
  };
  moveWithArrows(whole, "[role=button]");
  whole.addEventListener("click", choose);
  whole.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(event);
  });
}

export function doubtOf(sentence) {
  if (sentence.flag) return sentence.flag;
  return sentence.confidence !== null && sentence.confidence < LOW ? `low confidence, ${percent(sentence.confidence)}` : "";
}

// The sentences of the text, without the white space at its start.
export const written = (parts) => parts.filter((part) => part.source);

// Shows a text with the terms of the glossary; its flag may be one that no sentence has alone.
export function showParagraph({ sentences: parts, flag, without_glossary: without }, terms) {
  const sentences = written(parts), doubts = sentences.map(doubtOf);
  let start = 0;
  byId("whole").replaceChildren(...parts.flatMap((part) => {
    const place = sentences.indexOf(part), text = markedTarget(part.text, terms, start);
    start += [...part.text, ...part.gap].length;
    return [place < 0 ? "" : sentenceSpan(text, place, doubts[place]), part.gap];
  }));
  const reasons = doubts.flatMap((doubt, place) => (doubt ? [make("li", { id: `doubt-${place}` }, `⚠ Sentence ${place + 1}: ${doubt}`)] : []));
  if (flag && !sentences.some((one) => one.flag)) reasons.push(make("li", {}, `⚠ ${flag}`));
  byId("doubts").replaceChildren(...reasons);
  byId("doubts").hidden = !reasons.length;
  byId("whole-without").hidden = !without;
  byId("whole-without-text").textContent = without || "";
  byId("paragraph").hidden = false;
}

// Not a button, because the lines of a button do not flow with the text around it.
function sentenceSpan(text, place, doubt) {
  return make("span", {
    role: "button", class: `sentence${doubt ? " doubtful" : ""}`, "data-place": place, "aria-pressed": "false",
    "aria-controls": "evidence", "aria-describedby": doubt ? `doubt-${place}` : null, tabindex: place ? "-1" : "0",
  }, ...text);
}

export function markSentence(place) {
  const all = [...byId("whole").querySelectorAll("[role=button]")];
  for (const one of all) one.setAttribute("aria-pressed", String(one === all[place]));
  reachable(all, all[place]);
}
