// The types of wasmtime's C interface (v44) that the shim uses, declared here because its headers
// are not on this package's include path. TestShimMatchesLibraryHeaders compares them with those headers.
typedef struct wasm_config_t wasm_config_t;
typedef struct wasm_engine_t wasm_engine_t;
typedef struct wasm_trap_t wasm_trap_t;
typedef struct wasm_valtype_t wasm_valtype_t;
typedef struct wasm_functype_t wasm_functype_t;
typedef struct wasmtime_error wasmtime_error_t;
typedef struct wasmtime_module wasmtime_module_t;
typedef struct wasmtime_store wasmtime_store_t;
typedef struct wasmtime_context wasmtime_context_t;
typedef struct wasmtime_caller wasmtime_caller_t;
typedef struct wasmtime_linker wasmtime_linker_t;
typedef struct wasmtime_instance_pre wasmtime_instance_pre_t;
typedef struct wasmtime_pooling_allocation_config_t wasmtime_pool_t;

typedef struct { size_t size; char *data; } wasm_byte_vec_t;
typedef struct { size_t size; wasm_valtype_t **data; } wasm_valtype_vec_t;
typedef struct { uint64_t store_id; void *priv; } wasmtime_func_t;
typedef struct { struct { uint64_t store_id; uint32_t priv1; }; uint32_t priv2; } wasmtime_memory_t;
typedef struct { struct { uint64_t store_id; uint32_t priv1; }; uint32_t priv2; } wasmtime_table_t;
typedef struct { uint64_t store_id; uint32_t priv1, priv2, priv3; } wasmtime_global_t;
typedef struct { uint64_t store_id; size_t priv; } wasmtime_instance_t;
typedef union { wasmtime_func_t func; wasmtime_global_t global; wasmtime_table_t table; wasmtime_memory_t memory; void *pointer; } wasmtime_extern_union_t;
typedef struct { uint8_t kind; wasmtime_extern_union_t of; } wasmtime_extern_t;
typedef union { int32_t i32; int64_t i64; wasmtime_func_t funcref; uint8_t room[24]; void *align; } wasmtime_valunion_t;
typedef struct { uint8_t kind; wasmtime_valunion_t of; } wasmtime_val_t;
typedef union { int32_t i32; int64_t i64; uint64_t word[2]; } wasmtime_val_raw_t;
