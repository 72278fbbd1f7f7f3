// The view that translates files: options, files to send, and a list of how far each of them is.
import { ask, download } from "/page/api.js";
import { makeItem } from "/page/document_item.js";
import { byId, number } from "/page/dom.js";
import { makeSelection } from "/page/selection.js";

const POLL_SECONDS = 1;
const MEBIBYTE = 2 ** 20;
const KEPT = "documents"; // ids and names in the session storage, so that a reload does not lose the list

let selection = null, limit = 0, suffixes = [];

export function prepareDocuments(info) {
  limit = info.limits.max_file_bytes;
  suffixes = info.file_suffixes;
  selection = makeSelection(byId("document-selection"), info, showOptions);
  showOptions();
  byId("files").accept = suffixes.join(",");
  byId("files-hint").textContent = `${suffixes.join(" ")}, up to ${size(limit)} each.`;
  byId("files").addEventListener("change", ({ target }) => { sendAll([...target.files]); target.value = ""; });
  takeDrops(byId("documents-view"), byId("drop"));
  for (const { id, name } of kept()) follow(Object.assign(add(name), { id }));
}

function takeDrops(view, zone) {
  const over = (is) => zone.classList.toggle("over", is), hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  view.addEventListener("dragover", (event) => { if (hasFiles(event)) { event.preventDefault(); over(true); } });
  view.addEventListener("dragleave", (event) => { if (!view.contains(event.relatedTarget)) over(false); });
  view.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    over(false);
    sendAll([...event.dataTransfer.files]);
  });
}

const size = (bytes) => (bytes < MEBIBYTE ? `${number(bytes)} bytes` : `${number(Math.round(bytes / MEBIBYTE))}\u00a0MiB`);

// Whether translations get a confidence, which a limit for reviews needs.
function hasConfidence() {
  const { memories } = selection.fields();
  return selection.chosen().calibrated && (!memories || memories.length > 0);
}

function showOptions() {
  byId("review-below").disabled = !hasConfidence();
  byId("review-hint").hidden = hasConfidence();
}

function formOf(file) {
  const form = new FormData(), below = byId("review-below");
  for (const [name, value] of Object.entries(selection.fields())) if (value !== null) form.append(name, String(value));
  form.append("overwrite", byId("overwrite").checked);
  form.append("exact_matches", byId("exact-matches").checked);
  if (!below.disabled && below.value) form.append("review_below", below.valueAsNumber / 100);
  form.append("file", file); // last, so that what is wrong with a field is known before the file is read
  return form;
}

function sendAll(files) {
  if (!byId("document-options").reportValidity()) return;
  for (const file of files) send(file, formOf(file));
}

// The server checks this too, but only after the whole file has arrived.
function check({ name, size: bytes }) {
  if (!suffixes.some((suffix) => name.toLowerCase().endsWith(suffix))) throw new Error(`Files of this kind cannot be translated; allowed: ${suffixes.join(", ")}`);
  if (bytes > limit) throw new Error(`The file has ${number(bytes)} bytes; allowed are ${number(limit)}. Split it.`);
}

async function send(file, form) {
  const one = add(file.name);
  try {
    check(file);
    one.id = (await ask("/api/v1/documents", form)).id;
  } catch (error) {
    finish(one, { status: "failed", error: error.message });
    return;
  }
  if (one.removed) discard(one);
  else { keep([...kept(), { id: one.id, name: file.name }]); follow(one); }
}

// A document of the list: its name, its id once the server has it, and whether the user has removed it.
function add(name) {
  const one = { name, id: null, removed: false };
  one.item = makeItem(name, () => remove(one), () => fetchFile(one));
  one.item.show({ status: "sending" });
  byId("document-list").prepend(one.item.element);
  return one;
}

// Asks for the status until it is final. A server that does not respond for a while is asked again.
async function follow(one) {
  let state = { status: "waiting", sentences: 0 };
  while (!one.removed) {
    try {
      state = await ask(`/api/v1/documents/${one.id}`);
    } catch (error) {
      state = { ...state, status: error.status ? "failed" : state.status, error: error.message };
      if (error.status) keep(kept().filter(({ id }) => id !== one.id));
    }
    if (one.removed) return;
    if (state.status === "done" || state.status === "failed") { finish(one, state); return; }
    one.item.show(state);
    await new Promise((resolve) => setTimeout(resolve, POLL_SECONDS * 1000));
  }
}

function finish(one, state) {
  one.state = state;
  one.item.show(state);
  byId("documents-said").textContent = state.status === "done" ? `${one.name}: done, ${state.report.review} to review.` : `${one.name}: ${state.error}`;
}

function remove(one) {
  one.removed = true;
  if (one.id) discard(one);
  one.item.element.remove();
  byId("files").focus();
}

async function discard({ id }) {
  keep(kept().filter((other) => other.id !== id));
  await ask(`/api/v1/documents/${id}`, null, { method: "DELETE" }).catch(() => {}); // the server deletes it later
}

async function fetchFile(one) {
  try {
    await download(`/api/v1/documents/${one.id}/file`, one.state.download);
  } catch (error) {
    one.item.show({ ...one.state, error: error.message });
  }
}

const kept = () => JSON.parse(sessionStorage.getItem(KEPT) || "[]");
const keep = (list) => sessionStorage.setItem(KEPT, JSON.stringify(list));
