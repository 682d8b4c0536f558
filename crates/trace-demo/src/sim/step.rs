//! The phases of a training step, in the order in which the host runs them.

use super::{
    FORWARD, KERNEL_GAP_NS, LAUNCH_LATENCY_NS, LEAK_BYTES, MOST_LEAKED_BYTES, OPTIMIZER, Pending,
    Sim,
};
use crate::model::{Layer, Op};
use crate::options::Bottleneck;
use crate::record::{Call, Exchange, HostKind, Name, Record, Thread};

impl<'m> Sim<'m> {
    pub(super) fn load(&mut self, step_ns: i64) {
        let (name, frame, share) = if self.bottleneck == Bottleneck::DataLoading {
            (
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                "torch/utils/data/dataloader.py(788): _next_data",
                560,
            )
        } else {
            (
                "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                "torch/utils/data/dataloader.py(1458): _next_data",
                25,
            )
        };
        let total = self.rng.jitter(step_ns * share / 1000, 40);
        let external = self.next_external();
        let outer = self.enter("torch/utils/data/dataloader.py(733): __next__");
        let slot = self.open(Thread::Main, HostKind::Annotation, Name::Plain(name), external);
        let inner = self.enter(frame);
        let decoding = (self.bottleneck == Bottleneck::DataLoading)
            .then(|| self.enter("dataset.py(27): __getitem__"));
        self.clock += total * 85 / 100;
        if let Some(decoding) = decoding {
            self.leave(decoding);
        }
        self.host_op("aten::stack", total * 8 / 100);
        self.host_op("aten::pin_memory", total * 4 / 100);
        self.clock += total * 3 / 100;
        self.leave(inner);
        self.close(slot);
        self.leave(outer);
    }

    pub(super) fn zero_grad(&mut self, step_ns: i64) {
        let external = self.next_external();
        let name = Name::Plain("Optimizer.zero_grad#AdamW.zero_grad");
        let slot = self.open(Thread::Main, HostKind::Annotation, name, external);
        self.clock += self.rng.jitter(step_ns * 2 / 1000, 50);
        self.close(slot);
    }

    /// Copies one tensor of the batch, without waiting for it.
    pub(super) fn copy_batch(&mut self, budget: i64) {
        let to = self.next_external();
        let to_slot = self.open(Thread::Main, HostKind::Operator, Name::Plain("aten::to"), to);
        self.clock += budget / 10;
        let copy = self.next_external();
        let copy_slot =
            self.open(Thread::Main, HostKind::Operator, Name::Plain("aten::_to_copy"), copy);
        self.host_op("aten::empty_strided", budget / 5);
        self.allocate(self.model.batch_bytes, Thread::Main);
        let inner = self.next_external();
        let inner_slot =
            self.open(Thread::Main, HostKind::Operator, Name::Plain("aten::copy_"), inner);
        self.clock += budget / 5;
        self.copy(true, self.model.batch_bytes, inner);
        self.clock += budget / 10;
        self.close(inner_slot);
        self.clock += budget / 10;
        self.close(copy_slot);
        self.close(to_slot);
    }

    pub(super) fn forward(&mut self) {
        let call = self.enter_module("GPT", 0);
        let ddp = (self.ranks > 1).then(|| {
            let external = self.next_external();
            let name = Name::Plain("DistributedDataParallel.forward");
            let slot = self.open(Thread::Main, HostKind::Annotation, name, external);
            self.device_starts[FORWARD] = None;
            (slot, external, name)
        });
        let layers = self.model.stem.len()
            + self.model.block.len() * self.model.blocks as usize
            + self.model.head.len();
        let bytes = (self.peak_bytes() - self.allocated) / layers as i64 / 512 * 512;
        let mut block_frame = None;
        for (i, (block, layer)) in (0..).zip(self.model.layers()) {
            if block_frame.map(|(b, _)| b) != Some(block) {
                if let Some((_, frame)) = block_frame.take() {
                    self.leave(frame);
                }
                block_frame = Some((block, block.map_or(0, |b| self.enter_module("Block", b))));
            }
            let frame =
                if layer.module.is_empty() { 0 } else { self.enter_module(layer.module, i) };
            self.forward_layer(layer, bytes);
            self.leave(frame);
            if self.bottleneck == Bottleneck::Sync && i % 2 == 1 {
                self.item();
            }
        }
        if let Some((_, frame)) = block_frame {
            self.leave(frame);
        }
        if let Some((slot, external, name)) = ddp {
            self.close(slot);
            self.annotate_compute(name, FORWARD, external);
        }
        self.leave(call);
    }

