// Start the page's quizzes once MathJax is ready (mend_page in tfcourse_book.py says
// why), give their controls the names that a screen reader needs, and keep the
// reader's answers in this browser, so that they are there after a reload.
(function () {
  const memory = {
    key: "tfcourse quizzes " + location.pathname,
    read() {
      try {
        return JSON.parse(localStorage.getItem(this.key)) ?? {};
      } catch {
        return {}; // no storage here, or not ours
      }
    },
    write(answers) {
      try {
        if (Object.keys(answers).length) localStorage.setItem(this.key, JSON.stringify(answers));
        else localStorage.removeItem(this.key);
      } catch {
        // Without storage the quiz works, and forgets.
      }
    },
  };

  // One question: its options by their text, as it stands before MathJax typesets it.
  function read(quiz) {
    const options = new Map();
    for (const input of quiz.querySelectorAll(".MCButton input")) {
      const label = input.closest(".MCButton");
      options.set(label.textContent, label);
    }
    const feedback = quiz.querySelector(".Feedback");
    return { quiz, options, feedback, text: quiz.firstElementChild.textContent };
  }

  function name({ quiz, text, feedback }) {
    for (const input of quiz.querySelectorAll("input")) {
      const answer = input.closest(".MCButton");
      input.setAttribute("aria-label", answer ? answer.textContent : text);
    }
    quiz.setAttribute("role", "group");
    quiz.setAttribute("aria-label", text);
    feedback?.setAttribute("role", "status");
  }

  function keepProgress(container, questions) {
    const line = document.createElement("div");
    line.className = "quiz-progress";
    line.innerHTML = '<span role="status"></span> <button type="button">Start again</button>';
    const [status, button] = line.children;

    function count() {
      const chosen = questions.filter((q) => q.chosen);
      const right = chosen.filter((q) => q.chosen.dataset.correct === "true");
      status.textContent =
        `${chosen.length} of ${questions.length} answered, ${right.length} right.`;
      button.disabled = !chosen.length;
    }

    const kept = memory.read();
    for (const question of questions) {
      const label = question.options.get(kept[question.text]);
      if (label) {
        question.chosen = label;
        // jupyterquiz marks it and shows what it says about it; the focus stays where it is.
        label.querySelector("input").click();
      }
      question.quiz.addEventListener("click", (event) => {
        const label = event.target.closest(".MCButton");
        const option = [...question.options].find(([, other]) => other === label);
        if (!option) return;
        question.chosen = label;
        memory.write({ ...memory.read(), [question.text]: option[0] });
        count();
      });
    }
    button.addEventListener("click", () => {
      const left = memory.read();
      for (const question of questions) {
        delete left[question.text];
        question.chosen = undefined;
        for (const label of question.options.values()) {
          label.className = "MCButton";
          label.querySelector("input").checked = false;
        }
        question.feedback.className = "Feedback";
        question.feedback.textContent = "";
      }
      memory.write(left);
      count();
      // The button is off now; the keyboard goes on at the first question.
      questions[0].quiz.querySelector("input").focus();
    });
    count();
    container.append(line);
  }

  function start() {
    for (const held of document.querySelectorAll('script[type="text/x-quiz"]')) {
      const script = document.createElement("script");
      script.textContent = held.textContent;
      held.replaceWith(script); // runs it; the quiz stands when this returns
    }
    for (const container of document.querySelectorAll("[data-shufflequestions]")) {
      const questions = [...container.querySelectorAll(".Quiz")].map(read);
      const choices = questions.filter(({ options }) => options.size);
      if (choices.length) keepProgress(container, choices);
      questions.forEach(name); // after that, so that nothing is spoken while the page loads
    }
  }
  const ready = window.MathJax?.startup?.promise ?? Promise.resolve();
  ready.then(start);
})();
