// Draws every figure of the page. Colours of text and lines are the style sheet's.
(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  // A finger scrolls the page; only a mouse zooms by dragging.
  const touch = matchMedia("(pointer: coarse)").matches;
  // The page has buttons of its own: a chart is an image, in which there can be none.
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  function draw(plot, figure) {
    if (touch) figure.layout.dragmode = false;
    // With the window, a figure takes its size from its place, which without this has no height.
    plot.style.height = `${figure.layout.height}px`;
    Plotly.newPlot(plot, figure.data, figure.layout, config).then(() =>
      plot.dispatchEvent(new CustomEvent("gpukit:drawn", { bubbles: true })),
    );
  }
  for (const [id, figure] of Object.entries(figures)) draw(document.getElementById(id), figure);
  document.addEventListener("gpukit:draw", ({ detail }) => draw(detail.plot, detail.figure));
})();
