// Requests to the server. Every failure becomes an Error with a message for the user.
import { byId, make } from "/page/dom.js";

const KEYS = {
  read: { item: "key", name: "API key", about: "This server requires an API key." },
  write: { item: "write-key", name: "write key", about: "Changes of memories and glossaries require the write key." },
};
const DOWNLOAD_SECONDS = 60; // until a downloaded file is released

function askForKey({ name, about }, wrong) {
  const dialog = byId("key");
  byId("key-value").value = "";
  byId("key-title").textContent = wrong ? `Wrong ${name}` : name[0].toUpperCase() + name.slice(1);
  byId("key-about").textContent = `${about} The key is kept until you close this tab.`;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue && byId("key-value").value), { once: true }));
}

// The body is a form with a file, or an object for JSON. The error of an answer has its status.
async function request(path, body, { method = body ? "POST" : "GET", kind = "read" } = {}) {
  const wanted = KEYS[kind], key = sessionStorage.getItem(wanted.item), json = body && !(body instanceof FormData);
  const headers = { ...(json && { "Content-Type": "application/json" }), ...(key && { Authorization: `Bearer ${key}` }) };
  let response;
  try {
    response = await fetch(path, { method, headers, body: json ? JSON.stringify(body) : body });
  } catch {
    throw new Error("The server does not respond. Is it still running?");
  }
  if (response.status === 401) {
    const given = await askForKey(wanted, Boolean(key));
    if (!given) throw new Error(wanted.about);
    sessionStorage.setItem(wanted.item, given);
    return request(path, body, { method, kind });
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw Object.assign(new Error(answer.error || `The server returned status ${response.status}.`), { status: response.status });
}

export async function ask(path, body, options) {
  return (await request(path, body, options)).json();
}

// Not a plain link, because that cannot send the key.
export async function download(path, name) {
  const address = URL.createObjectURL(await (await request(path)).blob());
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), DOWNLOAD_SECONDS * 1000);
}
