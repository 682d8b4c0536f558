from lightning.pytorch import Trainer
from lightning.pytorch.profilers import PyTorchProfiler
from torch.profiler import ProfilerActivity, schedule, tensorboard_trace_handler

profiler = PyTorchProfiler(
    activities=[ACTIVITIES],
    schedule=schedule(wait=1, warmup=3, active=5),
    on_trace_ready=tensorboard_trace_handler("traces"),
    record_shapes=True, profile_memory=True, with_stack=True,
)
Trainer(profiler=profiler, max_steps=12).fit(model, loader)
