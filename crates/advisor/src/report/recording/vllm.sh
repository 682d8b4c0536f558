vllm serve MODEL --profiler-config \
    '{"profiler": "torch", "torch_profiler_dir": "./traces", "torch_profiler_record_shapes": true}'
# before vLLM 0.13: VLLM_TORCH_PROFILER_DIR=./traces vllm serve MODEL
# in another shell, while requests run:
curl -X POST http://localhost:8000/start_profile
sleep 2
curl -X POST http://localhost:8000/stop_profile
