// Brings a report that is shown up to date in place. Only what changed is replaced, so that the
// scroll position, unfolded sections, selected text and what scripts added stay.

// What has a state of its own, or contains something that has.
const KEPT = "[id], details, input, .plot, .scroll, [data-live]";
// Scripts add these: marked nodes are theirs, and not in what the server sends.
const ADDED = "[data-live]";

export function parsed(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

// Returns false where the page has to be loaded again.
//
// shown: the document in the frame; before: what the server had sent for it; next: what it sends now.
export function update(shown, before, next) {
  if (!isReport(next) || code(before) !== code(next)) return false;
  const page = { shown, before, next, moving: new Map() };
  const stay = keepPlace(shown);
  shown.title = next.title;
  children(shown.body, next.body, page);
  for (const data of next.querySelectorAll('script[type="application/json"]')) {
    const old = shown.getElementById(data.id);
    if (old && old.textContent !== data.textContent) old.textContent = data.textContent;
  }
  const { CustomEvent } = shown.defaultView;
  shown.dispatchEvent(new CustomEvent("gpukit:updated"));
  stay();
  return true;
}

// What is read stays where it is, though what is above it gets longer or shorter. The browser's own
// way loses its hold when it is what was replaced.
function keepPlace(shown) {
  const { defaultView: view, documentElement: root } = shown;
  const top = (node) => node.getBoundingClientRect().top;
  const isInView = (node) => node.checkVisibility() && top(node) >= 0 && top(node) < view.innerHeight;
  const seen = view.scrollY > 0 && [...shown.querySelectorAll("[id]")].find(isInView);
  if (!seen) return () => {};
  const before = top(seen);
  root.style.overflowAnchor = "none";
  return () => {
    if (seen.isConnected) view.scrollBy({ top: top(seen) - before, behavior: "instant" });
    root.style.overflowAnchor = "";
  };
}

function isReport(page) {
  return page.getElementById("figures") !== null;
}

// Style and scripts: of another version of keras_gpukit after TensorBoard was started again.
function code(page) {
  const all = page.querySelectorAll('style, script:not([type="application/json"])');
  return Array.from(all, (each) => each.src + each.textContent).join("\n");
}

function children(old, next, page) {
  const byKey = new Map(Array.from(old.children, (child) => [key(child), child]));
  const left = new Set(old.children);
  let after = null;
  for (const child of next.children) {
    const match = key(child) ? byKey.get(key(child)) : alike(child, after, old);
    const moved = match ? null : page.moving.get(key(child)) ?? find(page.shown, child);
    if (match && left.has(match) && match.localName === child.localName) {
      left.delete(match);
      bring(match, child, page);
      after = match;
    } else if (moved) { // from another part of the page, as a chart that a finding now refers to
      after ? after.after(moved) : old.prepend(moved);
      bring(moved, child, page);
      after = moved;
    } else {
      const made = page.shown.importNode(child, true);
      after ? after.after(made) : old.prepend(made);
      after = made;
    }
  }
  for (const gone of left) {
    if (gone.matches(ADDED)) continue;
    if (find(page.next, gone)) {
      page.moving.set(key(gone), gone);
      gone.remove();
      continue;
    }
    const { Plotly } = page.shown.defaultView;
    gone.querySelectorAll(".plot").forEach((plot) => Plotly?.purge(plot));
    gone.remove();
  }
}

// What a node is known by, whatever comes before it: sections that unfold by their words.
function key(node) {
  const words = node.localName === "details" && node.querySelector("summary")?.textContent;
  return node.id || node.getAttribute("aria-labelledby") || (words ? words.replace(/[\d.,]+/g, "") : "");
}

// What has the name of a node, which is the only one of that name.
function find(page, node) {
  const name = node.getAttribute("aria-labelledby");
  return node.id ? page.getElementById(node.id) : name && page.querySelector(`[aria-labelledby="${name}"]`);
}

// The next one of its kind without a key.
function alike(child, after, old) {
  let candidate = after ? after.nextElementSibling : old.firstElementChild;
  while (candidate && (key(candidate) || candidate.matches(ADDED))) {
    candidate = candidate.nextElementSibling;
  }
  return candidate?.localName === child.localName ? candidate : null;
}

function bring(old, next, page) {
  if (next.localName === "script") return;
  attributes(old, next, page);
  if (next.matches(`.plot, input, ${ADDED}`)) return;
  if (next.querySelector(KEPT)) {
    children(old, next, page);
  } else if (content(old) !== next.innerHTML) {
    old.replaceChildren(...Array.from(next.childNodes, (node) => page.shown.importNode(node, true)));
  }
}

// Scripts change attributes too: only what the server changed is changed here.
function attributes(old, next, page) {
  const before = next.id ? page.before.getElementById(next.id) : old;
  const names = new Set([...(before ?? old).getAttributeNames(), ...next.getAttributeNames()]);
  names.delete("open"); // unfolded by hand
  for (const name of names) {
    const value = next.getAttribute(name);
    if (before?.getAttribute(name) === value) continue;
    value === null ? old.removeAttribute(name) : old.setAttribute(name, value);
  }
}

function content(node) {
  if (!node.querySelector(ADDED)) return node.innerHTML;
  const copy = node.cloneNode(true);
  copy.querySelectorAll(ADDED).forEach((each) => each.remove());
  return copy.innerHTML;
}
