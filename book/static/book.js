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
