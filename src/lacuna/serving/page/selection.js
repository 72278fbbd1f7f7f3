// The choice of a direction, of its memories and of a glossary. What the server has one of, or none, is not shown.
import { make } from "/page/dom.js";
import { makeGlossaryChoice } from "/page/glossaries.js";

const names = new Intl.DisplayNames("en", { type: "language", fallback: "code" });

export function languageName(code) {
  try { return names.of(code.replace("_", "-")); } catch { return code; }
}

// What can be chosen: each direction, and for each target language the detection of the source language.
function choices(directions) {
  const named = directions.map((one) => ({ ...one, name: one.source ? `${languageName(one.source)} → ${languageName(one.target)}` : one.model }));
  for (const one of named.filter(({ name }, place) => named.findIndex((other) => other.name === name) < place)) one.name += ` (${one.model})`;
  if (named.length < 2) return named;
  const targets = [...new Set(directions.map((one) => one.target).filter(Boolean))];
  const detected = targets.map((target) => ({ name: `Detect language → ${languageName(target)}`, source: "auto", target, memories: null,
    calibrated: directions.every((one) => one.target !== target || one.calibrated) }));
  return [...named, ...detected];
}

// Builds the choice at a place of the page. chosen() is what is chosen; fields() are those of a request.
export function makeSelection(place, info, onChange) {
  const all = choices(info.directions), chips = make("div", { class: "chips" });
  const select = make("select", {}, ...all.map((one, number) => make("option", { value: number }, one.name)));
  const chosen = () => all[Number(select.value)];
  const checked = () => [...chips.querySelectorAll("input:checked")].map((box) => box.value);
  const showMemories = () => chips.replaceChildren(...memoryBoxes(chosen().memories));
  showMemories();
  const glossary = makeGlossaryChoice(chosen, checked, onChange);
  select.addEventListener("change", () => { showMemories(); glossary.show(); onChange(); });
  chips.addEventListener("change", () => { glossary.show(); onChange(); });
  place.append(make("label", { class: "pick", hidden: all.length < 2 }, make("span", {}, "Direction"), select),
    make("fieldset", {}, make("legend", {}, "Memories"), chips), glossary.element);
  const fields = () => {
    const { source, target, memories } = chosen(), languages = all.length > 1 ? { source, target } : {};
    return { ...languages, ...(memories && { memories: checked() }), ...(glossary.field() && { glossary: glossary.field() }) };
  };
  return { chosen, fields, glossary: glossary.name };
}

function memoryBoxes(memories) {
  if (!memories) return [make("p", { class: "hint" }, "The first memory of the detected direction is used.")];
  if (!memories.length) return [make("p", { class: "hint" }, "There is no memory; the model translates alone.")];
  return memories.map((name, place) => make("label", { class: "chip" },
    make("input", { type: "checkbox", value: name, checked: place === 0 }), make("span", {}, name)));
}
