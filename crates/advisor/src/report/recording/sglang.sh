SGLANG_TORCH_PROFILER_DIR=$PWD/traces python -m sglang.launch_server --model-path MODEL
# in another shell, while requests run:
curl -X POST http://localhost:30000/start_profile \
    -H 'Content-Type: application/json' -d '{"num_steps": 10, "record_shapes": true, "with_stack": true}'
