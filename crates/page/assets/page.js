// Puts the page together.

for (const article of document.querySelectorAll("article.run")) {
  const data = readJson(`data-${article.dataset.run}`);
  for (const section of article.querySelectorAll("section.pane")) {
    const pane = data.panes.find((p) => p.id === section.dataset.pane);
    section.append(...drawBlocks(pane.blocks));
  }
  const map = article.querySelector("section.heat");
  if (map && data.heat) heatMap(map, data.heat);
  for (const figure of article.querySelectorAll("figure.moment")) {
    timeline(figure, data.findings.pictures[Number(figure.dataset.picture)], data.findings.names);
  }
  for (const button of article.querySelectorAll("button.perfetto")) {
    const picture = data.findings.pictures[Number(button.dataset.picture)];
    const title = `${button.closest("article.finding").id.replace(/^f-/, "")}, ${picture.caption}`;
    button.addEventListener("click", () => openInPerfetto(picture, title, button));
  }
}

if (settings.queries) askBox(byId("ask"));

for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", () => copyText(button.parentElement.querySelector("code").textContent, button));
}

// What is linked to may be inside something closed.
function reveal() {
  let target = null;
  try {
    target = byId(decodeURIComponent(location.hash.slice(1)));
  } catch {
    return;
  }
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  if (target) target.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
if (location.hash) reveal();

// The contents show where the reader is: in the section that a link led to, if it begins in the upper fifth of the window
// or the page ends too early for that, else in the last section that begins there.
const sections = [...document.querySelectorAll("header.top nav a")]
  .map((link) => ({ link, node: byId(link.getAttribute("href").slice(1)) })).filter(({ node }) => node);

function showPlace() {
  const page = document.documentElement;
  const top = ({ node }) => node.getBoundingClientRect().top;
  const isAtEnd = window.innerHeight + window.scrollY >= page.scrollHeight - 2;
  const isHigh = (section) => top(section) <= window.innerHeight / 5;
  const isLinked = (section) => `#${section.node.id}` === location.hash && top(section) >= 0;
  const linked = sections.find((section) => isLinked(section) && (isAtEnd || isHigh(section)));
  const begun = sections.filter(isHigh);
  const current = linked || begun[begun.length - 1] || sections[0];
  for (const section of sections) {
    if (section === current) section.link.setAttribute("aria-current", "true");
    else section.link.removeAttribute("aria-current");
  }
}

let isPlaceDue = false;
function placeSoon() {
  if (isPlaceDue) return;
  isPlaceDue = true;
  requestAnimationFrame(() => { isPlaceDue = false; showPlace(); });
}
for (const kind of ["scroll", "resize", "hashchange"]) window.addEventListener(kind, placeSoon, { passive: true });
showPlace();

// Light and dark: as the system has it, until the reader chooses.
const root = document.documentElement;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const stored = (value) => {
  try {
    if (value !== undefined) localStorage.setItem("theme", value);
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
};
const setTheme = (theme) => { root.dataset.theme = theme; redraw(); };
if (["light", "dark"].includes(stored())) setTheme(stored());
byId("theme").addEventListener("click", () => {
  const now = root.dataset.theme || (dark.matches ? "dark" : "light");
  setTheme(now === "dark" ? "light" : "dark");
  stored(root.dataset.theme);
  say(`${root.dataset.theme} colors`);
});
dark.addEventListener("change", redraw);

// Paper is white, and has no place to scroll to.
const FINDINGS_ON_PAPER = 3;
let themeBefore;
let closed = [];
window.addEventListener("beforeprint", () => {
  // The evidence of the first findings of each run is on paper, that of others only if the reader has opened it.
  closed = [...document.querySelectorAll("article.run")]
    .flatMap((run) => [...run.querySelectorAll("article.finding")].slice(0, FINDINGS_ON_PAPER))
    .flatMap((finding) => [...finding.querySelectorAll("details.evidence:not([open])")]);
  closed.forEach((node) => { node.open = true; });
  themeBefore = root.dataset.theme;
  setTheme("light");
  showAll();
});
window.addEventListener("afterprint", () => {
  closed.forEach((node) => { node.open = false; });
  if (themeBefore) root.dataset.theme = themeBefore;
  else delete root.dataset.theme;
  redraw();
});

// A page that is served loads again when the run has changed.
if (settings.live) {
  let version = null;
  setInterval(async () => {
    try {
      const answer = await (await fetch(settings.live, { cache: "no-store" })).text();
      version = version ?? answer;
      // A query that runs would begin again.
      if (answer !== version && !isAsking()) {
        keepQuery();
        location.reload();
      }
    } catch {
      // The server has ended: the page stays as it is.
    }
  }, 2000);
}

root.dataset.ready = "yes";
