// The charts over a run's time share one cursor and one zoom.
(() => {
  "use strict";
  const onScreen = new Set();
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      onScreen[isIntersecting ? "add" : "delete"](target);
    }
  });
  // What one chart does the others do too, which must not come back to it.
  let following = false;

  function others(plot) {
    const all = document.querySelectorAll(`.plot[data-time="${plot.dataset.time}"]`);
    return [...all].filter((each) => each !== plot && each.layout);
  }

  // Plotly says the end of one hover and the begin of the next in one go: what is done at once is
  // over at once, and only zooming takes a while.
  function follow(action) {
    return (event) => {
      if (following) return;
      following = true;
      const doing = action(event);
      if (doing) doing.finally(() => (following = false));
      else following = false;
    };
  }

  addEventListener("gpukit:drawn", ({ target: plot }) => {
    if (!plot.dataset.time) return;
    seen.observe(plot);
    plot.whole = [...plot.layout.xaxis.range]; // of a run in progress it grows
    plot.on("plotly_relayout", follow((event) => {
      if (!Object.keys(event).some((key) => key.startsWith("xaxis"))) return;
      const range = [...plot.layout.xaxis.range];
      const zoomed = range.some((end, side) => Math.abs(end - plot.whole[side]) > 1e-9);
      plot.closest("section").classList.toggle("zoomed", zoomed);
      return Promise.all(others(plot).map((each) => Plotly.relayout(each, { "xaxis.range": [...range] })));
    }));
    plot.on("plotly_hover", follow(({ xvals }) => {
      if (!xvals) return;
      for (const each of others(plot)) {
        if (onScreen.has(each)) Plotly.Fx.hover(each, { xval: xvals[0] }, "xy");
      }
    }));
    plot.on("plotly_unhover", follow(() => others(plot).forEach((each) => Plotly.Fx.unhover(each))));
    plot.closest("figure").querySelector(".reset").addEventListener("click", () =>
      Plotly.relayout(plot, { "xaxis.range": [...plot.whole] }),
    );
  });
})();
