// Which run the tab shows, and where in its report, as part of TensorBoard's own address:
// "#gpukit&gpukit.run=sweep%2Flr-0.1&gpukit.at=run-1a2b". TensorBoard keeps such pairs.

const RUN = "gpukit.run";
const AT = "gpukit.at";

// TensorBoard's window, around the tab's frame.
const around = (() => {
  try {
    return window.parent.location.href ? window.parent : window;
  } catch {
    return window; // another site shows TensorBoard's frame
  }
})();

export function read() {
  const pairs = new Map(parts().map(split));
  return { run: pairs.get(RUN), at: pairs.get(AT) };
}

// Goes to another place: an entry in the browser's history.
export function move({ run, at }) {
  const others = parts().filter((part) => ![RUN, AT].includes(split(part)[0]));
  const own = [[RUN, run], [AT, at]].filter(([, value]) => value);
  const pairs = own.map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  const hash = `#${[...others, ...pairs].join("&")}`;
  if (hash !== around.location.hash) around.history.pushState(around.history.state, "", hash);
}

export function onMove(action) {
  around.addEventListener("hashchange", action);
}

function parts() {
  return around.location.hash.slice(1).split("&").filter(Boolean);
}

function split(part) {
  const [name, value] = part.split("=");
  try {
    return [decodeURIComponent(name), decodeURIComponent(value ?? "")];
  } catch {
    return [name, undefined]; // cut off, by hand or in a mail
  }
}
