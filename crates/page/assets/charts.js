// Bars, areas, lines and points.

function legend(names) {
  const colors = palette(names);
  return el("ul", { class: "legend" }, ...names.map((name) => {
    const key = el("span", { class: "key" });
    const paint = () => { key.style.background = colors(name); };
    paint();
    drawn.add(paint);
    return el("li", {}, key, name);
  }));
}

function block(title, ...children) {
  return el("figure", { class: "block" }, el("div", { class: "tools" }, el("h3", {}, title)), ...children);
}

/** Horizontal bars, stacked or one part each. */
function bars(data) {
  const { title, unit, rows, is_stacked: isStacked } = data;
  const sums = rows.map((row) => row.parts.reduce((sum, part) => sum + part[1], 0));
  const most = Math.max(...sums, 1e-9);
  const names = [...new Set(rows.flatMap((row) => row.parts.map((part) => part[0])))];
  const colors = palette(names);
  const line = 22;
  const labelWidth = (width) => Math.min(isStacked ? 110 : 170, width * 0.3);
  const valueWidth = 74;
  const chosen = (x, y, width) => {
    const row = rows[Math.floor(y / line)];
    if (!row) return null;
    let at = labelWidth(width);
    const scale = (width - at - valueWidth) / most;
    for (const [name, value] of row.parts) {
      at += value * scale;
      if (x < at) return { row, name, value };
    }
    return { row, name: row.label, value: sums[rows.indexOf(row)] };
  };
  const label = `${title}: ${rows.slice(0, 8).map((row, i) => `${row.label} ${words(sums[i], unit)}`).join("; ")}`;
  const { holder, node } = canvas(rows.length * line + 4, label, (c, width) => {
    const left = labelWidth(width);
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
        c.fillRect(x, y + 3, Math.max(w - (w > 3 ? 0.5 : 0), 0.5), line - 7);
        x += w;
      });
      c.fillStyle = color("muted");
      c.textAlign = "left";
      c.fillText(words(sums[r], unit), x + 6, y + line / 2);
    });
  });
  node.addEventListener("pointermove", (event) => {
    const hit = chosen(event.offsetX, event.offsetY, holder.clientWidth);
    if (!hit) return hideTip();
    const of = sums[rows.indexOf(hit.row)];
    showTip(event, hit.name, `${words(hit.value, unit)} (${words(hit.value / of, "ratio")} of ${hit.row.label})`);
  });
  node.addEventListener("pointerleave", hideTip);
  return block(title, holder, isStacked && names.length > 1 ? legend(names) : null);
}

/** Series over time: areas that add up, or lines. */
function area(data) {
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
  return block(title, holder, series.length > 1 ? legend(series.map((s) => s.name)) : null);
}

/** Points on logarithmic axes, larger where more time is. */
function scatter(data) {
  const { title, points, lines } = data;
  const xs = points.map((p) => p[0]).concat(lines.flatMap((l) => l.points.map((p) => p[0])));
  const ys = points.map((p) => p[1]).concat(lines.flatMap((l) => l.points.map((p) => p[1])));
  // Axes are logarithmic; sizes in bytes have powers of two as marks.
  const baseX = data.x_unit === "bytes" ? 16 : 10;
  const range = (list, base) => [base ** Math.floor(Math.log(Math.min(...list)) / Math.log(base) - 0.05), base ** Math.ceil(Math.log(Math.max(...list)) / Math.log(base) + 0.05)];
  const [x0, x1] = range(xs, baseX);
  let [y0, y1] = range(ys, 10);
  y0 = Math.max(y0, y1 / 1e6);
  const mark = (v, unit) => (["ns", "bytes"].includes(unit) ? words(v, unit) : v >= 1e-3 && v < 1e6 ? String(Number(v.toPrecision(3))) : v.toExponential(0));
  const largest = Math.max(...points.map((p) => p[2]));
  const groups = [...new Set(points.map((p) => p[3]))].sort();
  const colors = palette(groups);
  const pad = { left: 74, right: 12, top: 12, bottom: 38 };
  const place = (width, height) => {
    const lx = (v) => pad.left + Math.log(v / x0) / Math.log(x1 / x0) * (width - pad.left - pad.right);
    const ly = (v) => height - pad.bottom - Math.log(Math.max(v, y0) / y0) / Math.log(y1 / y0) * (height - pad.top - pad.bottom);
    const radius = (v) => 3 + 11 * Math.sqrt(v / largest);
    return { lx, ly, radius };
  };
  const label = `${title}: ${points.length} points; ${points.slice(0, 5).map((p) => `${p[4]}: ${words(p[1], data.y_unit)}`).join("; ")}`;
  const { holder, node } = canvas(300, label, (c, width, height) => {
    const { lx, ly, radius } = place(width, height);
    c.fillStyle = color("muted");
    c.strokeStyle = color("line");
    c.lineWidth = 1;
    c.textAlign = "center";
    const skip = Math.ceil(Math.log(x1 / x0) / Math.log(baseX) / Math.max(2, width / 90));
    for (let v = x0, n = 0; v <= x1 * 1.01; v *= baseX, n++) {
      c.beginPath();
      c.moveTo(lx(v), pad.top);
      c.lineTo(lx(v), height - pad.bottom);
      c.stroke();
      if (n % skip === 0) c.fillText(mark(v, data.x_unit), Math.min(lx(v), width - 26), height - pad.bottom + 12);
    }
    c.textAlign = "right";
    for (let v = y0; v <= y1 * 1.01; v *= 10) {
      c.beginPath();
      c.moveTo(pad.left, ly(v));
      c.lineTo(width - pad.right, ly(v));
      c.stroke();
      c.fillText(mark(v, data.y_unit), pad.left - 6, ly(v));
    }
    c.textAlign = "left";
    c.fillText(data.y_label, pad.left + 6, pad.top + 8);
    c.textAlign = "right";
    c.fillText(data.x_label, width - pad.right, height - 8);
    for (const line of lines) {
      c.strokeStyle = color("text");
      c.lineWidth = 1.25;
      c.beginPath();
      line.points.forEach(([x, y]) => c.lineTo(lx(x), ly(y)));
      c.stroke();
    }
    points.slice().sort((a, b) => b[2] - a[2]).forEach((p) => {
      c.globalAlpha = 0.72;
      c.fillStyle = colors(p[3]);
      c.beginPath();
      c.arc(lx(p[0]), ly(p[1]), radius(p[2]), 0, 7);
      c.fill();
      c.globalAlpha = 1;
      c.strokeStyle = color("ground");
      c.lineWidth = 1;
      c.stroke();
    });
    // Names of lines, on top of the points: at the right end of level ones, in the middle of others.
    for (const line of lines) {
      const [[ax, ay], [bx, by]] = [line.points[0], line.points[line.points.length - 1]];
      const isLevel = ay === by;
      c.textAlign = "right";
      const at = isLevel ? [lx(bx) - 4, ly(by) - 9] : [(lx(ax) + lx(bx)) / 2 - 12, (ly(ay) + ly(by)) / 2 - 8];
      c.strokeStyle = color("ground");
      c.lineWidth = 4;
      c.lineJoin = "round";
      c.strokeText(line.label, ...at);
      c.fillStyle = color("text");
      c.fillText(line.label, ...at);
    }
  });
  node.addEventListener("pointermove", (event) => {
    const { lx, ly, radius } = place(holder.clientWidth, node.clientHeight);
    const distance = (p) => Math.hypot(lx(p[0]) - event.offsetX, ly(p[1]) - event.offsetY) - radius(p[2]);
    const hit = points.reduce((best, p) => (distance(p) < distance(best) ? p : best), points[0]);
    if (!hit || distance(hit) > 8) return hideTip();
    showTip(event, hit[4], `${words(hit[1], data.y_unit)} at ${words(hit[0], data.x_unit)}`, `${data.size_label} ${words(hit[2], data.size_unit)}`);
  });
  node.addEventListener("pointerleave", hideTip);
  return block(title, holder, groups.length > 1 ? legend(groups) : null);
}

