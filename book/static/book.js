// Formulas wider than the page scroll in their own box: let the keyboard reach those.
(function () {
  function mark() {
    for (const formula of document.querySelectorAll('mjx-container[display="true"]')) {
      if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
      else formula.removeAttribute("tabindex");
    }
  }
  window.addEventListener("load", () => {
    (window.MathJax?.startup?.promise ?? Promise.resolve()).then(mark);
    window.addEventListener("resize", mark);
  });
})();

// The arrows that fold the sidebar need a name.
document.addEventListener("DOMContentLoaded", () => {
  for (const arrow of document.querySelectorAll("summary:has(> .toctree-toggle)")) {
    const page = arrow.closest("li").querySelector("a").textContent.trim();
    arrow.setAttribute("aria-label", `Pages of ${page}`);
  }
});

// Paper is white: print in the light theme, then go back to the reader's.
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; });
addEventListener("afterprint", () => {
  const { dataset } = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = dataset.mode === "auto" ? (dark ? "dark" : "light") : dataset.mode;
});
