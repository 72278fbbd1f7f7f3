// The glossaries of the server, and the choice of one of them for a translation.
import { ask } from "/page/api.js";
import { make, number } from "/page/dom.js";

const NONE = "none"; // asks for no glossary, and no glossary has this name

const listeners = [];
let all = [];

export const glossaries = () => all;
export const countOf = ({ terms }) => `${number(terms)} term${terms === 1 ? "" : "s"}`;

// Asks the server again after each edit, because the number of terms changes.
export async function loadGlossaries() {
  all = await ask("/api/v1/glossaries");
  for (const listener of listeners) listener();
}

// Builds the choice; without a glossary it is hidden. Until someone chooses, the glossary is that of the memories.
// field() is the one for a request; name() the one that it is, if that is known.
export function makeGlossaryChoice(direction, memories, onChange) {
  const select = make("select"), element = make("label", { class: "pick" }, make("span", {}, "Glossary"), select);
  let chosen = null, options = [];
  const show = () => {
    options = optionsOf(direction());
    const own = memories().find((name) => options.some(({ value }) => value === name));
    const value = options.some((one) => one.value === chosen) ? chosen : direction().memories ? own || NONE : "";
    select.replaceChildren(...options.map((one) => make("option", { value: one.value, selected: one.value === value }, one.text)));
    element.hidden = !options.length;
  };
  select.addEventListener("change", () => { chosen = select.value; onChange(); });
  listeners.push(show);
  show();
  return { element, show, field: () => (options.length ? select.value || null : null), name: () => (select.value === NONE ? "" : select.value) };
}

// With a direction that is to be detected, the glossary is that of its first memory, or none.
function optionsOf({ source, target, memories }) {
  if (!all.length) return [];
  const none = { value: NONE, text: "none" };
  if (!memories) return [{ value: "", text: "that of the detected direction" }, none];
  const own = all.filter((one) => one.source === source && one.target === target);
  return own.length ? [...own.map((one) => ({ value: one.name, text: `${one.name} (${countOf(one)})` })), none] : [];
}
