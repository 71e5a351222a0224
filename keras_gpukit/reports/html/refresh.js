// In TensorBoard the page is brought up to date in place, which the event "gpukit:updated" says.
// Figures that changed are drawn again; what was zoomed, or hidden in a legend, stays so.
(() => {
  "use strict";
  const given = () => JSON.parse(document.getElementById("figures").textContent);
  // As the server gave them: Plotly writes into what it is given.
  let before = given();

  document.addEventListener("gpukit:updated", () => {
    const figures = given();
    for (const [id, figure] of Object.entries(figures)) {
      const plot = document.getElementById(id);
      if (!plot.data) document.dispatchEvent(new CustomEvent("gpukit:draw", { detail: { plot, figure } }));
      else if (JSON.stringify(figure) !== JSON.stringify(before[id])) redraw(plot, before[id], figure);
    }
    before = given();
  });

  function redraw(plot, old, figure) {
    const { data, layout } = figure;
    const whole = layout.xaxis?.range && [...layout.xaxis.range];
    layout.dragmode = plot.layout.dragmode;
    const axes = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
    const initial = axes.map((name) => layout[name].range && [...layout[name].range]);
    for (const name of axes) keepZoom(layout[name], plot.layout[name], old?.layout[name]);
    const [shown, given] = [plot.data, old?.data ?? []].map(byName);
    for (const [name, trace] of byName(data)) {
      const { visible } = shown.get(name) ?? trace;
      if (visible !== given.get(name)?.visible) trace.visible = visible;
    }
    plot.given = layout.height;
    Plotly.react(plot, data, layout).then(() => {
      // A double click goes back to all of the run as it is now.
      axes.forEach((name, place) => {
        const axis = plot._fullLayout?.[name];
        if (axis && initial[place]) [axis._rangeInitial0, axis._rangeInitial1] = initial[place];
      });
    });
    if (whole) plot.whole = whole;
  }

  function keepZoom(axis, shown, old) {
    if (!axis || !shown?.range || !old) return;
    const zoomed = old.range ? differs(shown.range, old.range) : shown.autorange === false;
    if (!zoomed) return;
    const factor = unit(old) / unit(axis);
    axis.range = shown.range.map((end) => end * factor);
    axis.autorange = false;
  }

  // A run that gets longer is shown in minutes, then in hours.
  function unit(axis) {
    const [name] = /^(seconds|minutes|hours|days)\b/.exec(axis.title?.text ?? "") ?? [];
    return { seconds: 1, minutes: 60, hours: 3600, days: 86400 }[name] ?? 1;
  }

  function differs(a, b) {
    return a.some((end, side) => Math.abs(end - b[side]) > 1e-9 * (1 + Math.abs(end)));
  }

  // Several may share a name: the first of them, the second, and so on.
  function byName(traces) {
    const count = {};
    return new Map(traces.map((trace) => {
      const name = `${trace.type} ${trace.name}`;
      count[name] = (count[name] ?? 0) + 1;
      return [`${count[name]} ${name}`, trace];
    }));
  }
})();
