// Elements, numbers in words, colors, the tooltip, and canvases that follow their size and the theme.

const byId = (id) => document.getElementById(id);
const readJson = (id) => JSON.parse(byId(id).textContent);
const settings = readJson("settings");

/** An element with attributes, listeners and children. Text becomes text nodes: names of a trace are never markup. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const digits = (v) => {
  const size = Math.abs(v);
  return v.toFixed(size >= 99.95 || size === 0 ? 0 : size >= 0.995 ? 1 : 2);
};

function time(ns) {
  const size = Math.abs(ns);
  const day = 86400e9;
  const [scale, unit] =
    size >= 2 * day ? [day, "days"]
    : size >= 7200e9 ? [3600e9, "h"]
    : size >= 1e9 ? [1e9, "s"]
    : size >= 1e6 ? [1e6, "ms"]
    : size >= 1e3 ? [1e3, "us"]
    : [1, "ns"];
  const value = ns / scale;
  const places = unit === "ns" || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toFixed(places)} ${unit}`;
}

function bytes(value) {
  let rest = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(rest) < 1024) return `${unit === "B" ? rest.toFixed(0) : digits(rest)} ${unit}`;
    rest /= 1024;
  }
  return `${digits(rest)} TiB`;
}

const thousands = (v) => Math.round(v).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** `.../models/bert.py:12`: a line of the program with the last folder only. */
const shortPlace = (place) => place.replace(/(?:[^\s/(,]*\/){2,}(?=[^\s/]+\/[^\s/]+)/g, ".../");

function flops(tera) {
  const [factor, unit] = tera >= 1 ? [1, "T"] : tera >= 1e-3 ? [1e3, "G"] : tera >= 1e-6 ? [1e6, "M"] : [1e12, ""];
  return `${Number((tera * factor).toPrecision(3))} ${unit}FLOP/s`;
}

function speed(giga) {
  const [factor, unit] = giga > 0.0995 || giga <= 0 ? [1, "GB"] : giga > 0.995e-3 ? [1e3, "MB"] : giga > 0.995e-6 ? [1e6, "KB"] : [1e9, "B"];
  return `${digits(giga * factor)} ${unit}/s`;
}

/** A value with its unit, in the digits that the rest of the report uses. */
function words(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value !== "number") return unit === "place" ? shortPlace(value) : String(value);
  switch (unit) {
    case "ns": return time(value);
    case "bytes": return bytes(value);
    case "ratio": {
      if (value > 0 && value < 5e-5) return "<0.01 %";
      const text = digits(value * 100);
      return `${text.includes(".") ? text.replace(/\.?0+$/, "") : text} %`;
    }
    case "tflop_per_s": return flops(value);
    case "gb_per_s": return speed(value);
    case "count": return Number.isInteger(value) ? thousands(value) : digits(value);
    default:
      if (Math.abs(value) >= 1e5) return thousands(value);
      return Number.isInteger(value) ? String(value) : digits(value);
  }
}

// Colors. Causes have their own; other names take the next of a fixed list.

const CAUSES = {
  "computation": "computation", "GPU kernels": "computation", "forward": "computation",
  "communication": "communication", "copies": "copies", "data loading": "loading", "loader workers": "loading",
  "synchronization": "sync", "waits for the GPU": "sync", "launching": "launching", "launch latency": "launching",
  "Python": "python", "the host": "python", "CPU operators": "cpu", "allocation": "allocation",
  "waiting for collectives": "collective", "waiting for other streams": "stream", "gaps between kernels": "gaps",
  "first launches": "first", "start-up": "rounding", "compiling": "unused", "profiler": "k-operator", "host not recorded": "free", "unknown": "unknown", "other": "unknown", "idle": "unknown", "the batch": "computation",
  "allocated": "computation", "reserved": "copies", "since the recording began": "computation",
  "graph pool": "sync", "workspace": "cpu", "unexplained": "unknown", "allocated before the recording": "stream", "unknown use": "unknown", "unused": "unused", "rounding": "rounding", "stack not recorded": "unknown",
  "parameter": "computation", "parameters": "computation", "optimizer state": "communication", "gradient": "loading",
  "activation": "copies", "activations": "copies", "input": "python", "temporary": "launching",
  "bound by compute": "computation", "bound by memory": "loading", "bound by cache": "copies", "unknown bound": "unknown",
};
const SERIES = [
  "computation", "loading", "communication", "copies", "python", "sync", "cpu", "launching", "allocation", "first",
  "gaps", "stream", "collective", "unused", "rounding", "free",
];
let styles = getComputedStyle(document.documentElement);
const color = (name) => styles.getPropertyValue(`--${name}`).trim();

