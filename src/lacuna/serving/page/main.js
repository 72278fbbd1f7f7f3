// The tabs, and the description of the server.
import { ask } from "/page/api.js";
import { moveWithArrows, reachable } from "/page/arrows.js";
import { prepareDocuments } from "/page/documents.js";
import { byId } from "/page/dom.js";
import { loadGlossaries } from "/page/glossaries.js";
import { prepareMemory, showMemory } from "/page/memory.js";
import { prepareTerms, showTerms } from "/page/terms.js";
import { chosenGlossary, glossaryChanged, prepareTranslating } from "/page/translate.js";

const tabs = [...byId("tabs").querySelectorAll("[role=tab]")];

// No element has the hash as its id, because the browser would take the focus from the tab.
function route() {
  const [view, name] = location.hash.slice(1).split("/");
  if (view === "content") return; // the skip link
  const shown = tabs.find((tab) => tab.hash === `#${view}`) || tabs[0];
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", String(tab === shown));
    byId(tab.getAttribute("aria-controls")).hidden = tab !== shown;
  }
  reachable(tabs, shown);
  if (view === "memory") showMemory(name && decodeURIComponent(name));
  if (view === "terms") showTerms(name && decodeURIComponent(name));
}

try {
  const info = await ask("/api/v1/info");
  const about = info.directions.map(({ model, source, target }) => `model ${model}${source ? `, ${source} → ${target}` : ""}`);
  byId("about").textContent = [`Lacuna ${info.version}`, ...about].join(" · ");
  await loadGlossaries();
  prepareTranslating(info);
  prepareDocuments(info);
  prepareMemory(info);
  prepareTerms(info, chosenGlossary, glossaryChanged);
  addEventListener("hashchange", () => { route(); scrollTo(0, 0); });
  moveWithArrows(byId("tabs"), "[role=tab]", (tab) => tab.click());
  route();
} catch (error) {
  byId("trouble").textContent = `${error.message} Reload the page to try again.`;
  byId("trouble").hidden = false;
}
