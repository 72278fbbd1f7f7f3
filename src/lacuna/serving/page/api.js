// Requests to the server. Every failure becomes an Error with a message for the user.
import { byId } from "/page/dom.js";

const KEYS = {
  read: { item: "key", name: "API key", about: "This server requires an API key." },
  write: { item: "write-key", name: "write key", about: "Changes to a memory require the write key." },
};

function askForKey({ name, about }, wrong) {
  const dialog = byId("key");
  byId("key-value").value = "";
  byId("key-title").textContent = wrong ? `Wrong ${name}` : name[0].toUpperCase() + name.slice(1);
  byId("key-about").textContent = `${about} The key is kept until you close this tab.`;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue && byId("key-value").value), { once: true }));
}

export async function ask(path, body, { method = body ? "POST" : "GET", kind = "read" } = {}) {
  const wanted = KEYS[kind], key = sessionStorage.getItem(wanted.item);
  const headers = { ...(body && { "Content-Type": "application/json" }), ...(key && { Authorization: `Bearer ${key}` }) };
  let response;
  try {
    response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Error("The server does not respond. Is it still running?");
  }
  if (response.status === 401) {
    const given = await askForKey(wanted, Boolean(key));
    if (!given) throw new Error(wanted.about);
    sessionStorage.setItem(wanted.item, given);
    return ask(path, body, { method, kind });
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The server returned status ${response.status}.`);
  return answer;
}
