"""`TraceAnalysis`: HTA's analyses of a job."""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from typing import TYPE_CHECKING

import pandas as pd

from .analyzers import (
    breakdown_analysis,
    cuda_kernel_analysis,
    cupti_counter_analysis,
    idle_analysis,
    kernel_sequences,
    straggler_analysis,
    trace_counters,
)
from .common.constants import CUDA_MAX_LAUNCH_QUEUE_PER_STREAM, DEFAULT_TRACE_DIR
from .common.trace import Trace

if TYPE_CHECKING:
    from .analyzers.critical_path_graph import CPGraph


class TimeSeriesTypes(Flag):
    """Series that `TraceAnalysis.generate_trace_with_counters` adds to traces."""

    QUEUE_LENGTH = auto()
    MEMCPY_BANDWIDTH = auto()


class TraceAnalysis:
    """The analyses of HTA for the traces of one job.

    Times are in microseconds (us), exact to the nanosecond. Methods with `ranks` analyze rank 0 by default, as HTA
    does; the others analyze all ranks. Figures need plotly. What was launched from the start of the last of several
    profiler steps on does not count, since the recording may cut it off.

    Args:
        trace_files: the file of each rank, absolute or relative to `trace_dir`
        trace_dir: the folder of the traces, or an address such as ``s3://bucket/run/``
        include_last_profiler_step: count the last profiler step, too
    """

    def __init__(
        self,
        trace_files: dict[int, str] | None = None,
        trace_dir: str = DEFAULT_TRACE_DIR,
        include_last_profiler_step: bool | None = False,
    ) -> None:
        self.t = Trace(trace_files, trace_dir)
        self.t.load_traces(include_last_profiler_step)

    def get_comm_comp_overlap(self, visualize: bool = True) -> pd.DataFrame:
        """Compute the share of communication that runs at the same time as computation.

        Communication includes the collectives of RCCL, HCCL, oneCCL, NVSHMEM and inference servers, and kernels that
        NCCL names differently since 2.19, which HTA takes for computation.

        Returns:
            one row per rank with device activity: ``rank`` and ``comp_comm_overlap_pctg`` (%, two digits; NaN
            without communication)
        """
        return breakdown_analysis.comm_comp_overlap(self.t, visualize)

    def get_profiler_steps(self) -> list[int]:
        """List the profiler steps that count."""
        return straggler_analysis.profiler_steps(self.t)

    def get_potential_stragglers(
        self,
        profiler_steps: list[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: Callable[
            ..., pd.Series
        ] = straggler_analysis.find_stragglers_with_late_start_comm_kernels,
    ) -> list[int]:
        """Find the ranks that start the collective with the most varying duration last, most suspect first.

        All communication kernels count; HTA knows ``ncclKernel*`` on streams other than 0 only. Where ranks have no
        common clock, no rank is returned.

        Args:
            profiler_steps: steps to look at, all by default; they must follow one another
            num_candidates: number of ranks to return
            visualize: show how late ranks start
            straggler_identification_impl: another criterion: a function of the events of all ranks as a frame, the
                symbol table, `num_candidates` and `visualize`, that returns a number for each rank
        """
        return straggler_analysis.potential_stragglers(
            self.t, profiler_steps, num_candidates, visualize, straggler_identification_impl
        )

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
        image_renderer: str = "",
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Break the time of devices down by kind of kernel, and list the kernels that take most of it.

        Where a kind has more than `num_kernels` names, the rest is one row, ``others``, and no more names are listed
        than reach `duration_ratio` of the time. All statistics are about executions; HTA's are about sums of names
        in that case. The sums by kind are exact; HTA drops the fraction of a microsecond of each interval.

        Args:
            visualize: show the figures
            duration_ratio: share of the time of a kind that the listed kernels reach
            num_kernels: most kernels to list per kind and rank
            include_memory_kernels: count copies and fills, too
            image_renderer: renderer of plotly, such as ``notebook``

        Returns:
            the time of each kind over all ranks: ``kernel_type``, ``sum`` (us), ``percentage`` (%, one digit);
            and the kernels: ``name``, ``sum (us)``, ``max (us)``, ``min (us)``, ``stddev`` (us), ``mean (us)``,
            ``kernel_type``, ``rank``
        """
        return breakdown_analysis.kernel_breakdown(
            self.t, visualize, duration_ratio, num_kernels, include_memory_kernels, image_renderer
        )

    def get_gpu_kernels_with_user_annotations(
        self,
        rank: int,
        expand_names: bool = True,
        shortern_names: bool = True,
        *,
        shorten_names: bool | None = None,
    ) -> pd.DataFrame | None:
        """List the kernels, copies and fills of a rank with the shortest device annotation around each.

        Args:
            rank: rank
            expand_names: add ``s_name``, ``s_cat`` and ``s_user_annotation``
            shortern_names: drop arguments from these names
            shorten_names: the name of that argument in traceinsight

        Returns:
            the rows of `Trace.traces` with the id of the annotation in ``user_annotation``, -1 if there is none; None
            if the trace has no device annotations
        """
        shorten = shortern_names if shorten_names is None else shorten_names
        return breakdown_analysis.kernels_with_user_annotations(self.t, rank, expand_names, shorten)

    def get_gpu_user_annotation_breakdown(
        self,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: list[str] | None = None,
        image_renderer: str | None = None,
    ) -> pd.DataFrame | None:
        """Summarize the ranges that `record_function` marks, by name.

        Args:
            use_gpu_annotation: the device's copies of the ranges, else the ranges on the host
            visualize: show the figures
            duration_ratio: not used: HTA applies it to the number of names, and only beyond `num_kernels`
            num_kernels: most names to list per rank; the rest is one row, ``others``
            allowlist_patterns: names that contain one of these are always listed
            image_renderer: renderer of plotly, such as ``notebook``

        Returns:
            ``name``, ``sum (us)``, ``max (us)``, ``min (us)``, ``stddev`` (us), ``mean (us)``, ``rank``; None if there
            are no such ranges
        """
        return breakdown_analysis.user_annotation_breakdown(
            self.t, use_gpu_annotation, visualize, num_kernels, allowlist_patterns, image_renderer
        )

    def get_temporal_breakdown(self, visualize: bool = True) -> pd.DataFrame:
        """Split the time of each rank's devices into idle, computing, and other work.

        Waits of streams are idle, and operators that carry a stream are not device work; HTA counts both as busy.

        Returns:
            one row per rank with device activity: ``rank``; ``idle_time(us)``, ``compute_time(us)``,
            ``non_compute_time(us)`` and their sum ``kernel_time(us)``; and the shares ``idle_time_pctg``,
            ``compute_time_pctg`` and ``non_compute_time_pctg`` (%, two digits)
        """
        return breakdown_analysis.temporal_breakdown(self.t, visualize)

    def get_idle_time_breakdown(
        self,
        ranks: list[int] | None = None,
        streams: list[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
        consecutive_kernel_delay: int = 30,
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Break the idle time of streams down by reason: the host, a short gap between kernels, or other.

        Idle time is never negative: where activities of a stream overlap, HTA adds a negative gap.

        Args:
            ranks: ranks, 0 by default
            streams: streams, all by default
            visualize: show the figure of each rank
            visualize_pctg: show shares, else times
            show_idle_interval_stats: return statistics of the gaps, too
            consecutive_kernel_delay: shorter gaps are kernel waits, in microseconds

        Returns:
            ``rank``, ``stream`` (text if the figure was drawn, as in HTA), ``idle_category``, ``idle_time`` (us, two
            digits), ``idle_time_ratio`` (two digits); and None or the statistics of the gaps by ``idle_category``:
            ``rank``, ``stream``, ``count``, ``mean``, ``std``, ``min``, ``25%``, ``50%``, ``75%``, ``max`` (us)
        """
        return idle_analysis.idle_time_breakdown(
            self.t,
            ranks or [0],
            streams,
            visualize,
            visualize_pctg,
            show_idle_interval_stats,
            consecutive_kernel_delay,
        )

    def get_cuda_kernel_launch_stats(
        self,
        ranks: list[int] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> dict[int, pd.DataFrame]:
        """List the launches of device work with their delays.

        Every call that caused device work counts, of all vendors and through the driver, except launches of graphs;
        HTA recognizes a few functions by name.

        Args:
            ranks: ranks, 0 by default
            runtime_cutoff: longer calls are outliers in the figures, in microseconds
            launch_delay_cutoff: longer delays are outliers in the figures, in microseconds
            include_memory_events: count copies and fills, too
            visualize: show the figures

        Returns:
            for each rank ``correlation``, ``cpu_duration``, ``gpu_duration`` and ``launch_delay`` (us), from the end
            of the call to the start of the kernel
        """
        return cuda_kernel_analysis.kernel_launch_stats(
            self.t, ranks or [0], runtime_cutoff, launch_delay_cutoff, include_memory_events, visualize
        )

    def get_aten_op_kernels_and_delay(
        self, ranks: list[int] | None = None, sort_by: list[str] | None = None
    ) -> dict[int, pd.DataFrame]:
        """List the sequences of kernels that each operator launches, and how late they start.

        The operator is the innermost one around the launch on its thread, whatever its name; HTA looks for
        ``aten::`` operators on all threads. The table is drawn if plotly is installed.

        Args:
            ranks: ranks, 0 by default
            sort_by: columns to sort by, largest first, ``["occurrence_count"]`` by default

        Returns:
            for each rank ``aten_op_name``, ``kernel_sequence``, ``occurrence_count``, ``avg_aten_op_launch_delay``
            (us, from the start of the operator to its first launch) and ``avg_runtime_delay`` (us, from there to the
            start of the kernel)
        """
        return cuda_kernel_analysis.op_kernels_and_delay(self.t, ranks or [0], sort_by or ["occurrence_count"])

    def get_frequent_cuda_kernel_sequences(
        self,
        operator_name: str,
        output_dir: str,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = False,
        compress_other_kernels: bool = True,
    ) -> pd.DataFrame:
        """Find the sequences of kernels that calls of an operator launch again and again, and mark them in a trace.

        Work on stream 0 and the host's ranges of names that the device copies count, too.

        Args:
            operator_name: part of the name of the operator; the least deep calls are looked at
            output_dir: folder for the trace ``overlaid_<name of the file>``, whose events carry their sequence as the
                argument ``Patterns``
            min_pattern_len: fewest kernels of a sequence
            rank: rank
            top_k: number of sequences to mark and draw
            visualize: show the figure
            compress_other_kernels: drop names and arguments of all other events from the trace

        Returns:
            ``pattern``, ``count``, ``GPU kernel duration (us)``, ``CPU op duration (us)``, most frequent first
        """
        return kernel_sequences.frequent_kernel_sequences(
            self.t, operator_name, output_dir, min_pattern_len, rank, top_k, visualize, compress_other_kernels
        )

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: list[int] | None = None,
        output_suffix: str = "_with_counters",
    ) -> None:
        """Write a copy of each rank's trace with series as counters, beside the trace.

        Args:
            time_series: series to add, all by default
            ranks: ranks, 0 by default
            output_suffix: end of the file name before ``.json``
        """
        series = time_series or TimeSeriesTypes.QUEUE_LENGTH | TimeSeriesTypes.MEMCPY_BANDWIDTH
        ranks = ranks or [0]
        queues = self.get_queue_length_time_series(ranks) if TimeSeriesTypes.QUEUE_LENGTH in series else {}
        bandwidths = self.get_memory_bw_time_series(ranks) if TimeSeriesTypes.MEMCPY_BANDWIDTH in series else {}
        for rank in ranks:
            trace_counters.write_trace_with_counters(
                self.t, rank, queues.get(rank), bandwidths.get(rank), output_suffix or "_with_counters"
            )

    def get_queue_length_time_series(self, ranks: list[int] | None = None) -> dict[int, pd.DataFrame]:
        """Compute how many activities wait on each stream: launched, and not yet started.

        A launch comes before a start at the same time, so that no length is negative.

        Returns:
            for each rank one row per change, indexed by its event: ``ts`` (us), ``pid``, ``tid``, ``stream``,
            ``queue_length``
        """
        return trace_counters.queue_length_time_series(self.t, ranks or [0])

    def get_queue_length_summary(self, ranks: list[int] | None = None) -> pd.DataFrame | None:
        """Describe the queue lengths of each rank and stream, over changes and not over time; None without any."""
        return trace_counters.queue_length_summary(self.get_queue_length_time_series(ranks))

    def get_queue_length_summary_from_time_series(
        self, queue_length_dict: dict[int, pd.DataFrame]
    ) -> pd.DataFrame | None:
        """Describe the result of `get_queue_length_time_series`."""
        return trace_counters.queue_length_summary(queue_length_dict)

    def get_time_spent_blocked_on_full_queue(
        self,
        queue_length_dict: dict[int, pd.DataFrame],
        max_queue_length: int = CUDA_MAX_LAUNCH_QUEUE_PER_STREAM,
    ) -> pd.DataFrame | None:
        """Compute how long the queue of each stream is full, so that launches block.

        All such streams are returned; HTA returns one per rank.

        Args:
            queue_length_dict: result of `get_queue_length_time_series`
            max_queue_length: length of a full queue

        Returns:
            ``rank``, ``stream``, ``duration_at_max_queue_length`` (us), and its share of the rank's trace,
            ``relative_duration_at_max_queue_length``
        """
        return trace_counters.time_blocked_on_full_queue(self.t, queue_length_dict, max_queue_length)

    def get_memory_bw_time_series(self, ranks: list[int] | None = None) -> dict[int, pd.DataFrame]:
        """Compute the bandwidth of copies and fills over time.

        One row is one change; HTA has a row for each start and end, and a residue of rounding where nothing runs.

        Returns:
            for each rank ``ts`` (us), ``pid`` (the device), ``name`` (kind of copy), ``memory_bw_gbps`` (GB/s)
        """
        return trace_counters.memory_bandwidth_time_series(self.t, ranks or [0])

    def get_memory_bw_summary(self, ranks: list[int] | None = None) -> pd.DataFrame | None:
        """Describe the bandwidths (GB/s) of each rank and kind of copy while any runs; None without copies."""
        return trace_counters.memory_bandwidth_summary(self.get_memory_bw_time_series(ranks))

    def get_cupti_counter_data_with_operators(self, ranks: list[int] | None = None) -> list[pd.DataFrame]:
        """List the kernels that the range profiler measured, with their counters and operators.

        Returns:
            for each rank with counters one row per kernel: the columns of `Trace.traces`, one column per counter,
            ``index_runtime``, ``op_stack``, ``top_level_op`` and ``bottom_level_op``
        """
        return cupti_counter_analysis.counter_data_with_operators(self.t, ranks or [0])

    def critical_path_analysis(
        self,
        rank: int,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: list[str] | None = None,
    ) -> tuple[CPGraph, bool] | None:
        """Find HTA's critical path in a part of a rank's trace.

        This is HTA's graph, in which the time between top-level operators weighs nothing. The view `critical_path`
        covers all of a step: ``t.run.view("critical_path")``.

        Args:
            rank: rank
            annotation: part of the names of events that mark the part, such as ``ProfilerStep``; empty for all of it
            instance_id: which of these events, from 0, or the first and the last of several; None for the first
            data_load_events: not available

        Returns:
            the graph, and whether it has a path; None if no event has such a name
        """
        if data_load_events is not None:
            raise NotImplementedError("data_load_events: the view `critical_path` has the loader's time as a bound")
        from .analyzers.critical_path_analysis import CriticalPathAnalysis

        return CriticalPathAnalysis.critical_path_analysis(self.t, rank, annotation, instance_id)

    def overlay_critical_path_analysis(
        self,
        rank: int,
        critical_path_graph: CPGraph,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Write a copy of a trace that marks the critical path, and return its path.

        Args:
            rank: rank
            critical_path_graph: result of `critical_path_analysis`
            output_dir: folder for the trace ``overlaid_critical_path_<name of the file>``; created if missing
            only_show_critical_events: drop other events, except annotations and Python frames
            show_all_edges: draw all edges of the graph; no effect with `only_show_critical_events`
        """
        from .analyzers.critical_path_analysis import CriticalPathAnalysis

        return CriticalPathAnalysis.overlay_critical_path_analysis(
            self.t, rank, critical_path_graph, output_dir, only_show_critical_events, show_all_edges
        )
