// Routing between the views, and the description of the server.
import { ask } from "/page/api.js";
import { byId } from "/page/dom.js";
import { prepareMemory, showMemory } from "/page/memory.js";
import { prepareTranslating } from "/page/translate.js";

function route() {
  const [view, name] = location.hash.slice(1).split("/");
  if (view === "content") return; // the skip link
  const shown = view === "memory" ? "memory" : "translate";
  for (const id of ["translate", "memory"]) byId(id).hidden = id !== shown;
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    if (link.dataset.view === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (shown === "memory") showMemory(name && decodeURIComponent(name));
}

try {
  const info = await ask("/api/v1/info");
  const direction = info.source ? `, ${info.source} → ${info.target}` : "";
  byId("about").textContent = `Lacuna ${info.version} · model ${info.model}${direction}`;
  prepareTranslating(info);
  prepareMemory(info);
  addEventListener("hashchange", route);
  route();
} catch (error) {
  byId("trouble").textContent = `${error.message} Reload the page to try again.`;
  byId("trouble").hidden = false;
}
