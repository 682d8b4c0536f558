from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

with profile(
    activities=[ACTIVITIES],
    schedule=schedule(wait=1, warmup=3, active=5),
    on_trace_ready=tensorboard_trace_handler("traces"),
    record_shapes=True, profile_memory=True, with_stack=True,
) as prof:
    for step, batch in enumerate(loader):
        train_step(batch)  # forward, backward, optimizer
        prof.step()
        if step >= 9:
            break
