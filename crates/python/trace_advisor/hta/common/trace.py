"""A run as HTA's `Trace`: a frame of events per rank, and the symbols that they share."""

from __future__ import annotations

import gzip
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, MutableMapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import trace_advisor as ta
from trace_advisor._recorder import work_folder

from . import events
from .constants import DEFAULT_TRACE_DIR
from .trace_symbol_table import TraceSymbolTable, decode_symbol_id_to_symbol_name

logger = logging.getLogger("trace_advisor.hta")

T = TypeVar("T")

PHASE_COUNTER = "C"
PHASE_FLOW_START = "s"
PHASE_FLOW_END = "f"


def counter_events(series: pd.DataFrame, counter_name: str, column: str, origin: float) -> list[dict[str, Any]]:
    """Return a time series as counter events of a Chrome trace whose times start at `origin`."""
    counters = pd.DataFrame({"pid": series["pid"], "ts": series["ts"] + origin, "ph": PHASE_COUNTER})
    counters["args"] = [{counter_name: value} for value in series[column].tolist()]
    counters["name"] = series["name"] if "name" in series.columns else counter_name
    if "id" in series.columns:
        counters["id"] = series["id"]
    events: list[dict[str, Any]] = counters.to_dict("records")
    return events


class ByRank(MutableMapping[int, T]):
    """What each rank has. It is read when it is first used."""

    def __init__(self, ranks: list[int], read: Callable[[int], T]) -> None:
        self._values: dict[int, T | None] = dict.fromkeys(ranks)
        self._read = read

    def __getitem__(self, rank: int) -> T:
        value = self._values[rank]
        if value is None:
            value = self._values[rank] = self._read(rank)
        return value

    def __setitem__(self, rank: int, value: T) -> None:
        self._values[rank] = value

    def __delitem__(self, rank: int) -> None:
        del self._values[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Trace:
    """The traces of all ranks of a job.

    Attributes:
        run: the run as `trace_advisor.open` returns it
        location: the path that was opened
        rank_of: the rank in the frames, by rank of the run; they differ if `trace_files` says so
        trace_path: the folder
        trace_files: the file of each rank
        traces: the frame of each rank, read when it is first used
        symbol_table: the names and categories that the frames refer to
        meta_data: what each file says outside of its list of events, read when it is first used
        is_parsed: whether frames are available

    Times are microseconds since the first event of all ranks, exact to the nanosecond.
    """

    def __init__(
        self,
        trace_files: list[str] | dict[int, str] | None = None,
        trace_dir: str = DEFAULT_TRACE_DIR,
        parser_config: Any = None,
    ) -> None:
        if parser_config is not None:
            raise NotImplementedError(
                "trace_advisor.hta reads all arguments of events and takes no parser_config; "
                "`trace.run.sql` selects other columns"
            )
        self.trace_path = os.path.expanduser(trace_dir)
        self._window = events.Window()
        self.is_parsed = False
        given = None if trace_files is None else self._full_paths(trace_files)
        self.location = self._location(given)
        self.run = ta.open(self.location)
        self._table = self.sql("SELECT * FROM ranks ORDER BY rank").set_index("rank", drop=False)
        self.rank_of = self._rank_numbers(given)
        self._table = self._table[self._table.index.isin(self.rank_of)]
        self.trace_files = {self.rank_of[rank]: self._file(rank, given) for rank in self._table.index}
        self.traces: MutableMapping[int, pd.DataFrame] = ByRank([], self._read_frame)
        self.meta_data: MutableMapping[int, dict[str, Any]] = ByRank(list(self.trace_files), self._read_meta_data)

    def _full_paths(self, trace_files: list[str] | dict[int, str]) -> dict[int, str]:
        named = trace_files if isinstance(trace_files, dict) else dict(enumerate(trace_files))
        return {rank: os.path.join(self.trace_path, os.path.expanduser(file)) for rank, file in named.items()}

    def _location(self, given: dict[int, str] | None) -> str:
        """The path to open: the folder, the only file, or a folder with links to the files."""
        if given is None:
            return self.trace_path
        missing = [file for file in given.values() if not os.path.exists(file)]
        if missing:
            raise ValueError(f"no such trace file: {missing[0]}")
        if len(given) == 1:
            return next(iter(given.values()))
        self._links = tempfile.TemporaryDirectory(prefix="trace_advisor_")
        for rank, file in given.items():
            extension = ".json.gz" if file.endswith(".gz") else ".json"
            os.symlink(os.path.abspath(file), Path(self._links.name, f"rank-{rank}{extension}"))
        return self._links.name

    def _rank_numbers(self, given: dict[int, str] | None) -> dict[int, int]:
        """The caller's number of each rank of the run. Numbers that the caller gives win over those in the files."""
        if given is None:
            return {rank: rank for rank in self._table.index}
        if len(self._table) != len(given):
            raise ValueError(f"{len(given)} trace files hold the traces of {len(self._table)} ranks")
        if len(given) == 1:
            return {self._table.index[0]: next(iter(given))}
        names = {rank: str(row["file"]).rsplit("rank-", 1)[-1].split(".")[0] for rank, row in self._table.iterrows()}
        return {rank: int(name) for rank, name in names.items()}

    def _file(self, rank: int, given: dict[int, str] | None) -> str:
        if given is not None:
            return given[self.rank_of[rank]]
        if os.path.isfile(self.trace_path):
            return self.trace_path
        return os.path.join(self.trace_path, str(self._table.at[rank, "file"]))

    def sql(self, query: str) -> pd.DataFrame:
        """Run a query and return its rows."""
        return self.run.sql(query).to_pandas()

    def view(self, name: str, ranks: list[int] | None = None, **params: Any) -> pd.DataFrame:
        """Return the rows of a view of Trace Advisor, of all ranks or these."""
        if self._window.include_last_step:
            params["include_last_step"] = True
        table = self.run.view(name, **params).to_pandas()
        if "rank" not in table.columns:
            return table
        table["rank"] = table["rank"].map(self.rank_of).astype("int64")
        if ranks is None:
            return table.reset_index(drop=True)
        self.check_ranks(ranks)
        return table[table["rank"].isin(ranks)].reset_index(drop=True)

    def check_ranks(self, ranks: list[int]) -> None:
        """Raise `ValueError` if the trace lacks one of these ranks."""
        missing = [rank for rank in ranks if rank not in self.trace_files]
        if missing:
            raise ValueError(f"no trace of rank {missing[0]}; there are {sorted(self.trace_files)}")

    @cached_property
    def symbol_table(self) -> TraceSymbolTable:
        """Names and categories of the events of all ranks."""
        return events.symbols(self.sql)

    @cached_property
    def origin_ns(self) -> int:
        """Start of the first event of all ranks, on the clock of the run."""
        return events.first_event_ns(self.sql)

    def _run_rank(self, rank: int) -> pd.Series:
        return next(row for number, row in self._table.iterrows() if self.rank_of[number] == rank)

    def _read_frame(self, rank: int) -> pd.DataFrame:
        return events.frame(self.sql, self._run_rank(rank), self.symbol_table, self.origin_ns, self._window)

    def _read_meta_data(self, rank: int) -> dict[str, Any]:
        raw = self.get_raw_trace_for_one_rank(rank)
        return {key: value for key, value in raw.items() if key != "traceEvents"}

    def parse_traces(
        self, max_ranks: int = -1, use_multiprocessing: bool = True, use_memory_profiling: bool = True
    ) -> None:
        """Provide the frames of all events, also those of the last profiler step."""
        ranks = sorted(self.trace_files)
        self._window = events.Window()
        self.traces = ByRank(ranks if max_ranks == -1 else ranks[:max_ranks], self._read_frame)
        self.is_parsed = True

    def align_and_filter_trace(self, include_last_profiler_step: bool | None = False) -> None:
        """Leave out what begins with the last of several profiler steps, or after it."""
        self._window = events.Window(is_cut=True, include_last_step=bool(include_last_profiler_step))
        self.traces = ByRank(list(self.traces), self._read_frame)

    def load_traces(
        self,
        include_last_profiler_step: bool | None = False,
        use_multiprocessing: bool = True,
        use_memory_profiling: bool = True,
    ) -> None:
        """Provide the frames as the analyses count them: without the last of several profiler steps by default."""
        if not self.is_parsed:
            self.parse_traces()
            self.align_and_filter_trace(include_last_profiler_step)

    def get_ranks(self) -> list[int]:
        """Return all ranks, in order."""
        return sorted(self.traces)

    def get_iterations(self, rank: int | None = None) -> list[int]:
        """Return the profiler steps of a rank, the first rank by default."""
        ranks = self.get_ranks()
        rank = ranks[0] if rank is None and ranks else rank
        if rank not in ranks:
            return []
        return sorted(int(step) for step in self.traces[rank]["iteration"].unique() if step >= 0)

    def get_trace_duration(self, rank: int | None = None) -> float:
        """Return the time from the start of the first event of a rank to that of the last, in microseconds."""
        ts = self.get_trace(self.get_ranks()[0] if rank is None else rank)["ts"]
        return float(ts.max() - ts.min())

    def get_trace(self, rank: int) -> pd.DataFrame:
        """Return the frame of a rank."""
        if rank not in self.traces:
            raise ValueError(f"no trace of rank {rank}; there are {self.get_ranks()}")
        return self.traces[rank]

    def get_all_traces(self) -> MutableMapping[int, pd.DataFrame]:
        """Return the frames of all ranks."""
        return self.traces

    def decode_symbol_ids(self, use_shorten_name: bool = True) -> None:
        """Add the columns ``s_name`` and ``s_cat`` to all frames."""
        for rank in self.traces:
            decode_symbol_id_to_symbol_name(self.traces[rank], self.symbol_table, use_shorten_name)

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """Return the file of a rank as Python objects."""
        self.check_ranks([rank])
        opener = gzip.open if self.trace_files[rank].endswith(".gz") else open
        with opener(self.trace_files[rank], "rb") as file:
            raw = json.load(file)
        return raw if isinstance(raw, dict) else {"traceEvents": raw}

    def write_raw_trace(self, output_file: str, trace_contents: dict[str, Any]) -> None:
        """Write a trace, compressed."""
        with work_folder(os.path.dirname(output_file) or ".") as work:
            written = os.path.join(work, "trace.json.gz")
            with gzip.open(written, "wt", compresslevel=6) as file:
                json.dump(trace_contents, file)
            os.replace(written, output_file)

    def file_time(self, rank: int, raw: dict[str, Any]) -> float:
        """Return the time in the file of a rank, in microseconds, at which the frames' clock is 0."""
        first = self.get_trace(rank).iloc[0]
        return float(raw["traceEvents"][int(first["index"])]["ts"]) - float(first["ts"])

    @cached_property
    def min_ts(self) -> float:
        """The time in the first file, in microseconds, at which the frames' clock is 0."""
        rank = self.get_ranks()[0]
        return self.file_time(rank, self.get_raw_trace_for_one_rank(rank))

    def get_trace_start_unixtime_ns(self, rank: int) -> int:
        """Return the time of the first event of all ranks, in nanoseconds since the Unix epoch."""
        self.check_ranks([rank])
        base_ns = self._run_rank(rank)["base_time_ns"]
        if pd.isna(base_ns):
            raise ValueError(f"the trace of rank {rank} does not say when it was recorded")
        return int(base_ns) + self.origin_ns

    def convert_time_series_to_events(
        self, series: pd.DataFrame, counter_name: str, counter_col: str
    ) -> list[dict[str, Any]]:
        """Return a time series as counter events of a Chrome trace."""
        return counter_events(series, counter_name, counter_col, self.min_ts)

    @staticmethod
    def flow_event(
        id: int,
        pid: int,
        tid: int,
        ts: float,
        is_start: bool,
        name: str,
        cat: str,
        args: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return one end of an arrow as an event of a Chrome trace."""
        phase = PHASE_FLOW_START if is_start else PHASE_FLOW_END
        event = {"ph": phase, "id": id, "pid": pid, "tid": tid, "ts": ts, "cat": cat, "name": name}
        if args is not None:
            event["args"] = args
        if not is_start:
            event["bp"] = "e"
        return event
