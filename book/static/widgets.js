// RequireJS finds anywidget in the book itself, so the widget manager asks no other host.
(function () {
  const here = new URL("./", document.currentScript.src).href;
  require.config({ paths: { anywidget: here + "anywidget/index" } });
})();