    fn forward_layer(&mut self, layer: &'m Layer, bytes: i64) {
        let slow = if self.straggles { 160 } else { 100 };
        let budget = self.rng.jitter(layer.forward.device_ns() * 36 * slow / 3500, 30);
        self.clock += budget * 8 / 100;
        self.flow += 1;
        self.sequence += 1;
        let (id, ts) = (self.flow, self.clock);
        self.push(Record::Gradient { start: true, thread: Thread::Main, id, ts });
        let sequence = Some(self.sequence);
        self.op(&layer.forward, budget * 92 / 100, Thread::Main, sequence, slow);
        self.allocate(bytes, Thread::Main);
    }

    pub(super) fn backward(&mut self, first_sequence: u64) {
        let frame = self.enter("torch/_tensor.py(630): backward");
        self.clock += 12_000;
        let flows = self.flow - (self.sequence - first_sequence);
        let mut index = self.sequence - first_sequence;
        let mut bucket_block = None;
        let layers: Vec<_> = self.model.layers().collect();
        for (block, layer) in layers.into_iter().rev() {
            if bucket_block.is_some_and(|b| b != block) {
                self.all_reduce(bucket_block.flatten().is_some());
            }
            bucket_block = Some(block);
            self.backward_layer(layer, first_sequence + index, flows + index);
            index -= 1;
        }
        self.all_reduce(false);
        self.clock += 5_000;
        self.leave(frame);
    }

    fn backward_layer(&mut self, layer: &'m Layer, sequence: u64, flow: u64) {
        let budget = self.rng.jitter(layer.backward_ns() * 43 / 57, 30);
        let node_budget = if layer.parameters > 0 { budget * 80 / 100 } else { budget };
        let evaluate = self.next_external();
        let outer = self.open_backward(Name::Evaluate(layer.node), evaluate, sequence);
        self.clock += node_budget * 8 / 100;
        let external = self.next_external();
        let inner = self.open_backward(Name::Plain(layer.node), external, sequence);
        let ts = self.clock;
        self.push(Record::Gradient { start: false, thread: Thread::Autograd, id: flow, ts });
        self.clock += node_budget * 6 / 100;
        let weight: i64 = layer.backward.iter().map(Op::total_weight).sum();
        for op in &layer.backward {
            let share = node_budget * 80 / 100 * op.total_weight() / weight;
            self.op(op, share, Thread::Autograd, None, 100);
        }
        self.clock += node_budget * 3 / 100;
        self.close(inner);
        self.release();
        self.clock += node_budget * 3 / 100;
        self.close(outer);
        for _ in 0..layer.parameters {
            let share = budget * 20 / 100 / i64::from(layer.parameters);
            let evaluate = self.next_external();
            let name = "torch::autograd::AccumulateGrad";
            let outer = self.open_backward(Name::Evaluate(name), evaluate, sequence);
            self.clock += share * 20 / 100;
            let external = self.next_external();
            let inner = self.open_backward(Name::Plain(name), external, sequence);
            self.clock += share * 20 / 100;
            let external = self.next_external();
            let name = Name::Plain("aten::detach");
            let detach = self.open(Thread::Autograd, HostKind::Operator, name, external);
            self.clock += share * 20 / 100;
            self.close(detach);
            self.clock += share * 20 / 100;
            self.close(inner);
            self.clock += share * 20 / 100;
            self.close(outer);
        }
    }

