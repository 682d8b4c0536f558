// Bars, areas and lines.

/** Less than this share of a chart cannot be seen. */
const LEAST_SHARE = 0.0005;

/** The colors of names; without those that cannot be seen. `shares`: the largest of each in a chart whose parts add up. `filter`: see `nameFilter`. */
function legend(names, colors, shares = null, filter = null) {
  const seen = names.filter((_, n) => !shares || shares[n] >= LEAST_SHARE);
  // What a single line is, the title says; what a single part of a whole is, nothing else does.
  if (seen.length < (shares ? 1 : 2)) return null;
  return el("ul", { class: "legend" }, ...seen.map((name) => {
    const key = el("span", { class: "key" });
    const paint = () => { key.style.background = colors(name); };
    paint();
    drawn.add(paint);
    return filter && filter.divides(name) ? el("li", {}, filterButton(filter, name, "named", key, name)) : el("li", {}, key, name);
  }));
}

function block(title, ...children) {
  return el("figure", { class: "block" }, el("div", { class: "tools" }, el("h3", {}, title)), ...children);
}

/** Horizontal bars, stacked or one part each. A click on a part or on the name of a bar filters the tables to it. */
function bars(data, filter) {
  const { title, unit, rows, is_stacked: isStacked } = data;
  const sums = rows.map((row) => row.parts.reduce((sum, part) => sum + part[1], 0));
  const most = Math.max(...sums, 1e-9);
  const names = [...new Set(rows.flatMap((row) => row.parts.map((part) => part[0])))];
  const colors = palette(names);
  const line = 24;
  const labelWidth = (width) => Math.min(isStacked ? 110 : 170, width * (isStacked ? 0.3 : 0.42));
  const valueWidth = 74;
  const chosen = (x, y, width) => {
    const row = rows[Math.floor(y / line)];
    if (!row) return null;
    let at = labelWidth(width);
    const scale = (width - at - valueWidth) / most;
    const whole = { row, name: row.label, value: sums[rows.indexOf(row)] };
    if (x < at) return whole;
    for (const [name, value] of row.parts) {
      at += value * scale;
      if (x < at) return { row, name, value };
    }
    return whole;
  };
  const label = `${title}: ${rows.slice(0, 8).map((row, i) => `${row.label} ${words(sums[i], unit)}`).join("; ")}`;
  const rowButtons = rows.map((row, r) => {
    if (!filter.divides(row.label)) return null;
    const button = filterButton(filter, row.label, "row-filter", el("span", { class: "hidden" }, row.label));
    button.style.top = `${r * line}px`;
    return button;
  }).filter(Boolean);
  // What is not in the tables then is pale.
  const isPale = (row, name) => {
    const chosenName = filter.chosen();
    const isHere = names.includes(chosenName) || rows.some((other) => other.label === chosenName);
    return isHere && name !== chosenName && row.label !== chosenName;
  };
  const { holder, node, draw } = canvas(rows.length * line + 4, label, (c, width) => {
    const left = labelWidth(width);
    for (const button of rowButtons) button.style.width = `${left}px`;
    const scale = (width - left - valueWidth) / most;
    rows.forEach((row, r) => {
      const y = r * line;
      c.fillStyle = color("text");
      c.textAlign = "right";
      c.fillText(fit(c, row.label, left - 10), left - 8, y + line / 2);
      let x = left;
      row.parts.forEach(([name, value]) => {
        const w = value * scale;
        c.fillStyle = isStacked ? colors(name) : color("computation");
        c.globalAlpha = isPale(row, name) ? 0.3 : 1;
        c.fillRect(x, y + 3, Math.max(w - (w > 3 ? 0.5 : 0), 0.5), line - 7);
        x += w;
      });
      c.globalAlpha = 1;
      c.fillStyle = color("muted");
      c.textAlign = "left";
      c.fillText(words(sums[r], unit), x + 6, y + line / 2);
    });
  });
  holder.append(...rowButtons);
  filter.onChange(draw);
  node.addEventListener("click", (event) => {
    const hit = chosen(event.offsetX, event.offsetY, holder.clientWidth);
    if (hit && filter.divides(hit.name)) filter.toggle(hit.name);
  });
  node.addEventListener("pointermove", (event) => {
    const hit = chosen(event.offsetX, event.offsetY, holder.clientWidth);
    const isFilter = hit && filter.divides(hit.name);
    node.classList.toggle("filters", Boolean(isFilter));
    if (!hit) return hideTip();
    const of = sums[rows.indexOf(hit.row)];
    showTip(event, hit.name, `${words(hit.value, unit)} (${words(hit.value / of, "ratio")} of ${hit.row.label})`, isFilter && "Click: only this in the tables");
  });
  node.addEventListener("pointerleave", hideTip);
  const largest = names.map((name) => Math.max(...rows.flatMap((row) => row.parts.filter((part) => part[0] === name).map((part) => part[1]))));
  return block(title, holder, isStacked ? legend(names, colors, largest.map((value) => value / most), filter) : null);
}

