// RequireJS finds the widget manager's fonts and anywidget in the book itself, so that
// the widget manager asks no other host and nothing below the page's own folder.
(function () {
  const here = new URL("./", document.currentScript.src).href;
  const manager = here + "jupyter-widgets/html-manager/dist/";
  require.config({
    paths: {
      anywidget: here + "anywidget/index",
      "@jupyter-widgets/html-manager": here + "jupyter-widgets/html-manager",
      "@jupyter-widgets/base": manager + "base",
      "@jupyter-widgets/controls": manager + "controls",
    },
  });
})();
