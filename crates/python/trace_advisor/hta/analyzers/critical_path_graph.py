"""HTA's critical path as a networkx graph."""

from __future__ import annotations

import logging
import os
import zipfile
from dataclasses import dataclass
from enum import Enum

import networkx as nx
import pandas as pd

from ..common.trace import Trace

logger = logging.getLogger("trace_advisor.hta")

#: Host calls whose time does not count, because they wait for the device.
BLOCKING_SYNC_CALLS = [
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventQuery",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cudaMemcpyAsync",
]

#: HTA takes an edge that goes back in time this far, in microseconds, for an error of the trace, with no weight.
CLOCK_ERROR_US = -1.0

#: Set this to 1 to draw the launches that held nothing up as edges without weight, as in HTA.
ADD_ZERO_WEIGHT_LAUNCH_EDGES = "CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE"

COLUMNS = ["position", "from_event", "from_end", "to_event", "to_end", "type", "weight", "event_id", "bound_by"]


@dataclass
class CPNode:
    """The start or the end of an event. `ts` is in microseconds."""

    idx: int = -1
    ev_idx: int = -1
    ts: float = 0
    is_start: bool = False
    is_blocking: bool = False


class CPEdgeType(Enum):
    """What an edge stands for."""

    OPERATOR_KERNEL = "critical_path_operator"
    DEPENDENCY = "critical_path_dependency"
    KERNEL_LAUNCH_DELAY = "critical_path_kernel_launch_delay"
    KERNEL_KERNEL_DELAY = "critical_path_kernel_kernel_delay"
    SYNC_DEPENDENCY = "critical_path_sync_dependency"


@dataclass(frozen=True)
class CPEdge:
    """A reason why one node cannot come before another. `weight` is the time that it adds, in microseconds."""

    begin: int
    end: int
    weight: float = 0
    type: CPEdgeType = CPEdgeType.OPERATOR_KERNEL


