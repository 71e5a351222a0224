// The tab: a bar with the folders to pick from, and the report of the picked one in a frame, which
// is brought up to date in place when its record changes.

import * as address from "./address.js";
import * as live from "./live.js";
import { followTheme } from "./theme.js";

const POLL_MS = 3000;
// Making a report takes the server a while: it spends at most a quarter of the time on it.
const REST = 3;
const LONGEST = 38; // characters of a name in the list of runs
const MISSING = "missing"; // the address names runs that are not, or not yet, found

const tab = {
  live: true,
  shown: null, // what the frame shows: folder, stamp and page
  frame: null,
};

export async function render() {
  document.documentElement.lang = "en";
  document.title = "GPU Kit";
  const style = element("link", { rel: "stylesheet", href: "./tab.css" });
  style.addEventListener("load", () => tab.theme.apply(document));
  document.head.append(
    element("meta", { name: "viewport", content: "width=device-width" }),
    style,
  );
  tab.picker = element("select", { id: "folder" });
  tab.picker.addEventListener("change", () => go({ run: called(tab.picker.selectedOptions[0].title) }));
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
  tab.theme = followTheme(() => [document, tab.frame?.contentDocument]);
  address.onMove(refresh);

  await refresh(); // the first read takes everything, later ones only new lines
  for (let rest = POLL_MS; ; ) {
    await new Promise((done) => setTimeout(done, rest));
    const began = performance.now();
    if (tab.live && onScreen()) await refresh();
    rest = Math.max(POLL_MS, REST * (performance.now() - began));
  }
}

// Shows another place, which the browser's back button leaves again.
function go(place) {
  address.move(place);
  refresh();
}

let refreshing = Promise.resolve();

// One after the other, so that an answer that comes late never replaces a newer one.
function refresh() {
  refreshing = refreshing.then(refreshOnce).catch(() => say("TensorBoard is not responding", true));
  return refreshing;
}

async function refreshOnce() {
  const { run, at } = address.read();
  // The folder's id is known once its name was found in an answer.
  let state = await ask("state", tab.ids?.get(run));
  const known = idOf(state, run);
  if (known !== undefined && known !== tab.ids?.get(run)) state = await ask("state", known);
  tab.ids = new Map(state.folders.map(({ id, name }) => [called(name), id]));
  const folder = run === undefined ? undefined : (known ?? (state.folders.length ? MISSING : undefined));
  pick(state, run);
  if (tab.shown?.folder !== folder || !tab.frame) {
    await show(folder, state.stamp, at);
  } else if (tab.shown.stamp !== state.stamp && folder !== MISSING) {
    await update(folder, state.stamp, at);
  }
  arrive(at);
  say(`Updated ${tab.updated}` + (state.complete ? "" : ", too many folders to search them all"));
}

function idOf({ folders }, run) {
  return folders.find(({ name }) => called(name) === run)?.id;
}

// How many folders there are says nothing about which ones are meant.
function called(name) {
  return name.replace(/\bAll [\d,]+ folders$/, "All folders");
}

function url(route, folder) {
  const made = new URL(`./${route}`, import.meta.url);
  if (folder) made.searchParams.set(folder === MISSING ? MISSING : "folder", folder);
  return made;
}

async function ask(route, folder) {
  const answer = await fetch(url(route, folder));
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

function pick({ folders }, run) {
  tab.label.hidden = tab.picker.hidden = folders.length < 2;
  const offered = JSON.stringify(folders);
  if (offered !== tab.offered) {
    tab.offered = offered;
    tab.picker.replaceChildren(
      ...folders.map(({ id, name }) => element("option", { value: id, title: name, text: ended(name) })),
    );
  }
  const place = run === undefined ? 0 : folders.findIndex(({ name }) => called(name) === run);
  if (tab.picker.selectedIndex !== place) tab.picker.selectedIndex = place;
  tab.picker.title = folders[place]?.name ?? "";
}

// A long name without its begin: what runs differ in is at the end, which has to fit a phone.
function ended(name) {
  return name.length > LONGEST ? `…${name.slice(1 - LONGEST)}` : name;
}

// Another folder's report loads behind the one that is shown, so that nothing flickers.
async function show(folder, stamp, at = "") {
  const made = url("report", folder);
  const answer = await fetch(made);
  const page = live.parsed(await answer.text());
  made.hash = at;
  const next = element("iframe", { title: "Report", className: "behind", src: made.href });
  const loaded = new Promise((done) => next.addEventListener("load", done));
  tab.frames.append(next);
  await loaded;
  tab.theme.apply(next.contentDocument);
  next.contentDocument.addEventListener("click", follow);
  next.contentWindow.addEventListener("gpukit:moved", () =>
    address.move({ ...address.read(), at: next.contentWindow.location.hash.slice(1) }),
  );
  next.className = "";
  tab.frame?.remove();
  tab.frame = next;
  tab.shown = { folder, stamp, page };
  tab.updated = new Date().toLocaleTimeString();
}

async function update(folder, stamp, at) {
  const answer = await fetch(url("report", folder));
  const page = live.parsed(await answer.text());
  if (!live.update(tab.frame.contentDocument, tab.shown.page, page)) {
    await show(folder, stamp, at);
    return;
  }
  tab.shown = { folder, stamp, page };
  tab.updated = new Date().toLocaleTimeString();
}

// A place within the report, without an entry in the history for the frame.
function arrive(at = "") {
  const { location } = tab.frame.contentWindow;
  // The whole address, since a part of one would be taken for one from this page's.
  if (location.hash.slice(1) !== at) location.replace(`${location.href.split("#")[0]}#${at}`);
}

// Links in the report move the whole tab: to a place in it, or to the report of another run.
function follow(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const to = new URL(link.href);
  if (to.pathname !== url("report").pathname) return;
  event.preventDefault();
  const at = to.hash.slice(1);
  if (link.getAttribute("href").startsWith("#")) {
    go({ ...address.read(), at });
    arrive(at);
    return;
  }
  const folder = to.searchParams.get("folder");
  const name = [...tab.ids].find(([, id]) => id === folder)?.[0];
  if (name !== undefined) go({ run: name, at });
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
