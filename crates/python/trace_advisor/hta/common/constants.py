"""Constants of HTA."""

#: Activities that may wait on a stream before the launching call blocks.
CUDA_MAX_LAUNCH_QUEUE_PER_STREAM = 1024

#: Where HTA looks for traces by default.
DEFAULT_TRACE_DIR = "/tmp/trace"
