// Creation of elements. All data is inserted as text, never as markup.
export const byId = (id) => document.getElementById(id);

export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const number = (value) => value.toLocaleString("en-US");
export const percent = (share) => {
  const value = share * 100;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${value >= 10 || value === 0 ? Math.round(value) : value.toFixed(1)} %`;
};

// Whether a key press is Ctrl + Enter; it then does nothing else on the page.
export function isSubmit(event) {
  const is = event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented;
  if (is) event.preventDefault();
  return is;
}

// Removes the word boundary markers of tokenizers.
export function spoken(token) {
  if (/^<\/?s>$|^<eos>$/.test(token)) return "end of sentence";
  return token.replace(/▁|Ġ/g, " ").replace(/<\/w>$|@@$/, "").trim();
}

export function knownMark(known) {
  return make("span", { class: known ? "tag known" : "tag unknown" }, known ? "● known" : "▲ unknown");
}

// A bar for a share; the number is next to it for screen readers.
export function meter(share, kind = "") {
  const bar = make("span", { class: `meter ${kind}`, "aria-hidden": "true" }, make("span"));
  bar.firstChild.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return bar;
}
