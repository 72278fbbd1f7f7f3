// The view of a glossary: its terms, page by page, and on servers that take edits: add, change and remove, each with an undo.
import { ask } from "/page/api.js";
import { byId, isSubmit, make, number } from "/page/dom.js";
import { countOf, glossaries, loadGlossaries } from "/page/glossaries.js";
import { languageName } from "/page/selection.js";

const PAGE = 100; // terms
const PAUSE = 200; // milliseconds without a key press until the search begins

let writing = "off", suggested = null, changed = null;
let chosen = null, shown = null, offset = 0, latest = 0, pause = 0, tag = "";

// suggest() names the glossary of the translation; onChange(name) says whether a shown translation is outdated now.
export function prepareTerms(info, suggest, onChange) {
  [writing, suggested, changed] = [info.writing, suggest, onChange];
  byId("which-glossary").addEventListener("change", ({ target }) => { location.hash = `#terms/${encodeURIComponent(target.value)}`; });
  byId("term").addEventListener("submit", (event) => { event.preventDefault(); save(); });
  byId("term").addEventListener("keydown", (event) => { if (byId("term-text").value.trim() && isSubmit(event)) byId("term").requestSubmit(); });
  byId("term-search").addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(() => turnTo(0), PAUSE); });
  byId("term-previous").addEventListener("click", () => turnTo(offset - PAGE));
  byId("term-next").addEventListener("click", () => turnTo(offset + PAGE));
}

// Shows a glossary: the one that was chosen here, else that of the translation, else the first.
export function showTerms(name) {
  chosen = name || chosen;
  show(chosen || suggested() || glossaries()[0]?.name);
}

function show(wanted) {
  const all = glossaries();
  byId("no-glossary").hidden = Boolean(wanted);
  byId("which-glossary").parentElement.hidden = all.length < 2;
  byId("which-glossary").replaceChildren(...all.map((one) => make("option", { value: one.name, selected: one.name === wanted }, `${one.name} (${countOf(one)})`)));
  if (!wanted) return;
  if (shown !== wanted) {
    [shown, tag] = [wanted, ""];
    byId("term").reset();
    byId("term-search").value = "";
    offset = 0;
    say();
  }
  showEditing(all.find((one) => one.name === wanted));
  turnTo(offset);
}

// In the words of the server.
function whyClosed(glossary) {
  if (writing === "off") return "This server does not take edits; start it with a write key, or as writable.";
  return glossary && !glossary.editable ? `Glossary ${glossary.name}: only a .tsv file can be edited; start the server with one.` : "";
}

function showEditing(glossary) {
  const reason = whyClosed(glossary), { source, target } = glossary || {};
  byId("terms-closed").textContent = reason;
  byId("terms-closed").hidden = !reason;
  byId("term").hidden = !glossary || Boolean(reason);
  byId("term").querySelector("label").textContent = source ? `${languageName(source)} term` : "Term";
  byId("term-text").lang = source || "";
  for (const id of ["term-targets", "term-forbidden"]) byId(id).lang = target || "";
}

async function turnTo(place) {
  const mine = ++latest, name = shown, query = new URLSearchParams({ offset: Math.max(0, place), limit: PAGE, search: byId("term-search").value.trim() });
  clearTimeout(pause);
  try {
    const found = await ask(`${address(name)}?${query}`);
    if (mine !== latest) return;
    if (found.total && !found.terms.length) { turnTo(Math.floor((found.total - 1) / PAGE) * PAGE); return; } // what was on the page is gone
    showPage(found, name);
  } catch (error) {
    if (mine !== latest) return;
    byId("term-browser").hidden = false;
    byId("term-count").textContent = "";
    byId("terms").replaceChildren(make("li", { class: "notice error", role: "alert" }, make("p", {}, error.message),
      make("button", { type: "button", onclick: () => turnTo(place) }, "Try again")));
  }
}

function showPage({ terms, total, offset: first }, name) {
  const glossary = glossaries().find((one) => one.name === name), editable = !whyClosed(glossary), last = first + terms.length;
  offset = first;
  byId("term-browser").hidden = false;
  byId("term-count").textContent = !total ? (byId("term-search").value.trim() ? "Nothing found." : "No terms yet.")
    : total <= PAGE ? countOf({ terms: total }) : `${number(first + 1)}–${number(last)} of ${number(total)} terms`;
  byId("terms").start = first + 1;
  byId("terms").replaceChildren(...terms.map((term) => item(term, glossary, editable)));
  for (const [id, is] of [["term-previous", first > 0], ["term-next", last < total]]) {
    byId(id).hidden = total <= PAGE;
    byId(id).toggleAttribute("aria-disabled", !is); // a disabled button would lose the focus
  }
}

