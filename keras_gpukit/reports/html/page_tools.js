// Buttons of the page, and what printing needs: everything open, and charts as wide as the paper.
(() => {
  "use strict";
  // The width of A4 and Letter between their margins.
  const PAPER_PX = 680;

  function button(label, action) {
    const made = Object.assign(document.createElement("button"), { type: "button", className: "copy", title: "Copy" });
    made.setAttribute("aria-label", label);
    made.addEventListener("click", action);
    return made;
  }

  async function copy(text, place) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Not every page may use the clipboard; a selection can always be copied.
      const field = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    place.classList.add("done");
    setTimeout(() => place.classList.remove("done"), 1500);
  }

  function addCopyButtons() {
    for (const code of document.querySelectorAll("code.copied")) {
      if (code.nextElementSibling?.matches(".copy")) continue;
      const made = button(`Copy ${code.textContent}`, () => copy(code.textContent, made));
      made.dataset.live = "";
      code.after(made);
    }
  }
  addCopyButtons();
  document.addEventListener("gpukit:updated", addCopyButtons);

  // On paper the tables, and what else is unfolded, follow as an appendix, run by run.
  let closed = [];
  let moved = [];
  const plots = () => [...document.querySelectorAll(".plot")].filter((plot) => plot.layout);

  function appendix(section) {
    const all = [...section.querySelectorAll("figure > details, details.plain")];
    if (!all.length || !section.checkVisibility()) return;
    const title = section.querySelector("h2").textContent;
    const made = Object.assign(document.createElement("section"), { className: "appendix" });
    made.append(Object.assign(document.createElement("h2"), { textContent: `Tables: ${title}` }));
    for (const details of all) {
      const place = document.createComment("");
      details.replaceWith(place);
      made.append(details);
      moved.push([place, details]);
    }
    document.getElementById("main").append(made);
  }

  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => (details.open = true));
    document.querySelectorAll("main > section").forEach(appendix);
    for (const plot of plots()) {
      plot.style.width = `${PAPER_PX}px`;
      Plotly.relayout(plot, { width: PAPER_PX, height: plot.given });
    }
  });
  addEventListener("afterprint", () => {
    moved.forEach(([place, details]) => place.replaceWith(details));
    moved = [];
    document.querySelectorAll(".appendix").forEach((each) => each.remove());
    closed.forEach((details) => (details.open = false));
    for (const plot of plots()) {
      plot.style.width = "";
      Plotly.relayout(plot, { width: undefined, height: undefined, autosize: true }).then(() =>
        Plotly.Plots.resize(plot),
      );
    }
  });
})();
