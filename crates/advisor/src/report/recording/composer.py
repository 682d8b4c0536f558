from composer import Trainer
from composer.profiler import JSONTraceHandler, Profiler, cyclic_schedule

profiler = Profiler(
    trace_handlers=[JSONTraceHandler(folder="traces", overwrite=True, merged_trace_filename=None)],
    schedule=cyclic_schedule(wait=1, warmup=3, active=5, repeat=1),
    torch_prof_folder="traces", torch_prof_overwrite=True,
    torch_prof_record_shapes=True, torch_prof_profile_memory=True, torch_prof_with_stack=True,
)
Trainer(model=model, train_dataloader=loader, max_duration="12ba", profiler=profiler).fit()
