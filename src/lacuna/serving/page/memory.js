// The view of a memory: statistics, margins, needed words, a map of its keys.
import { ask } from "/page/api.js";
import { histogram, keyMap } from "/page/charts.js";
import { byId, make, meter, number, percent } from "/page/dom.js";
import { showSentence } from "/page/sentence.js";

const FIRST_WORDS = 12;
let shown = null;

export function prepareMemory(info) {
  const which = byId("which");
  const names = info.directions.flatMap((direction) => direction.memories);
  which.append(...names.map((name) => make("option", { value: name }, name)));
  which.addEventListener("change", () => { location.hash = `#memory/${encodeURIComponent(which.value)}`; });
  which.parentElement.hidden = names.length < 2;
}

// The memory was edited, so what is shown must be loaded again.
export function memoryChanged() {
  shown = null;
}

export async function showMemory(name) {
  const place = byId("overview"), which = byId("which");
  const wanted = name || which.value;
  if (!wanted) {
    place.replaceChildren(make("div", { class: "empty" }, make("p", {}, "This server has no memory. Start it with: "),
      make("code", {}, "lacuna serve --memory NAME=STORE")));
    return;
  }
  which.value = wanted;
  if (shown === wanted) return;
  shown = wanted;
  place.replaceChildren(make("div", { class: "empty", role: "status" }, make("p", {}, "Loading the memory…")));
  const address = `/api/v1/memories/${encodeURIComponent(wanted)}`;
  try {
    const found = await ask(address);
    if (shown !== wanted) return;
    const map = make("div", { class: "chart" }, make("p", { class: "hint", role: "status" }, "Loading the map…"));
    place.replaceChildren(numbers(found), margins(found), words(found), mapCard(map), lookUp(found));
    fillMap(map, await ask(`${address}/map`));
  } catch (error) {
    if (shown !== wanted) return;
    shown = null;
    place.replaceChildren(make("div", { class: "notice error", role: "alert" }, make("p", {}, error.message),
      make("button", { type: "button", onclick: () => showMemory(wanted) }, "Try again")));
  }
}

const card = (title, ...content) => make("article", { class: "card" }, make("h2", {}, title), ...content);

function numbers(found) {
  const figures = [["Entries", number(found.entries)], ["Sentences", number(found.sentences)],
    ["On disk", `${number(Math.round(found.bytes / 2 ** 20))} MiB`], ["Index", found.index]];
  const list = make("dl", { class: "figures" }, ...figures.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const bar = make("div", { class: "known-bar", "aria-hidden": "true" }, make("span", { class: "known" }), make("span", { class: "unknown" }));
  bar.firstChild.style.flexGrow = found.known;
  bar.lastChild.style.flexGrow = found.entries - found.known;
  const about = make("p", { class: "known-text" },
    make("span", {}, make("strong", {}, `● ${percent(found.known_ratio)}`), " known"),
    make("span", {}, make("strong", {}, `▲ ${percent(1 - found.known_ratio)}`), " unknown"));
  const made = found.made_by ? make("p", { class: "hint" }, `Made from another memory by lacuna ${found.made_by}.`) : null;
  return make("article", { class: "card wide" }, list, bar, about, made);
}

function margins(found) {
  const command = () => make("code", {}, "lacuna margin STORE");
  if (!found.margins) return card("Knowledge margins", make("p", {}, "Not measured for this memory. Run: ", command()));
  const edited = found.margins_outdated ? make("p", {}, `Measured before the last edits${found.unmeasured ? `; ${number(found.unmeasured)} entries have no margin yet` : ""}. To bring the margins up to date, run: `, command()) : null;
  return card("Knowledge margins", make("p", { class: "hint" }, "Number of nearest neighbors of an entry that are known before the first unknown one. Known entries with large margins may be pruned."),
    make("div", { class: "chart" }, histogram(found.margins)), edited);
}

function words(found) {
  if (!found.needed_words.length) return card("Most needed words", make("p", {}, "None: all entries are known."));
  const most = found.needed_words[0].needed;
  const rows = found.needed_words.map((word, place) => make("tr", { hidden: place >= FIRST_WORDS },
    make("th", { scope: "row" }, word.word), make("td", { class: "grow" }, meter(word.needed / most, "unknown")),
    make("td", { class: "number" }, number(word.needed)), make("td", { class: "number" }, percent(word.needed / word.count))));
  const table = make("table", { class: "words" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Word"), make("td"),
    make("th", { scope: "col", class: "number" }, "Count"), make("th", { scope: "col", class: "number" }, "Share"))), make("tbody", {}, ...rows));
  const more = rows.length <= FIRST_WORDS ? null : make("button", { type: "button", class: "quiet", onclick: (event) => {
    for (const row of rows) row.hidden = false;
    event.currentTarget.remove();
  } }, `Show all ${rows.length}`);
  const what = found.margins ? "Occurrences that are unknown or have a margin below 4, and their share of all occurrences." : "Unknown occurrences, and their share of all occurrences.";
  return card("Most needed words", make("p", { class: "hint" }, what), table, more);
}

const mapCard = (map) => {
  const made = card("Map of the keys", make("p", { class: "hint" }, "A sample of the keys on their first two principal components. Select a point to see its sentence."), map);
  made.classList.add("wide");
  return made;
};

function fillMap(map, found) {
  const shares = found.variance.map(percent).join(" and ");
  map.replaceChildren(keyMap(found, (place) => showSentence(found.name, found.sentence[place])),
    make("p", { class: "hint" }, `${number(found.x.length)} keys. The axes cover ${shares} of the variance.`));
}

function lookUp(found) {
  const box = make("input", { type: "number", id: "look", min: 0, max: found.sentences - 1, step: 1, required: true, inputmode: "numeric" });
  const form = make("form", { class: "look", onsubmit: (event) => { event.preventDefault(); showSentence(found.name, box.valueAsNumber); } },
    make("label", { for: "look" }, `Sentence, 0 to ${number(found.sentences - 1)}`), box, make("button", { type: "submit" }, "Show entries"));
  const made = card("Look up a sentence", form);
  made.classList.add("wide");
  return made;
}
