(async () => {
  "use strict";
  const { Document } = Bokeh.require("document/document");
  const items = JSON.parse(document.getElementById("figures").textContent);
  const night = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    document.documentElement.classList.toggle("dark", night.matches);
    for (const { figure, themes } of items) {
      for (const [id, properties] of Object.entries(themes)) {
        const values = Object.entries(properties).map(([name, both]) => [name, both[night.matches ? 1 : 0]]);
        figure.get_model_by_id(id)?.setv(Object.fromEntries(values), { sync: false });
      }
    }
  };
  for (const item of items) item.figure = Document.from_json(item.doc);
  paint();
  for (const { figure, element } of items) {
    await Bokeh.embed.add_document_standalone(figure, document.getElementById(element));
  }
  night.addEventListener("change", paint);
  document.documentElement.dataset.figures = "ready";
})();
