// Draws every figure of the page. Colours of text and lines are the style sheet's.
(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  // A finger scrolls the page; only a mouse zooms by dragging.
  const touch = matchMedia("(pointer: coarse)").matches;
  const config = {
    displaylogo: false,
    responsive: true,
    displayModeBar: touch ? false : "hover",
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  };
  for (const [id, figure] of Object.entries(figures)) {
    if (touch) figure.layout.dragmode = false;
    // With the window, a figure takes its size from its place, which without this has no height.
    document.getElementById(id).style.height = `${figure.layout.height}px`;
    Plotly.newPlot(id, figure.data, figure.layout, config);
  }
  const resize = () => Object.keys(figures).forEach((id) => Plotly.Plots.resize(id));
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll(".finding:not([open])")];
    closed.forEach((details) => (details.open = true));
    resize();
  });
  addEventListener("afterprint", () => {
    closed.forEach((details) => (details.open = false));
    resize();
  });
})();
