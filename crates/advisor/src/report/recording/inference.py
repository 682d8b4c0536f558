import torch
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

with torch.inference_mode(), profile(
    activities=[ACTIVITIES],
    schedule=schedule(wait=1, warmup=3, active=5),
    on_trace_ready=tensorboard_trace_handler("traces"),
    record_shapes=True, profile_memory=True, with_stack=True,
) as prof:
    for _ in range(10):  # calls like those that you want to make faster
        model(inputs)
        prof.step()