/** Colors of names that are shown together, each its own: those of causes, and what is left for others. */
function palette(names) {
  const own = (name) => CAUSES[name] || (name.startsWith("free") ? "free" : undefined);
  const chosen = new Map();
  const taken = new Set();
  const choose = (name, chosenColor) => { chosen.set(name, chosenColor); taken.add(chosenColor); };
  for (const name of names) if (own(name) && !taken.has(own(name))) choose(name, own(name));
  for (const name of names) if (!chosen.has(name)) choose(name, SERIES.find((free) => !taken.has(free)) || "unknown");
  return (name) => color(chosen.get(name));
}

/** The color of text on a color. */
function ink(fill) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16));
  return 0.3 * red + 0.59 * green + 0.11 * blue > 140 ? "#0c0f13" : "#ffffff";
}

// Everything that is drawn on canvas, to draw it again when the theme or the size changes.

const drawn = new Set();

function redraw() {
  styles = getComputedStyle(document.documentElement);
  for (const draw of drawn) draw();
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.draw) target.draw();
});

/** A canvas of a height that `paint` draws on. It has its height from the start, and is drawn once it is near the screen. */
function canvas(height, label, paint) {
  const node = el("canvas", { role: "img", "aria-label": label });
  node.style.height = `${height}px`;
  const holder = el("div", { class: "canvas" }, node);
  let isNear = false;
  const draw = () => {
    const width = holder.clientWidth;
    if (!isNear || width === 0) return;
    const scale = Math.max(window.devicePixelRatio || 1, 1);
    if (node.width !== Math.round(width * scale) || node.height !== Math.round(height * scale)) {
      node.width = Math.round(width * scale);
      node.height = Math.round(height * scale);
    }
    const context = node.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${styles.getPropertyValue("--sans")}`;
    context.textBaseline = "middle";
    paint(context, width, height);
    holder.dataset.drawn = "yes";
  };
  holder.draw = draw;
  holder.show = () => { isNear = true; draw(); };
  drawn.add(draw);
  near.observe(holder);
  sizes.observe(holder);
  return { holder, node, draw };
}

const near = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    near.unobserve(entry.target);
    entry.target.show();
  }
}, { rootMargin: "600px" });

/** Draws what was not near the screen yet, for paper. */
function showAll() {
  for (const holder of document.querySelectorAll(".canvas")) holder.show();
}

// The tooltip

const tip = byId("tip");

function showTip(event, ...lines) {
  tip.replaceChildren(...lines.filter(Boolean).map((line, i) => el("div", { class: i === 0 ? "first" : undefined }, line)));
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  const x = Math.min(event.clientX + 14, window.innerWidth - width - 8);
  const below = event.clientY + 18;
  tip.style.left = `${Math.max(8, x)}px`;
  tip.style.top = `${below + height > window.innerHeight ? event.clientY - height - 12 : below}px`;
}

const hideTip = () => { tip.hidden = true; };
window.addEventListener("scroll", hideTip, { passive: true });

/** Says something to screen readers. */
const say = (text) => { byId("say").textContent = text; };

async function copyText(text, button) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const area = el("textarea", { class: "hidden", "aria-hidden": "true", tabindex: "-1" });
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  const before = button.dataset.label || button.textContent;
  button.dataset.label = before;
  button.textContent = done ? "Copied" : "Cannot copy";
  say(button.textContent);
  setTimeout(() => { button.textContent = before; }, 1500);
}

/** Text cut in the middle so that it fits a width. */
function fit(context, text, width) {
  const isNarrow = (cut) => context.measureText(cut).width <= width;
  if (isNarrow(text)) return text;
  const kept = (count) => `${text.slice(0, Math.ceil(count / 2))}...${text.slice(text.length - Math.floor(count / 2))}`;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (isNarrow(kept(middle))) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : kept(low);
}

/** Round numbers between two ends. */
function ticks(low, high, count, base = 10) {
  if (!(high > low)) return [low];
  const raw = (high - low) / count;
  const power = base ** Math.floor(Math.log(raw) / Math.log(base));
  const steps = base === 2 ? [1, 2] : [1, 2, 5, 10];
  const step = steps.map((s) => s * power).find((s) => s >= raw) || raw;
  const list = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) list.push(v);
  return list;
}