class CPGraph(nx.DiGraph):  # type: ignore[misc]
    """The graph of a part of a rank's trace. Nodes are numbers; edges have a ``weight`` and an ``object``, a `CPEdge`.

    Change the ``weight`` of edges and call `critical_path` to find the path if something took a different time.

    Attributes:
        trace_df: events of the rank
        symbol_table: names and categories of these events
        node_list: nodes, by number
        critical_path_nodes: numbers of the nodes on the path
        critical_path_events_set: events on the path
        critical_path_edges_set: edges of the path
    """

    BLOCKING_SYNC_CALLS = BLOCKING_SYNC_CALLS

    def __init__(self, edges: pd.DataFrame | None = None, t_full: Trace | None = None, rank: int = 0) -> None:
        super().__init__()
        # networkx makes empty graphs of this class for its own use.
        if edges is None or t_full is None:
            return
        self.rank = rank
        self.t_full = t_full
        self.trace_df = self.full_trace_df = t_full.get_trace(rank)
        self.symbol_table = t_full.symbol_table
        self.node_list: list[CPNode] = []
        self.event_to_start_node_map: dict[int, int] = {}
        self.event_to_end_node_map: dict[int, int] = {}
        self.edge_to_event_map: dict[tuple[int, int], int] = {}
        self._bound_by: dict[tuple[int, int], str] = {}
        self._add_nodes(edges)
        self._add_edges(edges)
        if os.environ.get(ADD_ZERO_WEIGHT_LAUNCH_EDGES) == "1":
            self._add_launches()
        path = edges[edges["position"].notna()].sort_values("position")
        self._set_path(self._numbers(path, "from")[:1] + self._numbers(path, "to"))

    def _add_nodes(self, edges: pd.DataFrame) -> None:
        ends = [
            edges[[f"{side}_event", f"{side}_end"]].set_axis(["event", "is_end"], axis=1) for side in ("from", "to")
        ]
        nodes = pd.concat(ends).drop_duplicates()
        events = self.trace_df.loc[nodes["event"]]
        nodes["ts"] = (events["ts"] + events["dur"] * nodes["is_end"].to_numpy()).to_numpy()
        nodes["name"] = events["name"].to_numpy()
        blocking = {self.symbol_table.sym_index.get(name) for name in BLOCKING_SYNC_CALLS}
        for node in nodes.sort_values(["ts", "event", "is_end"]).itertuples():
            number = len(self.node_list)
            is_start = not node.is_end
            self.node_list.append(CPNode(number, node.event, node.ts, is_start, node.name in blocking))
            (self.event_to_start_node_map if is_start else self.event_to_end_node_map)[node.event] = number
            self.add_node(number)

    def _add_edges(self, edges: pd.DataFrame) -> None:
        begins, ends = self._numbers(edges, "from"), self._numbers(edges, "to")
        for begin, end, row in zip(begins, ends, edges.itertuples(), strict=True):
            edge = CPEdge(begin, end, row.weight, CPEdgeType(row.type))
            weight = 0.0 if row.weight <= CLOCK_ERROR_US else row.weight
            self.add_edge(begin, end, weight=weight, object=edge)
            self._bound_by[begin, end] = row.bound_by
            if pd.notna(row.event_id):
                self.edge_to_event_map[begin, end] = int(row.event_id)

    def _add_launches(self) -> None:
        starts = self.event_to_start_node_map
        on_device = self.trace_df["stream"].ge(0) & self.trace_df["index_correlation"].gt(0)
        for kernel, launch in self.trace_df.loc[on_device, "index_correlation"].items():
            if kernel in starts and launch in starts and not self.has_edge(starts[launch], starts[kernel]):
                edge = CPEdge(starts[launch], starts[kernel], 0.0, CPEdgeType.KERNEL_LAUNCH_DELAY)
                self.add_edge(edge.begin, edge.end, weight=0.0, object=edge)
                self._bound_by[edge.begin, edge.end] = "gpu_kernel_launch_overhead"

    def _numbers(self, edges: pd.DataFrame, side: str) -> list[int]:
        starts, ends = self.event_to_start_node_map, self.event_to_end_node_map
        pairs = zip(edges[f"{side}_event"], edges[f"{side}_end"], strict=True)
        return [(ends if is_end else starts)[event] for event, is_end in pairs]

    def _set_path(self, nodes: list[int]) -> None:
        self.critical_path_nodes = nodes
        self.critical_path_events_set = {self.node_list[node].ev_idx for node in nodes}
        self.critical_path_edges_set = set(self._path_edges())

    def _path_edges(self) -> list[CPEdge]:
        nodes = self.critical_path_nodes
        return [self.edges[pair]["object"] for pair in zip(nodes, nodes[1:], strict=False)]

    def critical_path(self) -> bool:
        """Find the heaviest path with the weights that the edges have now. Return False if the graph has a cycle."""
        try:
            self._set_path(nx.dag_longest_path(self, weight="weight"))
        except nx.NetworkXUnfeasible:
            logger.error("the graph has a cycle: `networkx.simple_cycles` finds it")
            return False
        return True

    def get_nodes_for_event(self, ev_id: int) -> tuple[CPNode | None, CPNode | None]:
        """Return the start and the end of an event; None if they have no edge."""
        numbers = self.event_to_start_node_map.get(ev_id), self.event_to_end_node_map.get(ev_id)
        start, end = (None if number is None else self.node_list[number] for number in numbers)
        return start, end

    def get_events_for_edge(self, edge: CPEdge) -> tuple[int, int]:
        """Return the events at both ends of an edge."""
        return self.node_list[edge.begin].ev_idx, self.node_list[edge.end].ev_idx

    def get_event_attribution_for_edge(self, edge: CPEdge) -> int | None:
        """Return the event whose time an edge is, if any."""
        return self.edge_to_event_map.get((edge.begin, edge.end))

    def get_edges_attributed_to_event(self, ev_id: int) -> list[CPEdge]:
        """Return the edges that are the time of an event."""
        return [self.edges[pair]["object"] for pair, event in self.edge_to_event_map.items() if event == ev_id]

    def get_critical_path_breakdown(self) -> pd.DataFrame | None:
        """List the edges of the path in its order, with the event whose time each is.

        Returns:
            ``event_idx``, ``duration`` (us), ``type``, ``s_name``, ``cat``, ``pid``, ``tid``, ``stream``, ``index``
            and ``bound_by``: cpu_bound, gpu_compute_bound, gpu_communication_bound, gpu_kernel_kernel_overhead,
            gpu_kernel_launch_overhead, or empty for dependencies
        """
        if not self.critical_path_nodes:
            return None
        from ..common.trace_symbol_table import decode_symbol_id_to_symbol_name

        edges = self._path_edges()
        events = [self.get_event_attribution_for_edge(edge) for edge in edges]
        breakdown = pd.DataFrame(
            {
                "event_idx": pd.Series(events, dtype="float64"),
                "duration": [edge.weight for edge in edges],
                "type": [edge.type.value for edge in edges],
            }
        )
        columns = ["name", "cat", "pid", "tid", "stream", "index"]
        named = self.trace_df.loc[sorted({event for event in events if event is not None}), columns].copy()
        decode_symbol_id_to_symbol_name(named, self.symbol_table, use_shorten_name=True)
        named = named[["s_name", "cat", "pid", "tid", "stream", "index"]]
        breakdown = breakdown.merge(named, left_on="event_idx", right_on="index", how="left")
        breakdown["bound_by"] = [self._bound_by[edge.begin, edge.end] for edge in edges]
        return breakdown

    def summary(self) -> pd.Series:
        """Return the share of each bound in the path, in percent."""
        breakdown = self.get_critical_path_breakdown()
        if breakdown is None:
            raise ValueError("the graph has no critical path")
        print("Critical Path broken down by boundedness = (in % of duration)")
        return breakdown.groupby("bound_by")["duration"].sum() / breakdown["duration"].sum() * 100

    def show_critical_path(self) -> None:
        """Log the nodes of the path."""
        for number in self.critical_path_nodes:
            node = self.node_list[number]
            logger.info("Critical %s, ev_id = %d ev_name = %s", node, node.ev_idx, self._get_node_name(node.ev_idx))

    def _get_node_name(self, ev_id: int) -> str:
        return "" if ev_id < 0 else self.symbol_table.sym_table[self.full_trace_df.at[ev_id, "name"]]

    def save(self, out_dir: str) -> str:
        """Write the graph to the file ``<out_dir>.zip`` and return its path. `restore_cpgraph` reads it."""
        place = {
            pair: at
            for at, pair in enumerate(zip(self.critical_path_nodes, self.critical_path_nodes[1:], strict=False))
        }
        rows = []
        for begin, end, data in self.edges(data=True):
            (start, from_end), (stop, to_end) = (
                (self.node_list[node].ev_idx, not self.node_list[node].is_start) for node in (begin, end)
            )
            row = (place.get((begin, end)), start, from_end, stop, to_end, data["object"].type.value)
            rows.append((*row, data["weight"], self.edge_to_event_map.get((begin, end)), self._bound_by[begin, end]))
        path = f"{out_dir.rstrip('/')}.zip"
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("edges.csv", pd.DataFrame(rows, columns=COLUMNS).to_csv(index=False))
        return path


def restore_cpgraph(zip_filename: str, t_full: Trace, rank: int) -> CPGraph:
    """Read a graph that `CPGraph.save` wrote. `t_full` is the trace that it belongs to."""
    with zipfile.ZipFile(zip_filename) as archive, archive.open("edges.csv") as file:
        edges = pd.read_csv(file, keep_default_na=False, na_values={"position": "", "event_id": ""})
    return CPGraph(edges, t_full, rank)
