// Shortcut keys. They focus or follow a visible control that names its key (data-key); a button that
// would send a form is only focused, so that no key ever approves, resumes or asks by itself.
(() => {
  const STORED = "shortcuts";
  const isOn = () => localStorage.getItem(STORED) !== "off";
  let prefix = "";
  let forget = 0;

  const isTyping = (target) => target.isContentEditable || target.matches?.("input, textarea, select");
  const isVisible = (element) => element.getClientRects().length > 0;

  function controlFor(key) {
    const found = document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`);
    return [...found].find(isVisible);
  }

  function use(control) {
    control.focus();
    if (control.matches("a[href], button[type=button]")) control.click();
  }

  // `j` and `k` walk along the gates or rows of a page.
  function walk(step) {
    const stops = [...document.querySelectorAll("[data-row], [data-gate]")].filter(isVisible);
    if (!stops.length) return;
    const here = stops.findIndex((stop) => stop.contains(document.activeElement));
    const next = here < 0 ? (step > 0 ? 0 : stops.length - 1) : here + step;
    const stop = stops[Math.max(0, Math.min(stops.length - 1, next))];
    stop.focus();
    stop.scrollIntoView({ block: "nearest" });
  }

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !isOn()) return;
    const key = prefix ? `${prefix} ${event.key}` : event.key;
    prefix = "";
    clearTimeout(forget);
    if (key === "j" || key === "k") {
      event.preventDefault();
      walk(key === "j" ? 1 : -1);
      return;
    }
    const control = controlFor(key);
    if (control) {
      event.preventDefault();
      use(control);
    } else if (document.querySelector(`[data-key^="${CSS.escape(key)} "]`)) {
      prefix = key;
      forget = setTimeout(() => {
        prefix = "";
      }, 1200);
    }
  });

  addEventListener("DOMContentLoaded", () => {
    const box = document.getElementById("shortcuts-on");
    if (!box) return;
    box.checked = isOn();
    box.disabled = false;
    box.addEventListener("change", () => localStorage.setItem(STORED, box.checked ? "on" : "off"));
  });
})();
