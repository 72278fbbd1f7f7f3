// A translated text whose sentences can be selected. Those that a person should look at are marked, with the reason.
import { moveWithArrows, reachable } from "/page/arrows.js";
import { byId, make, percent } from "/page/dom.js";

const LOW = 0.6; // a lower confidence is marked

export function prepareParagraph(onChoose) {
  const whole = byId("whole"), choose = (event) => event.target.dataset.place && onChoose(Number(event.target.dataset.place));
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

// Shows a text; its flag may be one that no sentence has alone.
export function showParagraph(parts, flag) {
  const sentences = written(parts), doubts = sentences.map(doubtOf);
  byId("whole").replaceChildren(...parts.flatMap((part) => {
    const place = sentences.indexOf(part);
    return [place < 0 ? "" : sentenceSpan(part, place, doubts[place]), part.gap];
  }));
  const reasons = doubts.flatMap((doubt, place) => (doubt ? [make("li", { id: `doubt-${place}` }, `⚠ Sentence ${place + 1}: ${doubt}`)] : []));
  if (flag && !sentences.some((one) => one.flag)) reasons.push(make("li", {}, `⚠ ${flag}`));
  byId("doubts").replaceChildren(...reasons);
  byId("doubts").hidden = !reasons.length;
  byId("paragraph").hidden = false;
}

// Not a button, because the lines of a button do not flow with the text around it.
function sentenceSpan(sentence, place, doubt) {
  return make("span", {
    role: "button", class: `sentence${doubt ? " doubtful" : ""}`, "data-place": place, "aria-pressed": "false",
    "aria-controls": "evidence", "aria-describedby": doubt ? `doubt-${place}` : null, tabindex: place ? "-1" : "0",
  }, sentence.text);
}

export function markSentence(place) {
  const all = [...byId("whole").querySelectorAll("[role=button]")];
  for (const one of all) one.setAttribute("aria-pressed", String(one === all[place]));
  reachable(all, all[place]);
}