function item(term, { source, target }, editable) {
  const about = [term.case_sensitive && "same capitals", !term.inflected && "not inflected", term.tag, term.note].filter(Boolean);
  const button = (verb, work) => make("button", { type: "button", class: "link", "aria-label": `${verb} ${term.source}`, onclick: work }, verb);
  return make("li", {}, make("p", { class: "pair" }, make("strong", { lang: source || "" }, term.source), " → ",
    term.translate ? make("span", { lang: target || "" }, term.targets.join(", ") || "any translation") : make("em", {}, "not translated"),
    ...(term.forbidden.length ? [", not ", make("s", { lang: target || "" }, term.forbidden.join(", "))] : [])),
    about.length ? make("p", { class: "origin" }, ...about.map((text) => make("span", {}, text))) : null,
    editable ? make("p", { class: "origin" }, button("Change", () => change(term)), button("Remove", () => attempt(() => remove(shown, term.source)))) : null);
}

const address = (name) => `/api/v1/glossaries/${encodeURIComponent(name)}`;
const write = (method, name, rest, body) => ask(`${address(name)}/${rest}`, body, { method, kind: "write" });
const lines = (id) => byId(id).value.split("\n").map((line) => line.trim()).filter(Boolean);

// Puts a term into the form; added with the same source, it replaces the one that is there.
function change(term) {
  tag = term.tag;
  for (const [id, value] of [["text", term.source], ["targets", term.targets.join("\n")], ["forbidden", term.forbidden.join("\n")], ["note", term.note]]) byId(`term-${id}`).value = value;
  for (const [id, is] of [["case", term.case_sensitive], ["inflected", term.inflected], ["fixed", !term.translate]]) byId(`term-${id}`).checked = is;
  byId("term-options").open = term.forbidden.length > 0 || Boolean(term.note) || term.case_sensitive || !term.inflected || !term.translate;
  byId("term-targets").focus();
}

function save() {
  const term = { source: byId("term-text").value, targets: lines("term-targets"), forbidden: lines("term-forbidden"), note: byId("term-note").value, tag,
    case_sensitive: byId("term-case").checked, inflected: byId("term-inflected").checked, translate: !byId("term-fixed").checked };
  attempt(() => add(shown, term));
}

async function add(name, term) {
  const { commit, changes, warnings } = await write("POST", name, "terms", { terms: [term] });
  byId("term").reset();
  byId("term-text").focus();
  tag = "";
  const done = commit === null ? `${term.source} is there already.` : `${changes[0].before ? `Changed ${term.source} in` : `Added ${term.source} to`} the glossary ${name}.`;
  return { name, commit, said: [done, ...warnings.map((warning) => `⚠ ${withoutPlace(warning)}.`)].join(" ") };
}

async function remove(name, source) {
  const { commit } = await write("DELETE", name, `terms?${new URLSearchParams({ source })}`);
  return { name, commit, said: `Removed ${source} from the glossary ${name}.`, focus: true };
}

async function undo(name, commit) {
  await write("POST", name, "undo", { commit });
  byId("term-search").focus();
  return { name, commit: null, said: "Undone.", edited: true };
}

// Makes an edit, shows the terms again, and offers to undo it. An edit returns what it did, in words, and its commit.
async function attempt(edit) {
  try {
    const { name, commit, said, edited = commit !== null, focus } = await edit();
    const button = commit === null ? null : make("button", { type: "button", onclick: () => attempt(() => undo(name, commit)) }, "Undo");
    const outdated = edited && changed(name) ? [" The translation is outdated. ", make("span", { class: "for-keys" }, "Ctrl + Enter translates again.")] : [];
    say(make("p", {}, said, ...outdated), ...(button ? [button] : []));
    if (focus) button?.focus();
    await loadGlossaries();
    show(name);
  } catch (error) {
    byId("term-trouble").textContent = withoutPlace(error.message);
    byId("term-trouble").hidden = false;
  }
}

function say(...content) {
  byId("term-trouble").hidden = true;
  byId("term-said").replaceChildren(...content);
}

// The form sends one term, so that its number in the request says nothing.
const withoutPlace = (message) => message.replace(/^terms\.0: /, "");
