// Points on logarithmic axes, and boxes in rows.

/** The largest value of the points over the least that is drawn. */
const AXIS_SPAN = 1e6;

/** Lines at the same place become one, with the labels of all. */
function joined(lines) {
  const byPlace = new Map();
  for (const line of lines) {
    const key = JSON.stringify(line.points.map((p) => p[1].toPrecision(3)));
    const other = byPlace.get(key);
    if (other) other.label = `${other.label.replace(/, [^,]*$/, "")}, ${line.label}`;
    else byPlace.set(key, { ...line });
  }
  return [...byPlace.values()];
}

/** Points on logarithmic axes, larger where more time is. */
function scatter(data) {
  const { title } = data;
  const lines = joined(data.lines);
  // What is far below the fastest is counted, and not drawn.
  const least = Math.max(...data.points.map((p) => p[1])) / AXIS_SPAN;
  const points = data.points.filter((p) => p[1] >= least);
  const below = data.points.length - points.length;
  const xs = points.map((p) => p[0]).concat(lines.flatMap((l) => l.points.map((p) => p[0])));
  const ys = points.map((p) => p[1]).concat(lines.flatMap((l) => l.points.map((p) => p[1])));
  // Axes are logarithmic; sizes in bytes have powers of two as marks.
  const baseX = data.x_unit === "bytes" ? 16 : 10;
  const range = (list, base) => [base ** Math.floor(Math.log(Math.min(...list)) / Math.log(base) - 0.05), base ** Math.ceil(Math.log(Math.max(...list)) / Math.log(base) + 0.05)];
  const [x0, x1] = range(xs, baseX);
  const [y0, y1] = range(ys, 10);
  const mark = (v, unit) => (unit !== "number" ? words(v, unit) : v >= 1e-3 && v < 1e6 ? String(Number(v.toPrecision(3))) : v.toExponential(0));
  const largest = Math.max(...points.map((p) => p[2]));
  const groups = [...new Set(points.map((p) => p[3]))].sort();
  const colors = palette(groups);
  const pad = { left: 88, right: 12, top: 12, bottom: 38 };
  const place = (width, height) => {
    const lx = (v) => pad.left + Math.log(v / x0) / Math.log(x1 / x0) * (width - pad.left - pad.right);
    const ly = (v) => height - pad.bottom - Math.log(v / y0) / Math.log(y1 / y0) * (height - pad.top - pad.bottom);
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
      // A narrow chart has no place left of the middle.
      at[0] = Math.max(at[0], pad.left + 4 + c.measureText(line.label).width);
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
  const note = below ? el("p", { class: "note" }, `${thousands(below)} ${below === 1 ? "point" : "points"} below ${mark(least, data.y_unit)} ${below === 1 ? "is" : "are"} not drawn.`) : null;
  return block(title, holder, legend(groups, colors), note);
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
        c.fillStyle = ink(group ? colors(group) : color("computation"));
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
  return block(title, holder, note ? el("p", { class: "note" }, note) : null, legend(groups, colors));
}
