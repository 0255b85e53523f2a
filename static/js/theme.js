// Sets the theme before the page is drawn and lets the button in the top bar switch it.
(() => {
  const chosen = localStorage.getItem("theme");
  const root = document.documentElement;
  if (chosen) root.dataset.theme = chosen;

  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      localStorage.setItem("theme", root.dataset.theme);
      dispatchEvent(new Event("themechange"));
    });
  });
})();
