// The tab: a bar with the folders to pick from, and the report of the picked one in a frame,
// which is replaced when its record changes.

const POLL_MS = 3000;
// Making a report takes the server a while: it spends at most a quarter of the time on it.
const REST = 3;

const tab = {
  folder: "", // the id of the picked folder; empty for the first
  live: true,
  shown: null, // what the frame shows, as folder and stamp
  frame: null,
};

export async function render() {
  document.documentElement.lang = "en";
  document.title = "GPU Kit";
  document.head.append(
    element("meta", { name: "viewport", content: "width=device-width" }),
    element("link", { rel: "stylesheet", href: "./tab.css" }),
  );
  tab.picker = element("select", { id: "folder" });
  tab.picker.addEventListener("change", () => {
    tab.folder = tab.picker.value;
    refresh();
  });
  tab.button = element("button", { type: "button", textContent: "Pause" });
  tab.button.addEventListener("click", () => {
    tab.live = !tab.live;
    tab.button.textContent = tab.live ? "Pause" : "Resume";
    tab.live ? refresh() : refreshing.then(() => say("Paused"));
  });
  tab.status = element("span", { role: "status" });
  tab.label = element("label", { htmlFor: "folder", textContent: "Runs in" });
  const bar = element("header", { className: "bar" });
  bar.append(tab.label, tab.picker, tab.status, tab.button);
  tab.frames = element("main", { className: "frames" });
  document.body.append(bar, tab.frames);

  await refresh(); // the first read takes everything, later ones only new lines
  for (let rest = POLL_MS; ; ) {
    await new Promise((done) => setTimeout(done, rest));
    const began = performance.now();
    if (tab.live && onScreen()) await refresh();
    rest = Math.max(POLL_MS, REST * (performance.now() - began));
  }
}

let refreshing = Promise.resolve();

// One after the other, so that an answer that comes late never replaces a newer one.
function refresh() {
  refreshing = refreshing.then(refreshOnce).catch(() => say("TensorBoard is not responding", true));
  return refreshing;
}

async function refreshOnce() {
  let state = await ask("state");
  if (tab.folder && !state.folders.some((folder) => folder.id === tab.folder)) {
    tab.folder = "";
    state = await ask("state");
  }
  pick(state);
  const wanted = JSON.stringify([tab.folder, state.stamp]);
  if (wanted !== tab.shown) {
    await show(address("report"));
    tab.shown = wanted;
    tab.updated = new Date().toLocaleTimeString();
  }
  say(`Updated ${tab.updated}` + (state.complete ? "" : ", too many folders to search them all"));
}

function address(route) {
  const url = new URL(`./${route}`, import.meta.url);
  if (tab.folder) url.searchParams.set("folder", tab.folder);
  return url;
}

async function ask(route) {
  const answer = await fetch(address(route));
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

function pick({ folders }) {
  tab.label.hidden = tab.picker.hidden = folders.length < 2;
  const now = JSON.stringify(folders);
  if (now === tab.offered) return;
  tab.offered = now;
  tab.picker.replaceChildren(
    ...folders.map(({ id, name }) => element("option", { value: id, text: name })),
  );
  tab.picker.value = tab.folder || folders[0]?.id;
}

// The new report loads behind the old one, so that nothing flickers.
async function show(url) {
  const next = element("iframe", { title: "Report", className: "behind", src: url.href });
  const loaded = new Promise((done) => next.addEventListener("load", done));
  tab.frames.append(next);
  await loaded;
  const old = tab.frame;
  if (old) keepPlace(old.contentWindow, next.contentWindow);
  next.className = "";
  tab.frame = next;
  old?.remove();
}

// Keeps unfolded sections and the scroll position.
function keepPlace(old, next) {
  const unfolded = new Set(
    Array.from(old.document.querySelectorAll("details[open]"), whichDetails),
  );
  for (const details of next.document.querySelectorAll("details")) {
    details.open ||= unfolded.has(whichDetails(details));
  }
  next.scrollTo(old.scrollX, old.scrollY);
}

function whichDetails(details) {
  return `${details.closest("section")?.id}: ${details.querySelector("summary")?.textContent}`;
}

// TensorBoard hides the frames of the other tabs, where nothing needs to be refreshed.
function onScreen() {
  const shown = window.frameElement?.checkVisibility({ visibilityProperty: true }) ?? true;
  return shown && !document.hidden;
}

function say(text, wrong = false) {
  if (tab.status.textContent !== text) tab.status.textContent = text;
  tab.status.classList.toggle("wrong", wrong);
}

function element(name, properties) {
  const { role, ...rest } = properties;
  const made = Object.assign(document.createElement(name), rest);
  if (role) made.setAttribute("role", role);
  return made;
}
