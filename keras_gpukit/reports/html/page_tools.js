// Buttons of the page, and what printing needs: findings open, and charts as wide as the paper.
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

  let closed = [];
  const plots = () => [...document.querySelectorAll(".plot")].filter((plot) => plot.layout);

  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll(".finding:not([open])")];
    closed.forEach((details) => (details.open = true));
    for (const plot of plots()) {
      plot.style.width = `${PAPER_PX}px`;
      Plotly.relayout(plot, { width: PAPER_PX, height: plot.given });
    }
  });
  addEventListener("afterprint", () => {
    closed.forEach((details) => (details.open = false));
    for (const plot of plots()) {
      plot.style.width = "";
      Plotly.relayout(plot, { width: undefined, height: undefined, autosize: true }).then(() =>
        Plotly.Plots.resize(plot),
      );
    }
  });
})();
