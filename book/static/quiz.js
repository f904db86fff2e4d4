// Start the page's quizzes once MathJax is ready (mend_page in tfcourse_book.py says
// why), and give their controls the names that a screen reader needs.
(function () {
  function start() {
    for (const held of document.querySelectorAll('script[type="text/x-quiz"]')) {
      const script = document.createElement("script");
      script.textContent = held.textContent;
      held.replaceWith(script); // runs it; the quiz stands when this returns
    }
    for (const quiz of document.querySelectorAll(".Quiz")) {
      // TeX still stands in the text here: jupyterquiz typesets half a second later.
      const question = quiz.firstElementChild.textContent;
      for (const input of quiz.querySelectorAll("input")) {
        const answer = input.closest(".MCButton");
        input.setAttribute("aria-label", answer ? answer.textContent : question);
      }
      quiz.setAttribute("role", "group");
      quiz.setAttribute("aria-label", question);
      quiz.querySelector(".Feedback")?.setAttribute("role", "status");
    }
  }
  const ready = window.MathJax?.startup?.promise ?? Promise.resolve();
  ready.then(start);
})();
