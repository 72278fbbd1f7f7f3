// Light, dark or system theme. Runs before the first paint, so that the page does not flash.
const THEMES = ["auto", "light", "dark"];
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
setTheme(localStorage.getItem("theme") || "auto");
addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const show = () => {
    const theme = localStorage.getItem("theme") || "auto";
    button.textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[theme];
    button.setAttribute("aria-label", `Theme: ${theme}. Switch.`);
    setTheme(theme);
  };
  button.addEventListener("click", () => {
    const now = localStorage.getItem("theme") || "auto";
    localStorage.setItem("theme", THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
    show();
  });
  show();
});
