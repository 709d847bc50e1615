// The part of wasmtime's C interface (v44) that the shim uses, declared here because its headers are not on this package's
// include path, and the shim's own functions. shim.go checks the sizes that the Go package can tell.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

_Static_assert(sizeof(wasmtime_val_raw_t) == 16, "a raw value is 16 bytes");
_Static_assert(sizeof(wasmtime_extern_t) == 32, "an extern is 32 bytes");
_Static_assert(sizeof(wasmtime_val_t) == 32, "a value is 32 bytes");

// How a run ended.
enum {
  TROUPE_DONE = 0,
  TROUPE_TRAP = 1,      // wasm trapped: code
  TROUPE_HOST = 2,      // a host function asked to stop
  TROUPE_FAULT = 3,     // anything else: error holds the text
  TROUPE_NO_EXPORT = 4, // the module lacks the method
};

// Where a trap arose.
enum { TROUPE_INSTANTIATE = 0, TROUPE_START = 1, TROUPE_METHOD = 2 };

// A call: what a run is given, what it gives back, and what its host calls need. It lies in C memory, one for each slot.
typedef struct {
  const wasm_engine_t *engine;
  const wasmtime_instance_pre_t *pre;
  const char *method, *gas_name, *stack_name;
  size_t method_len, gas_name_len, stack_name_len, max_stack;
  int64_t max_memory, max_elements;
  bool start; // run the export "start" first
  bool trace; // host function number trace_index goes into the export "trace"
  uint32_t trace_index;
  uint32_t slot;
  int64_t gas; // in, out, and across each host call

  int64_t stack; // of the stack global at the end
  uint8_t status, stage, code;
  bool has_gas, has_stack, has_memory, host_failed;
  wasmtime_error_t *error;
  wasmtime_memory_t memory;
  wasmtime_global_t gas_global, stack_global;
} troupe_call_t;

wasm_engine_t *troupe_engine_new(uint32_t instances, uint64_t reservation, uint64_t max_memory, uint64_t table_elements,
                                 size_t max_stack, size_t async_stack);
bool troupe_can_reserve(uint64_t bytes);
wasmtime_linker_t *troupe_linker_new(wasm_engine_t *e);
wasmtime_error_t *troupe_link(wasmtime_linker_t *l, uint32_t index, const char *name, size_t name_len, const uint8_t *params,
                              size_t n_params, const uint8_t *results, size_t n_results);
void troupe_run(troupe_call_t *c);
size_t troupe_error_text(wasmtime_error_t *e, char *out, size_t cap); // deletes e
size_t troupe_thread_stack(void);
size_t troupe_stack_spare(void);
troupe_call_t *troupe_calls_new(uint32_t n);

wasmtime_error_t *wasmtime_module_new(wasm_engine_t *, const uint8_t *, size_t, wasmtime_module_t **);
wasmtime_error_t *wasmtime_module_serialize(wasmtime_module_t *, wasm_byte_vec_t *);
wasmtime_error_t *wasmtime_module_deserialize(wasm_engine_t *, const uint8_t *, size_t, wasmtime_module_t **);
wasmtime_error_t *wasmtime_module_deserialize_file(wasm_engine_t *, const char *, wasmtime_module_t **);
wasmtime_error_t *wasmtime_linker_instantiate_pre(const wasmtime_linker_t *, const wasmtime_module_t *,
                                                  wasmtime_instance_pre_t **);
void wasmtime_module_delete(wasmtime_module_t *);
void wasmtime_instance_pre_delete(wasmtime_instance_pre_t *);
void wasmtime_linker_delete(wasmtime_linker_t *);
void wasm_engine_delete(wasm_engine_t *);
void wasm_byte_vec_delete(wasm_byte_vec_t *);
