"""The events of one rank as a frame with the columns of HTA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from .trace_symbol_table import TraceSymbolTable

#: Columns of each table that holds events with a duration. What a table lacks is null.
COLUMNS = (
    "event_id",
    "name",
    "ts_ns",
    "dur_ns",
    "thread",
    "step",
    "category",
    "on_device",
    "stream",
    "correlation",
    "launch",
    "launch_ts_ns",
    "bytes",
    "bandwidth_gb_per_s",
    "wait_on_stream",
    "wait_on_record",
    "input_dims",
    "input_types",
    "external_id",
)

HOST = COLUMNS[:6]
DEVICE = (*HOST, "stream", "correlation", "launch", "launch_ts_ns", "external_id")
TABLES = {
    "cpu_ops": (*HOST, "input_dims", "input_types", "external_id"),
    "runtime_calls": (*HOST, "category", "correlation", "external_id"),
    "annotations": (*HOST, "on_device", "input_dims", "input_types", "external_id"),
    "python_frames": HOST,
    "spans": (*HOST, "category"),
    "profiler_ranges": HOST,
    "kernels": DEVICE,
    "memcpys": (*DEVICE, "bytes", "bandwidth_gb_per_s"),
    "memsets": (*DEVICE, "bytes", "bandwidth_gb_per_s"),
    "device_syncs": (*DEVICE, "wait_on_stream", "wait_on_record"),
}
DEVICE_TABLES = ("kernels", "memcpys", "memsets", "device_syncs")

#: HTA drops the spans of the profiler itself.
KEPT_SPANS = "category <> 'Trace'"

#: Columns that HTA keeps from the arguments of events, with the value for events without it.
ARGUMENTS: dict[str, tuple[str, int | float | str]] = {
    "stream": ("stream", -1),
    "correlation": ("correlation", -1),
    "bytes": ("bytes", -1),
    "memory_bw_gbps": ("bandwidth_gb_per_s", 0.0),
    "wait_on_stream": ("wait_on_stream", -1),
    "wait_on_cuda_event_record_corr_id": ("wait_on_record", -1),
    "input_dims": ("input_dims", "-1"),
    "input_type": ("input_types", "-1"),
    "external_id": ("external_id", -1),
}

Query = Callable[[str], pd.DataFrame]


@dataclass(frozen=True)
class Window:
    """Which events to keep. HTA leaves out what begins with the last of several profiler steps."""

    is_cut: bool = False
    include_last_step: bool = False

    def cut(self, rank: pd.Series) -> tuple[int, bool] | None:
        """Return when host events of a rank are no longer kept, and whether those at that moment are."""
        if not self.is_cut or pd.isna(rank["cut_ns"]):
            return None
        return (int(rank["steps_end_ns"]), True) if self.include_last_step else (int(rank["cut_ns"]), False)


def first_event_ns(query: Query) -> int:
    """Return the start of the first event of all ranks: HTA's time 0."""
    starts = " UNION ALL ".join(f"SELECT min(ts_ns) AS ts_ns FROM {_source(table)}" for table in TABLES)
    first = query(f"SELECT min(ts_ns) AS ts_ns FROM ({starts})")["ts_ns"][0]
    return 0 if pd.isna(first) else int(first)


def symbols(query: Query) -> TraceSymbolTable:
    """Return the names and categories of all ranks, in alphabetical order."""
    names = " UNION ".join(f"SELECT DISTINCT CAST(name AS VARCHAR) AS name FROM {_source(table)}" for table in TABLES)
    categories = query("SELECT DISTINCT category AS name FROM event_counts WHERE phase = 'X' AND category <> 'Trace'")
    table = TraceSymbolTable()
    table.add_symbols(sorted(set(query(names)["name"].dropna()) | set(categories["name"].dropna())))
    return table


