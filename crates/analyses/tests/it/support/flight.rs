//! Rows of dumps of PyTorch's Flight Recorder.

use trace_model::column::NULL_I64;
use trace_model::tables::{FlightDump, FlightProcessGroup, FlightRecord};

use super::Run;

impl Run {
    /// A dump of a rank, of which the buffer begins with this record.
    pub fn flight_dump(&mut self, rank: i32, oldest_record_id: i64) -> &mut Self {
        let row = FlightDump {
            rank,
            file: self.name("nccl_trace_rank"),
            version: self.name("2.10"),
            has_records: true,
            record_count: 0,
            oldest_record_id,
            newest_record_id: oldest_record_id - 1,
            ..FlightDump::null_row()
        };
        self.flight_dumps.push(row);
        self
    }

    /// A process group of NCCL, as the last dump states it.
    pub fn flight_group(&mut self, name: &str, ranks: &str) -> &mut Self {
        let rank = *self.flight_dumps.rank.0.last().unwrap();
        let row = FlightProcessGroup {
            rank,
            group_name: self.name(name),
            group_description: self.name("tensor_parallel"),
            group_ranks: self.name(ranks),
            member_count: ranks.split(',').count() as i64,
        };
        self.flight_process_groups.push(row);
        self
    }

    /// The next record of the last dump: a collective of a group, called at a line of train.py. Without ranks, the group is
    /// the default one.
    pub fn flight_call(
        &mut self,
        (group, ranks): (&str, &str),
        seq: i64,
        operation: &str,
        state: &str,
        line: i64,
    ) -> &mut Self {
        let rank = *self.flight_dumps.rank.0.last().unwrap();
        let record_id = self.flight_dumps.newest_record_id.0.last().unwrap() + 1;
        set_last!(self.flight_dumps, newest_record_id, record_id);
        let count = self.flight_dumps.record_count.0.last().unwrap() + 1;
        set_last!(self.flight_dumps, record_count, count);
        let sizes = if operation == "barrier" { "[]" } else { "[[8, 4]]" };
        let row = FlightRecord {
            rank,
            record_id,
            group_name: self.name(group),
            group_description: self.name(if ranks.is_empty() {
                "default_pg"
            } else {
                "tensor_parallel"
            }),
            group_ranks: self.optional_name(ranks),
            collective_seq: seq,
            op_id: record_id,
            library: self.name("nccl"),
            operation: self.name(operation),
            state: self.name(state),
            ts_ns: 1_000 * record_id + i64::from(rank),
            input_sizes: self.name(sizes),
            input_dtypes: self.name("Float"),
            input_element_count: 32,
            output_sizes: self.name(sizes),
            output_dtypes: self.name("Float"),
            output_element_count: 32,
            file: self.name("train.py"),
            line,
            function: self.name("train"),
            ..FlightRecord::null_row()
        };
        self.flight_records.push(row);
        self
    }

    /// The last record has inputs and outputs of this many elements.
    pub fn of_elements(&mut self, inputs: i64, outputs: i64) -> &mut Self {
        set_last!(self.flight_records, input_element_count, inputs);
        set_last!(self.flight_records, output_element_count, outputs);
        let sizes = self.name(&format!("[[{inputs}]]"));
        set_last!(self.flight_records, input_sizes, sizes);
        self
    }

    /// The last dump leaves out records that are complete.
    pub fn with_left_out_records(&mut self) -> &mut Self {
        let newest = self.flight_dumps.newest_record_id.0.last().unwrap() + 3;
        set_last!(self.flight_dumps, newest_record_id, newest);
        self
    }

    /// The next record of the last dump: a send or receive between two ranks of the group `1`.
    pub fn flight_message(
        &mut self,
        operation: &str,
        from: i64,
        to: i64,
        state: &str,
    ) -> &mut Self {
        self.flight_call(("1", "0,1"), NULL_I64, operation, state, 40);
        set_last!(self.flight_records, p2p_seq, 1);
        set_last!(self.flight_records, is_p2p, true);
        set_last!(self.flight_records, source_rank, from);
        set_last!(self.flight_records, target_rank, to);
        self
    }

    fn optional_name(&mut self, text: &str) -> trace_model::StrId {
        if text.is_empty() { trace_model::StrId::NULL } else { self.name(text) }
    }
}
