// Names of charts that filter the tables beside them.

/**
 * The names that the tables of a pane are filtered to, one at a time. `synonyms`: what tables say for a name of a chart,
 * where that is not the name.
 */
function nameFilter(synonyms) {
  const tables = [];
  const listeners = [];
  let chosen = null;
  const valuesOf = (name) => new Set(synonyms.get(name) || [name]);
  const choose = (name) => {
    chosen = name;
    const values = name === null ? null : valuesOf(name);
    for (const table_ of tables) table_.keep(values && table_.divides(values) ? { name, values } : null);
    for (const listener of listeners) listener();
    say(name === null ? "tables show all rows" : `tables show ${name} only`);
  };
  return {
    add: (table_) => tables.push(table_),
    /** Whether a table has rows with the name, and others. */
    divides: (name) => tables.some((table_) => table_.divides(valuesOf(name))),
    chosen: () => chosen,
    toggle: (name) => choose(name === chosen ? null : name),
    onChange: (listener) => listeners.push(listener),
  };
}

/** A button that filters the tables to a name, and shows all rows again. */
function filterButton(filter, name, kind, ...children) {
  const button = el("button", {
    type: "button", class: kind, title: "Show only this in the tables", "aria-pressed": "false", onclick: () => filter.toggle(name),
  }, ...children);
  filter.onChange(() => button.setAttribute("aria-pressed", String(filter.chosen() === name)));
  return button;
}
