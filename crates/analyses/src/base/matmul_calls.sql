--! question = "Which operator calls launch matmul kernels?"
--! row = "one operator call that launches matmul kernels: matmuls, convolutions, attention"
--! window = "recording"
--! needs = ["kernel_runs", "cpu_ops"]
--! [columns]
--! rank = "rank"
--! op = "the call"
--! input_type = "data type it multiplies, by the types of its inputs: fp8, 16-bit, fp64, fp32, int8 or integer; absent where the trace does not say (record_shapes=True)"
-- Only the innermost operator around a launch: convolution, not conv2d; mm, not linear. Not prelu, which is
-- in the plugin's list, nor the element-wise halves of LSTM and GRU cells.
WITH callers AS (
    SELECT DISTINCT rank, op
    FROM kernel_runs
    WHERE op IS NOT NULL
        AND (regexp_like(op_name,
            '^aten::(_convolution|convolution|slow_conv|thnn_conv|conv[123]d|conv_tbc|conv_transpose|cudnn_convolution|miopen_(depthwise_)?convolution|mkldnn_convolution|_?conv_depthwise)')
            OR regexp_like(op_name,
                '^aten::(mm|addmm_?|_addmm_activation|bmm|baddbmm_?|addbmm_?|matmul|linear|mv|addmv_?|addr_?|dot|vdot|einsum|chain_matmul|linalg_multi_dot)\z')
            OR regexp_like(op_name,
                '^aten::(_scaled_mm|_int_mm|_grouped_mm|_scaled_grouped_mm|_weight_int[48]pack_mm|_cslt_sparse_mm|_sparse_semi_structured_|_cudnn_rnn|miopen_rnn|lstm|gru)')
            OR regexp_like(op_name,
                '^aten::(scaled_dot_product_attention|_scaled_dot_product_|_flash_attention_|_efficient_attention_|_cudnn_attention_)')
            OR regexp_like(op_name,
                '^(autograd::engine::evaluate_function: )?((Cudnn|Miopen|Slow|Thnn)?Conv[A-Za-z0-9]*|Mm|Bmm|Addmm|Baddbmm|Addbmm|Addmv|Mv|Linear|ScaledDotProduct[A-Za-z]*|FlashAttn[A-Za-z]*)Backward[0-9]*\z')
            OR regexp_like(op_name, '^(FlashAttn|flash_attn[a-z0-9_]*::)')
            OR regexp_like(op_name,
                '^(aiter|_C|_moe_C|vllm|sgl_kernel|sglang|torchao|deep_gemm|flashinfer|xformers[a-z_]*|transformer_engine)::.*(gemm|_mm|marlin|attention|attn|fmha|mla|moe)'))
)
SELECT
    c.rank, c.op,
    CASE
        WHEN o.input_types LIKE '%Float8%' THEN 'fp8'
        WHEN o.input_types LIKE '%BFloat16%' OR o.input_types LIKE '%Half%' THEN '16-bit'
        WHEN o.input_types LIKE '%double%' THEN 'fp64'
        WHEN o.input_types LIKE '%float%' THEN 'fp32'
        WHEN o.input_types LIKE '%signed char%' OR o.input_types LIKE '%unsigned char%' THEN 'int8'
        WHEN o.input_types LIKE '%int%' OR o.input_types LIKE '%long%' THEN 'integer'
    END AS input_type
FROM callers c
LEFT JOIN cpu_ops o ON o.rank = c.rank AND o.event_id = c.op
