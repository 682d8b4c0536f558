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

// The contents show where the reader is.
const links = new Map([...document.querySelectorAll("header.top a")].map((a) => [a.getAttribute("href").slice(1), a]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const link = links.get(entry.target.id);
    if (link && entry.isIntersecting) {
      links.forEach((other) => other.removeAttribute("aria-current"));
      link.setAttribute("aria-current", "true");
    }
  }
}, { rootMargin: "-20% 0px -70% 0px" });
links.forEach((_, id) => { if (byId(id)) seen.observe(byId(id)); });

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
let themeBefore;
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details.evidence:not([open])")];
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
      if (version !== null && answer !== version) location.reload();
      version = answer;
    } catch {
      // The server has ended: the page stays as it is.
    }
  }, 2000);
}

root.dataset.ready = "yes";
