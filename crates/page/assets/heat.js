// Ranks by steps as a heat map: one picture of a pixel per cell, scaled; pans and zooms for any number of ranks.

const MAP_HEIGHT = 460;

function decodeFloats(text) {
  return new Float32Array(unpack(text));
}

function heatMap(section, heat) {
  const { ranks, steps, measures, pairs } = heat;
  const values = measures.map((m) => decodeFloats(m.values));
  const state = { measure: 0, order: "rank", view: [0, steps.length, 0, ranks.length], at: null, rows: ranks.map((_, r) => r) };
  const value = (m, r, s) => values[m][r * steps.length + s];
  const mean = (m, r) => {
    let [sum, count] = [0, 0];
    for (let s = 0; s < steps.length; s++) {
      const v = value(m, r, s);
      if (!Number.isNaN(v)) { sum += v; count++; }
    }
    return count ? sum / count : NaN;
  };
  const buttons = measures.map((m, i) => el("button", { type: "button", class: "tab", "aria-pressed": "false", title: m.doc, onclick: () => choose(i) }, m.name));
  const group = el("div", { class: "tabs", role: "group", "aria-label": "Measure" }, ...buttons);
  if (measures.length === 0) return;
  if (ranks.length === 1) {
    const holder = el("div");
    const choose1 = (i) => {
      buttons.forEach((b, n) => b.setAttribute("aria-pressed", String(n === i)));
      const y = steps.map((_, s) => (Number.isNaN(value(i, 0, s)) ? null : value(i, 0, s)));
      const isRow = steps.every((step, s) => step === steps[0] + s);
      const x = steps.map((step, s) => (isRow ? step : s));
      holder.replaceChildren(area({
        title: `${measures[i].name} of each step: ${measures[i].doc}`, x: [...x, x[x.length - 1] + 1], unit: "ns", x_unit: "count", x_label: isRow ? "step" : `steps ${steps[0]} to ${steps[steps.length - 1]}`, is_stacked: true,
        series: [{ name: measures[i].name === "Loading" ? "data loading" : measures[i].name.toLowerCase(), y }],
      }));
    };
    buttons.forEach((b, i) => b.addEventListener("click", () => choose1(i)));
    section.append(el("div", { class: "tools" }, group), holder);
    function choose(i) { choose1(i); }
    choose1(0);
    return;
  }

  const orderBox = el("select", { "aria-label": "Order of ranks", onchange: () => { state.order = orderBox.value; sortRows(); paintCells(); draw(); } },
    el("option", { value: "rank" }, "by rank"), el("option", { value: "value" }, "most first"));
  const zoom = (factor) => () => { zoomAt(factor, 0.5, 0.5); };
  const tool = (text, label, action) => el("button", { type: "button", class: "quiet", "aria-label": label, title: label, onclick: action }, text);
  const reset = () => { state.view = [0, steps.length, 0, ranks.length]; draw(); };
  const tools = el("div", { class: "tools" }, group, orderBox, tool("+", "Zoom in", zoom(0.5)), tool("-", "Zoom out", zoom(2)), tool("All", "Show all", reset));
  const scaleText = el("span", { class: "n" });
  const scaleBar = el("canvas", { width: "120", height: "8", "aria-hidden": "true" });
  const lows = el("span", { class: "n" });
  const highs = el("span", { class: "n" });
  const scale = el("p", { class: "scale" }, lows, scaleBar, highs, scaleText);
  const detail = el("div", { class: "detail", "aria-live": "polite" });
  const cells = document.createElement("canvas");
  cells.width = steps.length;
  cells.height = ranks.length;
  let limits = [0, 1];

  function ramp() {
    const stops = [0, 1, 2, 3, 4].map((i) => {
      const hex = color(`heat-${i}`).slice(1);
      return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
    });
    return (share) => {
      const at = Math.min(Math.max(share, 0), 1) * 4;
      const i = Math.min(3, Math.floor(at));
      return stops[i].map((v, c) => v + (stops[i + 1][c] - v) * (at - i));
    };
  }

  function sortRows() {
    state.rows = ranks.map((_, r) => r);
    if (state.order === "value") {
      const means = ranks.map((_, r) => mean(state.measure, r));
      state.rows.sort((a, b) => (means[b] || 0) - (means[a] || 0) || a - b);
    }
  }

  function paintCells() {
    const m = state.measure;
    const known = Array.from(values[m].filter((v) => !Number.isNaN(v))).sort((a, b) => a - b);
    // One outlier of many does not hide the rest.
    const top = known[Math.ceil((known.length - 1) * (known.length < 400 ? 1 : 0.995))];
    const low = measures[m].name === "Step time" ? known[0] : 0;
    limits = [low, Math.max(top, low + 1)];
    const shade = ramp();
    const context = cells.getContext("2d");
    const image = context.createImageData(steps.length, ranks.length);
    state.rows.forEach((r, y) => {
      for (let s = 0; s < steps.length; s++) {
        const v = value(m, r, s);
        const at = (y * steps.length + s) * 4;
        if (Number.isNaN(v)) continue;
        const [red, green, blue] = shade((v - limits[0]) / (limits[1] - limits[0]));
        image.data.set([red, green, blue, 255], at);
      }
    });
    context.putImageData(image, 0, 0);
    const bar = scaleBar.getContext("2d");
    for (let x = 0; x < 120; x++) {
      bar.fillStyle = `rgb(${shade(x / 119).map(Math.round).join(",")})`;
      bar.fillRect(x, 0, 1, 8);
    }
    lows.textContent = time(limits[0]);
    highs.textContent = time(limits[1]);
    scaleText.textContent = measures[m].doc;
  }

  const pad = { left: 72, top: 4, bottom: 22, right: 6 };
  const mapHeight = Math.max(60, Math.min(MAP_HEIGHT, ranks.length * 16)) + pad.top + pad.bottom;
  const { holder, node, draw } = canvas(mapHeight, "", (c, width, height) => {
    const [x0, x1, y0, y1] = state.view;
    const w = width - pad.left - pad.right;
    const h = height - pad.top - pad.bottom;
    c.imageSmoothingEnabled = false;
    c.drawImage(cells, x0, y0, x1 - x0, y1 - y0, pad.left, pad.top, w, h);
    c.fillStyle = color("muted");
    c.textAlign = "right";
    const rowHeight = h / (y1 - y0);
    const every = Math.max(1, Math.ceil(14 / rowHeight));
    for (let y = Math.ceil(y0); y < y1; y++) {
      if (y % every === 0) c.fillText(`rank ${ranks[state.rows[y]]}`, pad.left - 6, pad.top + (y - y0 + 0.5) * rowHeight);
    }
    c.textAlign = "center";
    const cellWidth = w / (x1 - x0);
    const step = Math.max(1, Math.ceil(64 / cellWidth));
    for (let x = Math.ceil(x0); x < x1; x++) {
      if (x % step === 0) c.fillText(`${x === Math.ceil(x0) ? "step " : ""}${steps[x]}`, pad.left + (x - x0 + 0.5) * cellWidth, height - 9);
    }
    if (cellWidth > 6 && rowHeight > 6) {
      c.strokeStyle = color("ground");
      c.lineWidth = 1;
      c.beginPath();
      for (let x = Math.ceil(x0); x <= x1; x++) { const at = pad.left + (x - x0) * cellWidth; c.moveTo(at, pad.top); c.lineTo(at, pad.top + h); }
      for (let y = Math.ceil(y0); y <= y1; y++) { const at = pad.top + (y - y0) * rowHeight; c.moveTo(pad.left, at); c.lineTo(pad.left + w, at); }
      c.stroke();
    }
    if (state.at) {
      const [sx, sy] = [pad.left + (state.at[0] - x0) * cellWidth, pad.top + (state.at[1] - y0) * rowHeight];
      c.strokeStyle = color("mark");
      c.lineWidth = 2;
      c.strokeRect(sx, sy, Math.max(cellWidth, 3), Math.max(rowHeight, 3));
    }
  });
  node.setAttribute("tabindex", "0");
  node.classList.add("map");

  function cellAt(event) {
    const [x0, x1, y0, y1] = state.view;
    const x = x0 + (event.offsetX - pad.left) / (holder.clientWidth - pad.left - pad.right) * (x1 - x0);
    const y = y0 + (event.offsetY - pad.top) / (mapHeight - pad.top - pad.bottom) * (y1 - y0);
    if (x < x0 || x >= x1 || y < y0 || y >= y1) return null;
    return [Math.floor(x), Math.floor(y)];
  }

  function clampView([x0, x1, y0, y1]) {
    const fitIn = (low, high, size) => {
      const span = Math.min(Math.max(high - low, Math.min(4, size)), size);
      const from = Math.min(Math.max(low, 0), size - span);
      return [from, from + span];
    };
    return [...fitIn(x0, x1, steps.length), ...fitIn(y0, y1, ranks.length)];
  }

  function zoomAt(factor, shareX, shareY) {
    const [x0, x1, y0, y1] = state.view;
    const zoomIn = (low, high, share) => {
      const at = low + (high - low) * share;
      return [at - (at - low) * factor, at + (high - at) * factor];
    };
    state.view = clampView([...zoomIn(x0, x1, shareX), ...zoomIn(y0, y1, shareY)]);
    draw();
  }

  const ofMean = (average) => (words(average, "ns") ? ` (mean of the rank ${words(average, "ns")})` : "");

  function describe([s, y]) {
    const r = state.rows[y];
    const list = measures.map((m, i) => [m.name, value(i, r, s), mean(i, r)]);
    return { r, s, list };
  }

  function select(cell) {
    state.at = cell;
    const { r, s, list } = describe(cell);
    const waits = pairs.filter((p) => p[1] === ranks[r]);
    const waitsFor = pairs.filter((p) => p[0] === ranks[r]).slice(0, 3);
    const lines = [
      el("h3", {}, `Rank ${ranks[r]}, step ${steps[s]}`),
      el("dl", { class: "facts" }, ...list.map(([name, v, average]) => el("div", {}, el("dt", {}, name), el("dd", {}, `${words(v, "ns") || "not known"}${ofMean(average)}`)))),
      waits.length ? el("p", {}, `Others wait for rank ${ranks[r]}: ${time(waits.reduce((sum, p) => sum + p[2], 0))} in total.`) : null,
      waitsFor.length ? el("p", {}, `It waits for ${waitsFor.map((p) => `rank ${p[1]} (${time(p[2])})`).join(", ")}.`) : null,
    ];
    detail.replaceChildren(...lines.filter(Boolean));
    draw();
  }

  let drag = null;
  node.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, y: event.clientY, view: state.view, moved: false }; node.setPointerCapture(event.pointerId); });
  node.addEventListener("pointermove", (event) => {
    if (drag && (event.buttons & 1)) {
      const [x0, x1, y0, y1] = drag.view;
      const dx = (event.clientX - drag.x) / (holder.clientWidth - pad.left - pad.right) * (x1 - x0);
      const dy = (event.clientY - drag.y) / (mapHeight - pad.top - pad.bottom) * (y1 - y0);
      drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4;
      if (drag.moved) {
        state.view = clampView([x0 - dx, x1 - dx, y0 - dy, y1 - dy]);
        hideTip();
        return draw();
      }
    }
    const cell = cellAt(event);
    if (!cell) return hideTip();
    const { r, s, list } = describe(cell);
    showTip(event, `rank ${ranks[r]}, step ${steps[s]}`, ...list.map(([name, v]) => `${name}: ${words(v, "ns") || "not known"}`));
  });
  node.addEventListener("pointerup", (event) => {
    const cell = cellAt(event);
    if (drag && !drag.moved && cell) select(cell);
    drag = null;
  });
  node.addEventListener("pointerleave", hideTip);
  node.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const shareX = (event.offsetX - pad.left) / (holder.clientWidth - pad.left - pad.right);
    const shareY = (event.offsetY - pad.top) / (mapHeight - pad.top - pad.bottom);
    zoomAt(event.deltaY > 0 ? 1.25 : 0.8, Math.min(Math.max(shareX, 0), 1), Math.min(Math.max(shareY, 0), 1));
  }, { passive: false });
  node.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "+" || event.key === "-") return zoomAt(event.key === "+" ? 0.5 : 2, 0.5, 0.5);
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const [s, y] = state.at || [0, 0];
    const cell = state.at ? [Math.min(Math.max(s + move[0], 0), steps.length - 1), Math.min(Math.max(y + move[1], 0), ranks.length - 1)] : [0, 0];
    const [x0, x1, y0, y1] = state.view;
    const shift = (low, high, at) => (at < low ? at - low : at + 1 > high ? at + 1 - high : 0);
    const [dx, dy] = [shift(x0, x1, cell[0]), shift(y0, y1, cell[1])];
    state.view = clampView([x0 + dx, x1 + dx, y0 + dy, y1 + dy]);
    select(cell);
  });

  function choose(i) {
    state.measure = i;
    buttons.forEach((b, n) => b.setAttribute("aria-pressed", String(n === i)));
    sortRows();
    paintCells();
    const m = measures[i];
    const slow = ranks.map((rank, r) => [rank, mean(i, r)]).sort((a, b) => (b[1] || 0) - (a[1] || 0)).slice(0, 3);
    node.setAttribute("aria-label", `${m.name} of ${ranks.length} ranks in ${steps.length} steps: ${m.doc}. Most: ${slow.map(([rank, v]) => `rank ${rank} ${words(v, "ns")}`).join(", ")}. Arrow keys move between cells.`);
    draw();
  }

  drawn.add(paintCells);
  drawn.add(draw);
  const hint = el("p", { class: "scope" }, "Drag to move, Ctrl and wheel to zoom, click a cell for its numbers.",
    heat.step_count > steps.length ? ` The first ${steps.length} of ${heat.step_count} steps.` : "");
  section.append(tools, scale, holder, hint, detail);
  choose(0);
  const stepTime = measures.findIndex((m) => m.name === "Step time");
  if (stepTime >= 0) {
    let worst = [0, 0];
    state.rows.forEach((r, y) => steps.forEach((_, s) => {
      const best = value(stepTime, state.rows[worst[1]], worst[0]);
      if (value(stepTime, r, s) > best || Number.isNaN(best)) worst = [s, y];
    }));
    select(worst);
  }
  if (pairs.length) {
    section.append(table({
      title: "Who waits for whom", total: pairs.length, sql: "",
      columns: [
        { label: "Rank", unit: "", doc: "the rank that waits" }, { label: "Waits for rank", unit: "", doc: "the rank that arrives last, and whose lost time the others wait for" },
        { label: "Time", unit: "ns", doc: "time before the last arrival, over the recording" }, { label: "Collectives", unit: "count", doc: "collectives in which it waits" },
      ],
      rows: pairs,
    }));
  } else if (heat.no_pairs) {
    section.append(el("p", { class: "empty" }, `Who waits for whom is not known: ${heat.no_pairs}.`));
  }
}
