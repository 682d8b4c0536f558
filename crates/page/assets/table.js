// Tables that sort, filter and copy.

const FIRST_ROWS = 10;

/** `filter`: see `nameFilter`. `isAnswer`: the columns are those that the reader asked for. */
function table(data, filter = null, isAnswer = false) {
  const { title, columns, rows, total, sql } = data;
  const isNumber = columns.map((_, c) => rows.some((row) => typeof row[c] === "number"));
  const largest = columns.map((column, c) =>
    isNumber[c] && !column.is_change && ["ns", "bytes", "ratio"].includes(column.unit)
      ? rows.reduce((most, row) => Math.max(most, typeof row[c] === "number" ? row[c] : 0), 0) : 0);
  // Rows of different measures say the unit of what follows in a column.
  const named = columns.findIndex((column) => column.label === "Unit");
  const unitOf = (row, c) => (named >= 0 && c > named && columns[c].unit === "" && String(row[named]).startsWith("bytes") ? "bytes" : columns[c].unit);
  // Columns without a value in any row say nothing.
  const shown = columns.map((_, c) => c).filter((c) => isAnswer || rows.some((row) => row[c] !== null && row[c] !== ""));
  let sorted = null;
  let isDescending = true;
  let isAll = false;
  let kept = null;
  const body = el("tbody");
  const more = el("button", { type: "button", class: "quiet", onclick: () => { isAll = !isAll; fill(); } });
  const count = el("span", { class: "n" });
  const wordBox = el("input", { type: "search", placeholder: "Filter", "aria-label": `Filter: ${title}`, oninput: () => fill() });
  const heads = shown.map((c) => {
    const button = el("button", { type: "button", title: columns[c].doc || undefined, onclick: () => sort(c) }, columns[c].label);
    return el("th", { scope: "col", class: isNumber[c] ? "num" : undefined, "aria-sort": "none" }, button);
  });

  const chip = el("button", { type: "button", class: "quiet chip", hidden: true, title: "Show all rows again", onclick: () => {
    filter.toggle(kept.name);
    grid.focus();
  } });
  const holds = (row, values) => shown.some((c) => values.has(row[c]));
  if (filter) {
    filter.add({
      divides: (values) => {
        const count_ = rows.filter((row) => holds(row, values)).length;
        return count_ > 0 && count_ < rows.length;
      },
      keep: (next) => {
        kept = next;
        chip.hidden = !kept;
        chip.textContent = kept ? `Only ${kept.name} \u00d7` : "";
        fill();
      },
    });
  }

  function visible() {
    const words_ = wordBox.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (row) => {
      const text = shown.map((c) => row[c]).filter((v) => typeof v === "string").join("\n").toLowerCase();
      return words_.every((word) => text.includes(word));
    };
    const ofName = kept ? rows.filter((row) => holds(row, kept.values)) : rows.slice();
    const found = words_.length === 0 ? ofName : ofName.filter(matches);
    if (sorted === null) return found;
    const sign = isDescending ? -1 : 1;
    const order = (a, b) => {
      const [x, y] = [a[sorted], b[sorted]];
      const missing = (v) => v === null || v === undefined || v === "";
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      if (typeof x === "number" && typeof y === "number") return sign * (x - y);
      return sign * String(x).localeCompare(String(y), "en", { numeric: true });
    };
    return found.sort(order);
  }

  function sort(c) {
    isDescending = sorted === c ? !isDescending : isNumber[c];
    sorted = c;
    heads.forEach((head, i) => {
      const isThis = shown[i] === c;
      head.setAttribute("aria-sort", isThis ? (isDescending ? "descending" : "ascending") : "none");
    });
    fill();
    say(`sorted by ${columns[c].label}, ${isDescending ? "descending" : "ascending"}`);
  }

  function cell(row, c) {
    const value = row[c];
    const sign = columns[c].is_change && value > 0 ? "+" : "";
    // Answers to queries have all digits where no unit says how to round.
    const isExact = isAnswer && typeof value === "number" && !columns[c].unit;
    const text = sign + (isExact ? value.toLocaleString("en", { maximumSignificantDigits: 15 }) : words(value, unitOf(row, c)));
    if (!isNumber[c]) {
      const isLong = typeof value === "string" && (value.length > 28 || value !== text);
      if (!text) return el("td", { class: "none-cell" }, c === shown[0] && !isAnswer ? "not named" : "");
      return el("td", { class: c === shown[0] || isLong ? "name" : undefined, title: isLong ? value : undefined }, text);
    }
    const isZero = value === 0 && columns[c].unit !== "";
    const node = el("td", { class: isZero ? "num zero" : "num" }, isZero ? "0" : text);
    if (largest[c] > 0 && typeof value === "number" && value > 0) {
      node.classList.add("share");
      node.style.setProperty("--share", `${(100 * value / largest[c]).toFixed(1)}%`);
    }
    return node;
  }

  function fill() {
    const list = visible();
    const cut = isAll ? list : list.slice(0, FIRST_ROWS);
    body.replaceChildren(...cut.map((row) => el("tr", {}, ...shown.map((c) => cell(row, c)))));
    more.hidden = list.length <= FIRST_ROWS;
    more.textContent = isAll ? "Show fewer" : `Show all ${list.length}`;
    more.setAttribute("aria-expanded", String(isAll));
    const isWhole = list.length === rows.length;
    const all = isWhole ? ` of ${thousands(total)}, the first ${rows.length} are here` : `, the first of ${thousands(total)}`;
    const of = data.is_cut ? ", the query returns more" : total > rows.length ? all : "";
    const counted = isWhole ? `${thousands(rows.length)} ${rows.length === 1 ? "row" : "rows"}` : `${list.length} of ${rows.length} rows`;
    count.textContent = counted + of;
  }

  const copyRows = el("button", { type: "button", class: "quiet", onclick: (event) => {
    const lines = [shown.map((c) => columns[c].label), ...visible().map((row) => shown.map((c) => row[c] ?? ""))];
    copyText(lines.map((line) => line.map((v) => String(v).replace(/[\t\n]/g, " ")).join("\t")).join("\n"), event.target);
  } }, "Copy rows");
  const editSql = settings.queries && sql && !isAnswer ? el("button", { type: "button", class: "quiet", title: sql, onclick: () => editQuery(sql) }, "Edit SQL") : null;
  const copySql = sql ? el("button", { type: "button", class: "quiet", title: sql, onclick: (event) => copyText(sql, event.target) }, "Copy SQL") : null;
  const tools = el("div", { class: "tools" }, el("h3", {}, title), count, chip, rows.length > 5 ? wordBox : null, copyRows, copySql, editSql);
  const head = el("thead", {}, el("tr", {}, ...heads));
  const grid = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, el("table", { class: "data" }, head, body));
  fill();
  return el("div", { class: "block" }, tools, grid, more);
}
