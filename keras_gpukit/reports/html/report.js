// Draws every figure of the page. Colours of text and lines are the style sheet's.
(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  // A finger scrolls the page; only a mouse zooms by dragging.
  const touch = matchMedia("(pointer: coarse)").matches;
  // The page has buttons of its own: a chart is an image, in which there can be none.
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  // The height of a figure has room for a legend of one line.
  const LEGEND_PX = 30;

  function draw(plot, figure) {
    if (touch) figure.layout.dragmode = false;
    plot.given = figure.layout.height;
    Plotly.newPlot(plot, figure.data, figure.layout, config).then(() => {
      plot.on("plotly_afterplot", () => makeRoom(plot));
      makeRoom(plot);
      plot.dispatchEvent(new CustomEvent("gpukit:drawn", { bubbles: true }));
    });
  }

  // A legend of more lines, as on a phone, makes the figure higher: it takes nothing from the plot.
  function makeRoom(plot) {
    const legend = Number(plot.querySelector(".infolayer .legend .bg")?.getAttribute("height") ?? 0);
    const height = plot.given + Math.max(0, Math.round(legend) - LEGEND_PX);
    // With the window, a figure takes its size from its place, which without this has no height.
    plot.style.height = `${height}px`;
    if (plot.querySelector(".main-svg").clientHeight !== height) Plotly.Plots.resize(plot);
  }

  for (const [id, figure] of Object.entries(figures)) draw(document.getElementById(id), figure);
  // Charts that were drawn where they were not seen have no size.
  document.addEventListener("toggle", ({ target }) => {
    for (const plot of target.querySelectorAll(".plot")) if (plot.layout) Plotly.Plots.resize(plot);
  }, true);
  document.addEventListener("gpukit:draw", ({ detail }) => draw(detail.plot, detail.figure));
})();
