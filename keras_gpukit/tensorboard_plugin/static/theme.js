// Light or dark, as TensorBoard's own switch says; as the system says where there is no TensorBoard.

const DARK = /prefers-color-scheme:\s*dark/;

export function followTheme(pages) {
  const body = bodyAround();
  const known = new WeakMap();

  function apply(page) {
    if (!page || !body) return;
    const dark = body.classList.contains("dark-mode");
    page.documentElement.style.colorScheme = dark ? "dark" : "light";
    for (const sheet of page.styleSheets) {
      for (const rule of sheet.cssRules) {
        if (DARK.test(rule.media?.mediaText)) known.set(rule, true);
        if (known.has(rule)) rule.media.mediaText = dark ? "all" : "not all";
      }
    }
  }

  if (body) {
    const change = () => pages().forEach(apply);
    new MutationObserver(change).observe(body, { attributeFilter: ["class"] });
    change();
  }
  return { apply };
}

// TensorBoard marks the body of its page while it is dark.
function bodyAround() {
  try {
    return window.parent === window ? null : window.parent.document.body;
  } catch {
    return null; // another site shows this frame
  }
}