/** Boxes in rows, as wide as what they hold. */
function boxes(data) {
  const { title, note, labels, placed } = data;
  const line = 20;
  const groups = [...new Set(placed.map((b) => b[3]).filter(Boolean))].sort((a, b) => sum(b) - sum(a));
  function sum(group) { return placed.reduce((all, b) => all + (b[3] === group ? b[1] : 0), 0); }
  const colors = palette(groups);
  const left = (width) => (labels.some(Boolean) ? Math.min(72, width * 0.2) : 0);
  const label = `${title}: ${placed.slice(0, 8).map((b) => `${b[3]} ${b[4]} ${bytes(b[5])}`.trim()).join("; ")}`;
  const { holder, node } = canvas(labels.length * line + 4, label, (c, width) => {
    const at = left(width);
    const scale = (width - at) / UNITS;
    c.textAlign = "right";
    c.fillStyle = color("muted");
    labels.forEach((text, r) => { if (text) c.fillText(text, at - 8, r * line + line / 2); });
    c.textAlign = "left";
    for (const [x, w, row, group, text] of placed) {
      const [px, pw] = [at + x * scale, Math.max(w * scale, 0.5)];
      c.globalAlpha = group || row % 2 === 0 ? 1 : 0.86;
      c.fillStyle = group ? colors(group) : color("computation");
      c.fillRect(px, row * line + 1, pw > 3 ? pw - 1 : pw, line - 2);
      c.globalAlpha = 1;
      if (pw > 46) {
        c.fillStyle = color("on-color");
        c.fillText(fit(c, group || text, pw - 10), px + 5, row * line + line / 2 + 0.5);
      }
    }
  });
  node.addEventListener("pointermove", (event) => {
    const at = left(holder.clientWidth);
    const x = (event.offsetX - at) / (holder.clientWidth - at) * UNITS;
    const row = Math.floor(event.offsetY / line);
    const hit = placed.find((b) => b[2] === row && x >= b[0] && x <= b[0] + b[1]);
    if (!hit) return hideTip();
    showTip(event, hit[3] || hit[4], hit[3] ? hit[4] : "", bytes(hit[5]));
  });
  node.addEventListener("pointerleave", hideTip);
  return block(title, holder, note ? el("p", { class: "note" }, note) : null, groups.length > 1 ? legend(groups) : null);
}

function facts(data) {
  return el("dl", { class: "facts" }, ...data.items.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** The blocks of a pane; small charts that follow each other stand side by side. */
function drawBlocks(blocks) {
  const drawnBlocks = [];
  let row = null;
  for (const data of blocks) {
    const node = drawBlock(data);
    if (!data.is_small) row = null;
    else if (!row) drawnBlocks.push(row = el("div", { class: "small-charts" }));
    (row ? row : { append: (block_) => drawnBlocks.push(block_) }).append(node);
  }
  return drawnBlocks;
}

/** A block of a pane. */
function drawBlock(data) {
  switch (data.kind) {
    case "table": return table(data);
    case "bars": return bars(data);
    case "area": return area(data);
    case "scatter": return scatter(data);
    case "boxes": return boxes(data);
    case "facts": return facts(data);
    default: return el("p", { class: "empty" }, data.text);
  }
}