def frame(query: Query, rank: pd.Series, table: TraceSymbolTable, origin_ns: int, window: Window) -> pd.DataFrame:
    """Return the events of a rank, indexed by their position in the file. Times are in microseconds."""
    number = int(rank["rank"])
    raw = query(" UNION ALL ".join(_select(name, number) for name in TABLES)).sort_values("event_id")
    raw = _kept(raw, window.cut(rank)).reset_index(drop=True)
    categories = query(f"SELECT * FROM event_counts WHERE rank = {number} AND phase = 'X' ORDER BY event_count DESC")
    lanes = query(f"SELECT thread, pid, tid FROM threads WHERE rank = {number}").set_index("thread")
    steps = query(f"SELECT DISTINCT step FROM steps WHERE rank = {number} AND source = 'profiler_step'")["step"]
    events = pd.DataFrame(
        {
            "index": raw["event_id"],
            "cat": _categories(raw, categories).map(table.sym_index),
            "name": raw["name"].map(table.sym_index),
            "pid": raw["thread"].map(_numbers(lanes["pid"])),
            "tid": raw["thread"].map(_numbers(lanes["tid"])),
            "ts": (raw["ts_ns"] - origin_ns) / 1000,
            "dur": raw["dur_ns"] / 1000,
        }
    )
    for column, (source, missing) in ARGUMENTS.items():
        events[column] = _filled(raw[source], missing)
    events["index_correlation"] = _links(raw)
    has_step = raw["step"].isin(steps) & ~(raw["table"].isin(DEVICE_TABLES) & raw["launch"].isna())
    events["iteration"] = raw["step"].where(has_step).fillna(-1).astype("int64")
    events["end"] = events["ts"] + events["dur"]
    return events.set_index("index", drop=False).rename_axis(None)


def _source(table: str) -> str:
    return f"{table} WHERE {KEPT_SPANS}" if table == "spans" else table


def _select(table: str, rank: int) -> str:
    has = TABLES[table]
    nulls = {"name": "VARCHAR", "category": "VARCHAR", "on_device": "BOOLEAN", "bandwidth_gb_per_s": "DOUBLE"}
    columns = [
        (f"CAST({column} AS VARCHAR) AS {column}" if column in ("name", "category") else column)
        if column in has
        else f"CAST(NULL AS {nulls.get(column, 'VARCHAR' if column.startswith('input_') else 'BIGINT')}) AS {column}"
        for column in COLUMNS
    ]
    condition = f" AND {KEPT_SPANS}" if table == "spans" else ""
    return f"SELECT '{table}' AS table, {', '.join(columns)} FROM {table} WHERE rank = {rank}{condition}"


def _kept(raw: pd.DataFrame, cut: tuple[int, bool] | None) -> pd.DataFrame:
    if cut is None:
        return raw
    end_ns, is_inclusive = cut
    on_device = raw["table"].isin(DEVICE_TABLES)
    ts_ns = raw["launch_ts_ns"].where(on_device, raw["ts_ns"])
    is_kept = ts_ns.le(end_ns) if is_inclusive else ts_ns.lt(end_ns)
    # HTA lists device events first.
    return pd.concat([raw[on_device & is_kept], raw[~on_device & is_kept]])


def _categories(raw: pd.DataFrame, counts: pd.DataFrame) -> pd.Series:
    """The category of each event as the file has it."""
    usual = {}
    for table, rows in counts.groupby("stored_in", observed=True):
        names = list(rows["category"])
        on_device = [name for name in names if name.startswith("gpu_")]
        if table == "annotations":
            usual[table, True] = (on_device or names)[0]
            names = [name for name in names if name not in on_device] or names
        usual[table, False] = names[0]
    where = zip(raw["table"], raw["on_device"].eq(True), strict=True)
    return raw["category"].where(raw["category"].notna(), pd.Series([usual.get(key) for key in where], raw.index))


def _numbers(ids: pd.Series) -> pd.Series:
    """Process and thread ids: numbers where the file has numbers."""
    return ids.map(lambda text: int(text) if text.lstrip("-").isdigit() else text)


def _filled(values: pd.Series, missing: int | float | str) -> pd.Series:
    values = values.where(values.notna(), missing)
    return values.astype("str" if isinstance(missing, str) else type(missing))


def _links(raw: pd.DataFrame) -> pd.Series:
    """HTA's `index_correlation`: the event at the other end of a launch, 0 if it is not in the trace, else -1."""
    device = raw[raw["table"].isin(DEVICE_TABLES) & raw["launch"].notna()]
    of_launch = pd.Series(device["event_id"].to_numpy(), device["launch"].astype("int64")).groupby(level=0).last()
    partner = raw["launch"].where(raw["launch"].notna(), raw["event_id"].map(of_launch))
    unknown = raw["correlation"].notna().map({True: 0, False: -1})
    return partner.where(partner.notna(), unknown).astype("int64")
