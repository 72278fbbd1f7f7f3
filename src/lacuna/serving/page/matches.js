// Sentences of the memories that resemble the sentence, with the differences marked.
import { ask } from "/page/api.js";
import { difference } from "/page/diff.js";
import { byId, make } from "/page/dom.js";
import { showSentence } from "/page/sentence.js";

let latest = 0;

export function hideMatches() {
  latest++;
  byId("matches").hidden = true;
}

export async function showMatches(text, fields) {
  hideMatches();
  const mine = latest;
  if (!fields.memories.length) return;
  try {
    const { matches } = await ask("/api/v1/matches", { text, ...fields });
    if (mine === latest && matches.length) show(matches.map((match) => item(match, text)));
  } catch (error) {
    if (mine === latest) show([make("li", {}, error.message)]);
  }
}

function show(items) {
  byId("matches").querySelector("ol").replaceChildren(...items);
  byId("matches").hidden = false;
}

function item(match, text) {
  const similar = match.similarity === 1 ? "exact match" : `${Math.floor(match.similarity * 100)} % similar`;
  return make("li", {}, make("p", { class: "target" }, match.text),
    make("p", { class: "source" }, ...difference(match.source, text).map(({ kind, text }) => (kind === "same" ? text : make(kind, {}, text)))),
    make("p", { class: "origin" }, make("strong", {}, similar), make("span", {}, match.memory),
      make("button", { type: "button", class: "link", onclick: () => showSentence(match.memory, match.sentence) }, `sentence ${match.sentence}`)));
}
