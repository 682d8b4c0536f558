// The timeline around the moment of a finding.

const KINDS = [
  ["operator", "k-operator"], ["range", "k-range"], ["Python frame", "k-python"], ["call into the runtime", "k-call"],
  ["kernel", "computation"], ["communication", "communication"], ["copy or fill", "copies"],
];
const ROW = 15;
const LANE_GAP = 5;
const UNITS = 4000;

function timeline(figure, picture, names) {
  const { lanes, boxes, mark, from_ns: from, to_ns: to } = picture;
  const rowY = [];
  let bottom = 4;
  for (const lane of lanes) {
    for (let r = 0; r < lane.rows; r++) rowY[lane.first_row + r] = bottom + r * ROW;
    bottom += lane.rows * ROW + LANE_GAP;
  }
  const labelWidth = (width) => (width < 520 ? 0 : 128);
  const label = `Timeline of ${time(to - from)} with ${lanes.map((lane) => lane.label).join(", ")}`;
  const { holder, node } = canvas(bottom + 20, label, (c, width) => {
    const left = labelWidth(width);
    const scale = (width - left) / UNITS;
    const x = (ns) => left + (ns - from) / (to - from) * (width - left);
    c.font = `11px ${styles.getPropertyValue("--sans")}`;
    lanes.forEach((lane, i) => {
      const y = rowY[lane.first_row];
      if (i % 2 === 0) {
        c.fillStyle = color("shade");
        c.fillRect(0, y - LANE_GAP / 2, width, lane.rows * ROW + LANE_GAP);
      }
      c.fillStyle = color("muted");
      c.textAlign = "left";
      if (left) c.fillText(fit(c, lane.label, left - 10), 4, y + ROW / 2);
    });
    for (const [at, length, row, name, kind, count] of boxes) {
      const y = rowY[row];
      const w = Math.max(length * scale, 1);
      c.globalAlpha = count > 1 ? 0.55 : 1;
      c.fillStyle = color(KINDS[kind][1]);
      c.fillRect(left + at * scale, y + 1, w > 3 ? w - 1 : w, ROW - 2);
      c.globalAlpha = 1;
      if (w > 40 && count === 1) {
        c.fillStyle = color("on-color");
        c.textAlign = "left";
        c.fillText(fit(c, names[name], w - 8), left + at * scale + 4, y + ROW / 2 + 0.5);
      }
    }
    if (mark) {
      const [a, b] = [Math.max(x(mark[0]), left), Math.min(Math.max(x(mark[1]), x(mark[0]) + 2), width)];
      c.fillStyle = color("mark");
      c.globalAlpha = 0.16;
      c.fillRect(a, 0, b - a, bottom);
      c.globalAlpha = 1;
      c.strokeStyle = color("mark");
      c.lineWidth = 1.5;
      c.strokeRect(a, 0.75, b - a, bottom - 1.5);
    }
    c.fillStyle = color("muted");
    for (const v of ticks(0, to - from, Math.max(2, Math.floor(width / 140)))) {
      c.textAlign = v === 0 ? "left" : "center";
      if (x(from + v) < width - 24) c.fillText(v === 0 ? time(from) : `+${time(v)}`, x(from + v), bottom + 9);
    }
  });
  node.addEventListener("pointermove", (event) => {
    const left = labelWidth(holder.clientWidth);
    const at = (event.offsetX - left) / (holder.clientWidth - left) * UNITS;
    const row = rowY.findIndex((y) => event.offsetY >= y && event.offsetY < y + ROW);
    const hit = boxes.find((b) => b[2] === row && at >= b[0] - 3 && at <= b[0] + b[1] + 3);
    if (!hit) return hideTip();
    const length = time(hit[1] / UNITS * (to - from));
    const what = KINDS[hit[4]][0];
    if (hit[5] > 1) showTip(event, `${hit[5]} events, ${length}`, `longest: ${names[hit[3]]}`);
    else showTip(event, names[hit[3]], `${what}, ${length}`);
  });
  node.addEventListener("pointerleave", hideTip);
  figure.prepend(holder);
}
