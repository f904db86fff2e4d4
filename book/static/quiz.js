// Start the page's quizzes once MathJax is ready (see add_page_scripts in tfcourse_book.py).
(function () {
  function start() {
    for (const held of document.querySelectorAll('script[type="text/x-quiz"]')) {
      const script = document.createElement("script");
      script.textContent = held.textContent;
      held.replaceWith(script);
    }
  }
  const ready = window.MathJax?.startup?.promise ?? Promise.resolve();
  ready.then(start);
})();
