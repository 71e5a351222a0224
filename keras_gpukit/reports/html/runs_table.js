// The table of many runs: sorted by a column, and two of them compared.
//
// The page may change beneath it, in TensorBoard while runs go on: the event "gpukit:updated" says
// so, and the table is put in order again.
(() => {
  "use strict";
  const one = (selector) => document.querySelector(selector);
  if (!one(".runs-table")) return;
  const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  // What the page had before any of it was changed by hand.
  const view = { column: null, descending: false, picked: [] };

  const rows = () => [...document.querySelectorAll(".runs-table tbody tr")];
  const heads = () => [...document.querySelectorAll(".runs-table thead th")];

  function sort() {
    const place = heads().findIndex((head) => head.textContent.trim() === view.column);
    heads().forEach((head, number) => {
      if (number !== place) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", view.descending ? "descending" : "ascending");
    });
    if (place < 0) return;
    const sign = view.descending ? -1 : 1;
    const keyed = rows().map((row) => [key(row.cells[place]), row]);
    // What is unknown stays at the end, whichever way the rest is sorted.
    keyed.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * compared(a, b)));
    one(".runs-table tbody").append(...keyed.map(([, row]) => row));
  }

  function key(cell) {
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent.trim();
    return text === "unknown" ? null : text;
  }

  function compared(a, b) {
    return typeof a === "number" && typeof b === "number" ? a - b : order.compare(a, b);
  }

  // Python compares the runs, `keras-gpukit compare` in the same way; here a comparison is shown.
  function compare() {
    const { order: ids, pairs, others } = JSON.parse(one("#compared").textContent);
    view.picked = view.picked.filter((id) => ids.includes(id));
    for (const box of document.querySelectorAll(".runs-table input")) {
      box.checked = view.picked.includes(box.value);
    }
    // The newest run is the first; a comparison has the older one first.
    const [newer, older] = [...view.picked].sort((a, b) => ids.indexOf(a) - ids.indexOf(b));
    const made = older ? comparison(pairs[`${older} ${newer}`], others) : [];
    const place = one("#comparison");
    const next = element("div", {}, ...made);
    if (place.innerHTML !== next.innerHTML) place.replaceChildren(...made);
  }

  function comparison(found, others) {
    const header = element(
      "header", {},
      element("h3", { textContent: "Two runs compared" }),
      element("button", { type: "button", textContent: "Close" }),
    );
    if (!found) return [header, element("p", { textContent: others })];
    const { headline: [severity, text], reasons, tables } = found;
    return [
      header,
      element("p", { className: `headline ${severity}`, textContent: text }),
      ...(reasons.length
        ? [element("ul", {}, ...reasons.map((each) => element("li", { textContent: each })))]
        : []),
      ...tables.flatMap(([title, { columns, rows, note }]) => [
        element("h4", { textContent: title }),
        ...(rows.length ? [table(columns, rows)] : []),
        ...(note ? [element("p", { textContent: note })] : []),
      ]),
    ];
  }

  function table(columns, body) {
    const cells = (row) => row.map((text, place) => {
      if (!place) return element("th", { scope: "row", textContent: text });
      const isMark = place === row.length - 1 && ["better", "worse"].includes(text);
      return element("td", { textContent: text, className: isMark ? text : "" });
    });
    return element(
      "table", {},
      element("thead", {}, element("tr", {}, ...columns.map((text) =>
        element("th", { scope: "col", textContent: text })))),
      element("tbody", {}, ...body.map((row) => element("tr", {}, ...cells(row)))),
    );
  }

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  // Two picked runs are in the address, so that the comparison can be linked to.
  function pick(ids) {
    view.picked = ids.slice(-2);
    compare();
    const hash = view.picked.length === 2 ? `#compare=${view.picked.join(",")}` : "#runs";
    if (location.hash !== hash && (view.picked.length === 2 || location.hash.startsWith("#compare="))) {
      // In TensorBoard the address is that of its page.
      history[window === parent ? "pushState" : "replaceState"](null, "", hash);
      dispatchEvent(new Event("gpukit:moved"));
    }
  }

  function follow() {
    const hash = /^#compare=([\w-]+),([\w-]+)$/.exec(location.hash);
    view.picked = hash ? hash.slice(1) : [];
    compare();
    if (hash) one("#comparison").scrollIntoView({ block: "nearest" });
  }

  function arrange() {
    sort();
    compare();
  }

  document.addEventListener("click", ({ target }) => {
    const button = target.closest(".runs-table .sort");
    if (button) {
      const column = button.textContent.trim();
      view.descending = view.column === column && !view.descending;
      view.column = column;
      sort();
    }
    if (target.closest("#comparison button")) pick([]);
  });
  document.addEventListener("change", ({ target }) => {
    if (!target.matches(".runs-table input")) return;
    const others = view.picked.filter((id) => id !== target.value);
    pick(target.checked ? [...others, target.value] : others);
  });
  addEventListener("hashchange", follow);
  addEventListener("popstate", follow);
  document.addEventListener("gpukit:updated", arrange);
  follow();
})();