    /// Launches the all-reduce of one bucket of gradients.
    fn all_reduce(&mut self, whole_block: bool) {
        if self.ranks == 1 {
            return;
        }
        let elements = if whole_block {
            self.model.bucket_elements
        } else {
            self.model.bucket_elements * 4 / 10
        };
        let thread = Thread::Autograd;
        let op = self.next_external();
        let op_slot = self.open(thread, HostKind::Operator, Name::Plain("c10d::allreduce_"), op);
        self.clock += 3_000;
        let external = self.next_external();
        let name = Name::Plain("record_param_comms");
        let slot =
            self.open(thread, HostKind::Exchange(Exchange::AllReduce(elements)), name, external);
        self.clock += 2_000;
        self.call(Call::EventRecord, thread, 900, external);
        self.call(Call::StreamWaitEvent, thread, 900, external);
        let annotation = self.next_external();
        let name = Name::Plain("nccl:all_reduce");
        let inner = self.open(thread, HostKind::Annotation, name, annotation);
        self.clock += 2_500;
        let ts = self.clock;
        self.clock += self.rng.jitter(6_500, 100);
        let correlation = self.runtime(Call::LaunchKernelExC, thread, ts, external, true);
        // The collective reads the gradients that the kernels queued so far compute.
        let arrival = (self.clock + LAUNCH_LATENCY_NS).max(self.compute_free + KERNEL_GAP_NS);
        self.pending.push(Pending { arrival, elements, external, annotation, correlation });
        self.clock += 1_500;
        self.close(inner);
        self.call(Call::EventRecord, thread, 900, external);
        self.close(slot);
        self.clock += 1_500;
        self.close(op_slot);
    }

    /// Leaks a tensor: appends it to a list that is never emptied.
    pub(super) fn keep(&mut self) {
        if self.leaked + LEAK_BYTES > MOST_LEAKED_BYTES {
            return;
        }
        let frame = self.enter("train.py(83): remember");
        let external = self.next_external();
        let slot =
            self.open(Thread::Main, HostKind::Operator, Name::Plain("aten::clone"), external);
        self.clock += 2_000;
        self.leaked += LEAK_BYTES;
        self.allocate(LEAK_BYTES, Thread::Main);
        self.clock += 2_000;
        self.close(slot);
        self.leave(frame);
    }

    pub(super) fn optimizer(&mut self, budget: i64) {
        let frame = self.enter("torch/optim/optimizer.py(485): wrapper");
        let external = self.next_external();
        let name = Name::Plain("Optimizer.step#AdamW.step");
        let slot = self.open(Thread::Main, HostKind::Annotation, name, external);
        self.device_starts[OPTIMIZER] = None;
        let kernels = i64::from(self.model.blocks) + 1;
        self.clock += budget * 30 / 100;
        let inner = self.next_external();
        let fused = Name::Plain("aten::_fused_adamw_");
        let inner_slot = self.open(Thread::Main, HostKind::Operator, fused, inner);
        for _ in 0..kernels {
            self.clock += (budget * 60 / 100 / kernels - 6_000).max(1_000);
            self.launch(&self.model.adam, Thread::Main, 6_000, inner, 100);
        }
        self.close(inner_slot);
        self.clock += budget * 10 / 100;
        self.close(slot);
        self.leave(frame);
        self.annotate_compute(name, OPTIMIZER, external);
    }

    /// Reads a value from the device, which waits until the stream has finished all work.
    fn item(&mut self) {
        let item = self.next_external();
        let item_slot =
            self.open(Thread::Main, HostKind::Operator, Name::Plain("aten::item"), item);
        self.clock += 3_000;
        let external = self.next_external();
        let name = Name::Plain("aten::_local_scalar_dense");
        let slot = self.open(Thread::Main, HostKind::Operator, name, external);
        self.clock += 3_000;
        self.copy(false, 2, external);
        let ts = self.clock;
        self.clock = self.clock.max(self.compute_free) + 6_000;
        self.runtime(Call::StreamSynchronize, Thread::Main, ts, external, false);
        self.clock += 2_000;
        self.close(slot);
        self.clock += 1_500;
        self.close(item_slot);
        let frame = self.enter("train.py(47): log_activation");
        self.clock += self.rng.jitter(45_000, 100);
        self.leave(frame);
    }
}
