from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler
from transformers import TrainerCallback

class ProfilerStep(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        prof.step()

trainer.add_callback(ProfilerStep())
trainer.args.max_steps = 12
with profile(
    activities=[ACTIVITIES],
    schedule=schedule(wait=1, warmup=3, active=5),
    on_trace_ready=tensorboard_trace_handler("traces"),
    record_shapes=True, profile_memory=True, with_stack=True,
) as prof:
    trainer.train()