/** Series over time: areas that add up, or lines. */
function area(data, filter) {
  const { title, x, series, unit, x_unit: xUnit, x_label: xLabel, is_stacked: isStacked } = data;
  const isBins = x.length === (series[0] ? series[0].y.length + 1 : 0);
  const points = isBins ? x.length - 1 : x.length;
  const top = Array.from({ length: points }, (_, i) =>
    isStacked ? series.reduce((sum, s) => sum + (s.y[i] || 0), 0) : Math.max(0, ...series.map((s) => s.y[i] ?? 0)));
  let most = Math.max(...top, 1e-9);
  if (unit === "ratio") most = Math.min(1, most * 1.05);
  const [first, last] = [x[0], x[x.length - 1]];
  const pad = { left: 62, right: 10, top: 8, bottom: 24 };
  const summary = series.slice(0, 8).map((s) => {
    const known = s.y.filter((v) => v !== null);
    return `${s.name} at most ${words(known.length ? Math.max(...known) : 0, unit)}`;
  }).join("; ");
  const colors = palette(series.map((s) => s.name));
  let cursor = null;
  const { holder, node, draw } = canvas(data.is_small ? 120 : 190, `${title}: ${summary}`, (c, width, height) => {
    const w = width - pad.left - pad.right;
    const h = height - pad.top - pad.bottom;
    const sx = (v) => pad.left + (last > first ? (v - first) / (last - first) : 0.5) * w;
    const sy = (v) => pad.top + h - (v / most) * h;
    c.strokeStyle = color("line");
    c.fillStyle = color("muted");
    c.lineWidth = 1;
    c.textAlign = "right";
    for (const v of ticks(0, most, data.is_small ? 2 : 4, unit === "bytes" ? 2 : 10)) {
      const y = Math.round(sy(v)) + 0.5;
      c.beginPath();
      c.moveTo(pad.left, y);
      c.lineTo(width - pad.right, y);
      c.stroke();
      c.fillText(words(v, unit), pad.left - 6, y);
    }
    c.textAlign = "center";
    const marks = ticks(first, last, Math.max(2, Math.floor(width / 130))).filter((v) => xUnit === "ns" || Number.isInteger(v));
    marks.forEach((v) => { if (sx(v) < width - 30) c.fillText(words(v, xUnit), sx(v), height - 9); });
    const base = new Array(points).fill(0);
    series.forEach((s) => {
      c.beginPath();
      const upper = base.map((b, i) => (isStacked ? b + (s.y[i] || 0) : s.y[i]));
      if (isStacked) {
        for (let i = 0; i < points; i++) {
          c.lineTo(sx(x[i]), sy(upper[i]));
          if (isBins) c.lineTo(sx(x[i + 1]), sy(upper[i]));
        }
        for (let i = points - 1; i >= 0; i--) {
          if (isBins) c.lineTo(sx(x[i + 1]), sy(base[i]));
          c.lineTo(sx(x[i]), sy(base[i]));
        }
        c.fillStyle = colors(s.name);
        c.fill();
        upper.forEach((v, i) => { base[i] = v; });
      } else {
        let isOpen = false;
        upper.forEach((v, i) => {
          if (v === null || v === undefined) return;
          if (isOpen) c.lineTo(sx(x[i]), sy(v));
          else c.moveTo(sx(x[i]), sy(v));
          isOpen = true;
        });
        c.strokeStyle = colors(s.name);
        c.lineWidth = 1.5;
        c.stroke();
      }
    });
    if (xLabel !== "time") {
      c.textAlign = "right";
      c.strokeStyle = color("ground");
      c.lineWidth = 4;
      c.lineJoin = "round";
      c.strokeText(xLabel, width - pad.right, height - 9);
      c.fillStyle = color("muted");
      c.fillText(xLabel, width - pad.right, height - 9);
    }
    if (cursor !== null) {
      c.strokeStyle = color("text");
      c.lineWidth = 1;
      c.beginPath();
      const at = isBins ? (x[cursor] + x[cursor + 1]) / 2 : x[cursor];
      c.moveTo(sx(at), pad.top);
      c.lineTo(sx(at), height - pad.bottom);
      c.stroke();
    }
  });
  node.addEventListener("pointermove", (event) => {
    const at = first + (event.offsetX - pad.left) / (holder.clientWidth - pad.left - pad.right) * (last - first);
    let i = x.findIndex((v) => v > at) - 1;
    if (i < 0) i = at < first ? 0 : points - 1;
    cursor = Math.min(i, points - 1);
    draw();
    const lines = series.map((s) => [s.name, s.y[cursor]]).filter(([, v]) => v).sort((a, b) => b[1] - a[1]).slice(0, 10);
    showTip(event, `${xLabel === "time" ? "" : `${xLabel} `}${words(x[cursor], xUnit)}`, ...lines.map(([name, v]) => `${name}: ${words(v, unit)}`));
  });
  node.addEventListener("pointerleave", () => { cursor = null; draw(); hideTip(); });
  const shares = series.map((s) => s.y.reduce((largest, v) => Math.max(largest, v ?? 0), 0) / most);
  const isNamed = series.length === 1 && title.toLowerCase().startsWith(series[0].name);
  const seen = isStacked && !isNamed ? shares : null;
  return block(title, holder, legend(series.map((s) => s.name), colors, seen, filter));
}

function facts(data) {
  return el("dl", { class: "facts" }, ...data.items.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** The blocks of a pane; small charts that follow each other stand side by side. */
function drawBlocks(blocks) {
  const filter = nameFilter(new Map(blocks.flatMap((data) => Object.entries(data.table_names || {}))));
  // Charts come before the tables that they filter.
  const tables = new Map(blocks.filter((data) => data.kind === "table").map((data) => [data, table(data, filter)]));
  const drawnBlocks = [];
  let row = null;
  for (const data of blocks) {
    const node = tables.get(data) || drawBlock(data, filter);
    if (!data.is_small) row = null;
    else if (!row) drawnBlocks.push(row = el("div", { class: "small-charts" }));
    (row ? row : { append: (block_) => drawnBlocks.push(block_) }).append(node);
  }
  return drawnBlocks;
}

/** A block of a pane other than a table. */
function drawBlock(data, filter) {
  switch (data.kind) {
    case "bars": return bars(data, filter);
    case "area": return area(data, filter);
    case "scatter": return scatter(data);
    case "boxes": return boxes(data);
    case "facts": return facts(data);
    case "caption": return el("p", { class: "note" }, data.text);
    default: return el("p", { class: "empty" }, data.text);
  }
}
