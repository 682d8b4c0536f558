// The queries of a page that is served: a box, and the rows of the last one.

/** The query that is kept while the page loads again. */
const KEPT_QUERY = "query";

/** Keeps what is in the box for the next load of the page. */
let keepQuery = () => {};

/** Whether a query runs: the page then waits with loading again. */
let isAsking = () => false;

/** Puts a query into the box. */
function editQuery(sql) {
  const text = byId("ask-text");
  text.value = sql;
  byId("ask").scrollIntoView();
  text.focus({ preventScroll: true });
}

/** What the server says about a query: a table, or what is wrong. */
async function answerOf(sql, signal) {
  const headers = { "content-type": "application/sql" };
  const answer = await fetch(settings.queries, { method: "POST", body: sql, headers, cache: "no-store", signal });
  if (answer.ok) return answer.json();
  return { error: await answer.text() || `the server answers with status ${answer.status}` };
}

function askBox(section) {
  let running = null;
  let asked = null;
  const text = el("textarea", {
    id: "ask-text", rows: "5", spellcheck: "false", autocapitalize: "off", autocomplete: "off",
    placeholder: "SELECT name, sum(dur_ns) AS dur_ns FROM kernels GROUP BY name ORDER BY dur_ns DESC",
    onkeydown: (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      ask(text.value);
    },
  });
  const button = el("button", { type: "button", class: "quiet", onclick: () => (running ? running.abort() : ask(text.value)) }, "Run");
  const result = el("div", { class: "answer" });

  function showError(message) {
    const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": "Error of the query" };
    result.replaceChildren(el("div", region, el("pre", { class: "failure" }, message)));
    say(message);
  }

  function showRows(data) {
    result.replaceChildren(table(data, null, true));
    const more = data.is_cut ? ", the query returns more" : "";
    say((data.rows.length === 1 ? "1 row" : `${data.rows.length} rows`) + more);
  }

  async function ask(sql) {
    if (running) return;
    if (!sql.trim()) {
      text.focus();
      return;
    }
    asked = sql;
    running = new AbortController();
    button.textContent = "Cancel";
    section.setAttribute("aria-busy", "true");
    try {
      const answer = await answerOf(sql, running.signal);
      if (answer.table) showRows(answer.table);
      else showError(answer.error);
    } catch {
      // A canceled query does not run again when the page loads again.
      if (running.signal.aborted) asked = null;
      showError(running.signal.aborted ? "the query was canceled" : "the server does not answer: start `advisor open --report` again");
    }
    running = null;
    button.textContent = "Run";
    section.removeAttribute("aria-busy");
  }

  isAsking = () => running !== null;
  keepQuery = () => {
    try {
      const isFocused = document.activeElement === text;
      sessionStorage.setItem(KEPT_QUERY, JSON.stringify({ text: text.value, asked, isFocused }));
    } catch {
      // A browser that stores nothing loses the query.
    }
  };

  function restore() {
    let kept = null;
    try {
      kept = JSON.parse(sessionStorage.getItem(KEPT_QUERY));
      sessionStorage.removeItem(KEPT_QUERY);
    } catch {
      return;
    }
    if (!kept) return;
    text.value = kept.text;
    if (kept.isFocused) text.focus({ preventScroll: true });
    if (kept.asked) ask(kept.asked);
  }

  const hint = el("span", { class: "n" }, "or Ctrl+Enter");
  section.append(el("label", { for: "ask-text" }, "Query"), text, el("div", { class: "tools" }, button, hint), result);
  restore();
}
