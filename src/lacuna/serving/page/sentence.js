// A sentence of a memory with all its entries, in a dialog.
import { ask } from "/page/api.js";
import { byId, knownMark, make, percent, spoken } from "/page/dom.js";

export async function showSentence(memory, sentence) {
  const dialog = byId("sentence");
  const close = make("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close");
  const body = make("div", {}, make("p", { class: "hint" }, "Loading…"));
  dialog.replaceChildren(make("div", { class: "heading" }, make("h2", { id: "sentence-title" }, `Sentence ${sentence} of ${memory}`), close), body);
  dialog.showModal();
  try {
    const found = await ask(`/api/v1/memories/${encodeURIComponent(memory)}/sentences/${sentence}`);
    body.replaceChildren(
      make("p", { class: "source" }, found.source), make("p", { class: "target" }, found.target),
      make("p", { class: "hint" }, `from ${found.origin}`), table(found.entries));
  } catch (error) {
    body.replaceChildren(make("p", { class: "notice error" }, error.message));
  }
}

function table(entries) {
  if (!entries.length) return make("p", { class: "hint" }, "All entries of this sentence were pruned.");
  const measured = entries.some((entry) => entry.margin !== null);
  const heads = ["Token", "Prediction", "", "Probability", ...(measured ? ["Margin"] : [])];
  const rows = entries.map((entry) => make("tr", {},
    make("th", { scope: "row" }, spoken(entry.token) || "␣"), make("td", {}, spoken(entry.model_token) || "␣"), make("td", {}, knownMark(entry.known)),
    make("td", { class: "number" }, percent(entry.p_gold)), measured ? make("td", { class: "number" }, String(entry.margin)) : null));
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Entries" }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((head, place) => make("th", { scope: "col", class: place > 2 ? "number" : "" }, head)))),
    make("tbody", {}, ...rows)));
}
