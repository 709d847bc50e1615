// The part of wasmtime's C interface (v44) that the shim uses, and the shim's own functions.
// TestShimMatchesLibraryHeaders compiles both against the library's own headers, which then replace
// library.h.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef TROUPE_LIBRARY_HEADERS
#include <wasmtime.h>
typedef wasmtime_pooling_allocation_config_t wasmtime_pool_t;
#else
#include "library.h"
#endif

// How a run ended.
enum {
  TROUPE_DONE = 0,
  TROUPE_TRAP = 1,      // wasm trapped: code
  TROUPE_HOST = 2,      // a host function asked to stop
  TROUPE_FAULT = 3,     // anything else: error holds the text
  TROUPE_NO_EXPORT = 4, // the module lacks the method
  TROUPE_SHORT_STACK = 5, // not run: this thread has too little stack, and own_thread is not set
};

// The stage in which a trap arose.
enum { TROUPE_INSTANTIATE = 0, TROUPE_START = 1, TROUPE_METHOD = 2 };

typedef struct troupe_kept troupe_kept_t; // a reset instance that waits for the next call

// A call: its input, its result, and the state that its host calls need. It is in C memory, one per
// slot.
typedef struct {
  wasm_engine_t *engine;
  const wasmtime_instance_pre_t *pre;
  const char *method, *gas_name, *stack_name, *again_name;
  size_t method_len, gas_name_len, stack_name_len, again_name_len, max_stack;
  int64_t max_memory, max_elements;
  bool start; // run the export "start" first
  bool own_thread; // run on a new thread if this one has too little stack
  bool trace; // host function trace_index is put into the export "trace"
  uint32_t trace_index;
  uint32_t slot;
  bool keep; // keep a new instance for the next call, if it can be reset
  troupe_kept_t *kept; // in: the instance to run in, NULL: a new one; out: the one to keep, NULL: none
  int64_t gas; // in, out, and across each host call

  int64_t stack; // value of the stack global after a trap; else 0
  uint8_t status, stage, code;
  bool has_gas, has_memory, host_failed;
  wasmtime_error_t *error;
  wasmtime_memory_t memory;
  wasmtime_global_t gas_global;
} troupe_call_t;

#define TROUPE_MAX_STACK ((size_t)4 << 20) // engine.MaxStack

wasm_engine_t *troupe_engine_new(uint32_t instances, uint64_t reservation, uint64_t max_memory, uint64_t table_elements,
                                 size_t max_stack, size_t async_stack, bool winch, bool mapless);
bool troupe_has_strategy(void);
bool troupe_has_address_map(void);
bool troupe_can_reserve(uint64_t bytes);
wasmtime_linker_t *troupe_linker_new(wasm_engine_t *e);
wasmtime_error_t *troupe_link(wasmtime_linker_t *l, uint32_t index, const char *name, size_t name_len, const uint8_t *params,
                              size_t n_params, const uint8_t *results, size_t n_results);
void troupe_run(troupe_call_t *c);
void troupe_kept_delete(troupe_kept_t *k);
bool troupe_knows_pages(void);
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
