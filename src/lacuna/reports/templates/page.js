// Without this script, all details are open and browsers show the titles of points as tooltips.
for (const part of document.querySelectorAll("details.folded")) part.open = false;
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
const tip = document.body.appendChild(document.createElement("div"));
tip.className = "tip";
tip.hidden = true;
for (const point of document.querySelectorAll(".point")) {
  const title = point.querySelector("title");
  const value = title.textContent;
  title.remove();
  point.addEventListener("pointerenter", () => {
    const place = point.getBoundingClientRect();
    tip.textContent = value;
    tip.hidden = false;
    const left = place.left + place.width / 2 - tip.offsetWidth / 2;
    tip.style.left = Math.max(4, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 4)) + "px";
    tip.style.top = Math.max(4, place.top - tip.offsetHeight - 8) + "px";
  });
  point.addEventListener("pointerleave", () => { tip.hidden = true; });
}
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true, capture: true });
