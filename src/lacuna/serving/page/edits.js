// Corrections of translations and forgotten sentences, each with an undo. Only on servers that take edits.
import { ask } from "/page/api.js";
import { byId, isSubmit, make } from "/page/dom.js";
import { memoryChanged } from "/page/memory.js";

let writable = false, translateAgain = null, shown = null;

export function prepareEdits(info, again) {
  writable = info.writing !== "off";
  translateAgain = again;
  byId("corrected").maxLength = info.limits.max_characters;
  byId("correct").addEventListener("click", open);
  byId("correct-cancel").addEventListener("click", close);
  byId("correction").addEventListener("submit", (event) => { event.preventDefault(); save(); });
  byId("corrected").addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (isSubmit(event)) byId("correction").requestSubmit();
  });
}

// Offers to correct a translation; corrections go to the first of the chosen memories.
export function offerCorrection(answer, memories) {
  shown = { answer, memory: memories[0] };
  byId("correction").hidden = true;
  byId("correct").hidden = !writable || !memories.length;
}

export function forgetButton(near) {
  if (!writable || near.memory.startsWith("(")) return null; // not in a memory of the server
  return make("button", { type: "button", class: "link", "aria-label": `Forget sentence ${near.sentence} of ${near.memory}`,
    onclick: () => attempt(() => forget(near.memory, near.sentence)) }, "Forget");
}

export function clearNote() {
  byId("note").replaceChildren();
}

function open() {
  byId("correct").hidden = true;
  byId("correction").hidden = false;
  byId("correction-hint").textContent = `The corrected pair is saved to the memory ${shown.memory}.`;
  byId("corrected").value = shown.answer.text;
  byId("corrected").focus();
}

function close() {
  byId("correction").hidden = true;
  byId("correct").hidden = false;
  byId("correct").focus();
}

const write = (method, memory, rest, body) =>
  ask(`/api/v1/memories/${encodeURIComponent(memory)}/${rest}`, body, { method, kind: "write" });

// Makes an edit, translates again, and offers to undo it. An edit returns what it did, in words, and its undo.
async function attempt(edit) {
  try {
    const { said, undo } = await edit();
    memoryChanged();
    byId("trouble").hidden = true;
    await translateAgain();
    const button = undo && make("button", { type: "button", onclick: () => attempt(async () => { await undo(); return { said: "Undone." }; }) }, "Undo");
    byId("note").replaceChildren(make("p", {}, said), ...(button ? [button] : []));
    (button || byId("text")).focus();
  } catch (error) {
    byId("trouble").textContent = error.message;
    byId("trouble").hidden = false;
  }
}

function save() {
  const { answer, memory } = shown, target = byId("corrected").value;
  if (target.trim()) attempt(() => correct(memory, answer, target));
}

// A retrieved sentence with the same source is replaced, because two translations of it would compete.
async function correct(memory, answer, target) {
  const old = answer.tokens.flatMap((token) => token.neighbors).find((near) => near.memory === memory && near.source === answer.source);
  if (!old) {
    const { added, sentences } = await write("POST", memory, "pairs", { pairs: [{ source: answer.source, target }] });
    return { said: `Saved to ${memory} as sentence ${sentences[0]}.`, undo: added.length ? () => write("DELETE", memory, `sentences/${added[0]}`) : null };
  }
  const before = old.before + old.word + old.after;
  const { sentences } = await write("PUT", memory, `sentences/${old.sentence}`, { target });
  return { said: `Sentence ${old.sentence} of ${memory} was replaced by sentence ${sentences[0]}.`,
    undo: () => write("PUT", memory, `sentences/${sentences[0]}`, { target: before }) };
}

async function forget(memory, sentence) {
  const { source, target, tag, id } = await ask(`/api/v1/memories/${encodeURIComponent(memory)}/sentences/${sentence}`);
  await write("DELETE", memory, `sentences/${sentence}`);
  return { said: `Sentence ${sentence} of ${memory} was forgotten.`,
    undo: () => write("POST", memory, "pairs", { pairs: [{ source, target, tag, id }] }) };
}
