// Long tables have a field that leaves only the rows with all of its words.
//
// In TensorBoard the page changes beneath it, which the event "gpukit:updated" says.
(() => {
  "use strict";
  const FIELD = ".filtered input[type=search]";

  function filter(field) {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const table = field.closest(".filtered");
    const rows = [...table.querySelectorAll("tbody tr")];
    let shown = 0;
    for (const row of rows) {
      const titles = [...row.querySelectorAll("[title]")].map((each) => each.title);
      const cells = [...row.cells].map((cell) => cell.textContent);
      const seen = [...titles, ...cells].join(" ").toLowerCase();
      row.hidden = !words.every((word) => seen.includes(word));
      shown += !row.hidden;
    }
    const all = `${rows.length.toLocaleString("en")} ${table.dataset.of}`;
    const text = words.length ? `${shown.toLocaleString("en")} of ${all}` : "";
    const count = table.querySelector("[role=status]");
    if (count.textContent !== text) count.textContent = text;
  }

  document.addEventListener("input", ({ target }) => target.matches(FIELD) && filter(target));
  document.addEventListener("gpukit:updated", () => document.querySelectorAll(FIELD).forEach(filter));
})();
