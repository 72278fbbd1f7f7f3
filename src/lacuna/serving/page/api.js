// Requests to the server. Every failure becomes an Error with a message for the user.
import { byId } from "/page/dom.js";

function askForKey(wrong) {
  const dialog = byId("key");
  byId("key-value").value = "";
  byId("key-title").textContent = wrong ? "Wrong API key" : "API key";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(byId("key-value").value), { once: true }));
}

export async function ask(path, body) {
  const key = sessionStorage.getItem("key");
  const headers = { ...(body && { "Content-Type": "application/json" }), ...(key && { Authorization: `Bearer ${key}` }) };
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Error("The server does not respond. Is it still running?");
  }
  if (response.status === 401) {
    const given = await askForKey(Boolean(key));
    if (!given) throw new Error("The server requires an API key.");
    sessionStorage.setItem("key", given);
    return ask(path, body);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The server returned status ${response.status}.`);
  return answer;
}
