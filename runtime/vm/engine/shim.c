//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

// The shim makes one crossing into C per run and one out of it per host call. wasmtime's Go package
// crosses for every global, memory and value, takes two global locks per host call, and offers
// neither pooling nor InstancePre. The library that it links has all of that.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE // pthread_getattr_np
#endif
#include "shim.h"
#include "pages.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __APPLE__
#include <malloc/malloc.h>
#define allocated(p) malloc_size(p)
#else
#include <malloc.h>
#define allocated(p) malloc_usable_size(p)
#endif

typedef wasm_trap_t *(*wasmtime_func_unchecked_callback_t)(void *, wasmtime_caller_t *, wasmtime_val_raw_t *, size_t);

wasm_config_t *wasm_config_new(void);
wasm_engine_t *wasm_engine_new_with_config(wasm_config_t *);
void wasm_config_delete(wasm_config_t *);
void wasmtime_config_strategy_set(wasm_config_t *, uint8_t);
void wasmtime_config_max_wasm_stack_set(wasm_config_t *, size_t);
void wasmtime_config_async_stack_size_set(wasm_config_t *, uint64_t);
void wasmtime_config_cranelift_opt_level_set(wasm_config_t *, uint8_t);
void wasmtime_config_cranelift_nan_canonicalization_set(wasm_config_t *, bool);
void wasmtime_config_parallel_compilation_set(wasm_config_t *, bool);
void wasmtime_config_native_unwind_info_set(wasm_config_t *, bool);
void wasmtime_config_memory_may_move_set(wasm_config_t *, bool);
void wasmtime_config_wasm_relaxed_simd_deterministic_set(wasm_config_t *, bool);
void wasmtime_config_memory_reservation_set(wasm_config_t *, uint64_t);
void wasmtime_config_memory_reservation_for_growth_set(wasm_config_t *, uint64_t);
void wasmtime_config_memory_init_cow_set(wasm_config_t *, bool);
void wasmtime_config_wasm_simd_set(wasm_config_t *, bool);
void wasmtime_config_wasm_relaxed_simd_set(wasm_config_t *, bool);
void wasmtime_config_wasm_threads_set(wasm_config_t *, bool);
void wasmtime_config_wasm_multi_value_set(wasm_config_t *, bool);
void wasmtime_config_wasm_multi_memory_set(wasm_config_t *, bool);
void wasmtime_config_wasm_memory64_set(wasm_config_t *, bool);
void wasmtime_config_wasm_tail_call_set(wasm_config_t *, bool);
void wasmtime_config_wasm_gc_set(wasm_config_t *, bool);
void wasmtime_config_gc_support_set(wasm_config_t *, bool);
void wasmtime_config_wasm_function_references_set(wasm_config_t *, bool);

wasmtime_pool_t *wasmtime_pooling_allocation_config_new(void);
void wasmtime_pooling_allocation_config_delete(wasmtime_pool_t *);
void wasmtime_pooling_allocation_config_total_core_instances_set(wasmtime_pool_t *, uint32_t);
void wasmtime_pooling_allocation_config_total_memories_set(wasmtime_pool_t *, uint32_t);
void wasmtime_pooling_allocation_config_total_tables_set(wasmtime_pool_t *, uint32_t);
void wasmtime_pooling_allocation_config_max_tables_per_module_set(wasmtime_pool_t *, uint32_t);
void wasmtime_pooling_allocation_config_max_memories_per_module_set(wasmtime_pool_t *, uint32_t);
void wasmtime_pooling_allocation_config_total_component_instances_set(wasmtime_pool_t *, uint32_t);
void wasmtime_pooling_allocation_config_total_stacks_set(wasmtime_pool_t *, uint32_t);
void wasmtime_pooling_allocation_config_total_gc_heaps_set(wasmtime_pool_t *, uint32_t);
void wasmtime_pooling_allocation_config_max_core_instance_size_set(wasmtime_pool_t *, size_t);
void wasmtime_pooling_allocation_config_max_memory_size_set(wasmtime_pool_t *, size_t);
void wasmtime_pooling_allocation_config_table_elements_set(wasmtime_pool_t *, size_t);
void wasmtime_pooling_allocation_config_max_unused_warm_slots_set(wasmtime_pool_t *, uint32_t);
void wasmtime_pooling_allocation_config_linear_memory_keep_resident_set(wasmtime_pool_t *, size_t);
void wasmtime_pooling_allocation_config_table_keep_resident_set(wasmtime_pool_t *, size_t);
void wasmtime_pooling_allocation_strategy_set(wasm_config_t *, const wasmtime_pool_t *);

wasm_valtype_t *wasm_valtype_new(uint8_t);
void wasm_valtype_vec_new(wasm_valtype_vec_t *, size_t, wasm_valtype_t *const *);
wasm_functype_t *wasm_functype_new(wasm_valtype_vec_t *, wasm_valtype_vec_t *);
void wasm_functype_delete(wasm_functype_t *);
wasmtime_linker_t *wasmtime_linker_new(wasm_engine_t *);
wasmtime_error_t *wasmtime_linker_define_func_unchecked(wasmtime_linker_t *, const char *, size_t, const char *, size_t,
                                                        const wasm_functype_t *, wasmtime_func_unchecked_callback_t, void *,
                                                        void (*)(void *));

wasmtime_store_t *wasmtime_store_new(wasm_engine_t *, void *, void (*)(void *));
void wasmtime_store_delete(wasmtime_store_t *);
wasmtime_context_t *wasmtime_store_context(wasmtime_store_t *);
void wasmtime_store_limiter(wasmtime_store_t *, int64_t, int64_t, int64_t, int64_t, int64_t);
void wasmtime_context_set_data(wasmtime_context_t *, void *);
void *wasmtime_context_get_data(const wasmtime_context_t *);
wasmtime_context_t *wasmtime_caller_context(wasmtime_caller_t *);
wasmtime_error_t *wasmtime_instance_pre_instantiate(const wasmtime_instance_pre_t *, wasmtime_context_t *, wasmtime_instance_t *,
                                                    wasm_trap_t **);
bool wasmtime_instance_export_get(wasmtime_context_t *, const wasmtime_instance_t *, const char *, size_t, wasmtime_extern_t *);
wasmtime_error_t *wasmtime_func_call_unchecked(wasmtime_context_t *, const wasmtime_func_t *, wasmtime_val_raw_t *, size_t,
                                               wasm_trap_t **);
void wasmtime_global_get(wasmtime_context_t *, const wasmtime_global_t *, wasmtime_val_t *);
wasmtime_error_t *wasmtime_global_set(wasmtime_context_t *, const wasmtime_global_t *, const wasmtime_val_t *);
uint8_t *wasmtime_memory_data(const wasmtime_context_t *, const wasmtime_memory_t *);
size_t wasmtime_memory_data_size(const wasmtime_context_t *, const wasmtime_memory_t *);
void wasmtime_func_new_unchecked(wasmtime_context_t *, const wasm_functype_t *, wasmtime_func_unchecked_callback_t, void *,
                                 void (*)(void *), wasmtime_func_t *);
wasmtime_error_t *wasmtime_table_set(wasmtime_context_t *, const wasmtime_table_t *, uint64_t, const wasmtime_val_t *);
wasm_trap_t *wasmtime_trap_new(const char *, size_t);
bool wasmtime_trap_code(const wasm_trap_t *, uint8_t *);
void wasm_trap_delete(wasm_trap_t *);
void wasmtime_error_message(const wasmtime_error_t *, wasm_byte_vec_t *);
void wasmtime_error_delete(wasmtime_error_t *);
wasmtime_error_t *wasmtime_error_new(const char *);

// In Go: runs a host function. False asks for a trap.
extern bool troupeHostCall(uint32_t slot, uint32_t index, void *args, uint8_t *memory, size_t memory_len, int64_t *gas);

enum { KIND_FUNC = 0, KIND_GLOBAL = 1, KIND_TABLE = 2, KIND_MEMORY = 3, VALUE_I32 = 0, VALUE_I64 = 1, VALUE_FUNCREF = 5, OPT_NONE = 0 };

// Stack, data and the first of the heap of contracts with a stack of 64 KiB.
#define KEEP_RESIDENT (80 << 10)

enum { STRATEGY_CRANELIFT = 1, STRATEGY_WINCH = 2 };

// strategy finds where a configuration stores the code generator: the only byte that
// wasmtime_config_strategy_set sets back after it was changed. NULL: there is no such byte, or more
// than one. The library has Winch, but its C interface has no name for it.
static uint8_t *strategy(wasm_config_t *c) {
  uint8_t *bytes = (uint8_t *)c, *found = NULL;
  wasmtime_config_strategy_set(c, STRATEGY_CRANELIFT);
  for (size_t n = allocated(c), i = 0; i < n; i++) {
    if (bytes[i] != STRATEGY_CRANELIFT) continue;
    bytes[i] = STRATEGY_WINCH;
    wasmtime_config_strategy_set(c, STRATEGY_CRANELIFT);
    if (bytes[i] != STRATEGY_CRANELIFT) {
      bytes[i] = STRATEGY_CRANELIFT;
      continue;
    }
    if (found != NULL) return NULL;
    found = &bytes[i];
  }
  return found;
}

bool troupe_has_strategy(void) {
  wasm_config_t *c = wasm_config_new();
  bool has = strategy(c) != NULL;
  wasm_config_delete(c);
  return has;
}

enum { UNSET = 2 }; // value of an unset configuration flag: neither false nor true

// choice finds the byte of a configuration that set makes false, and leaves it unset. NULL: there
// is no such byte, or more than one.
static uint8_t *choice(wasm_config_t *c, void (*set)(wasm_config_t *, bool)) {
  uint8_t *bytes = (uint8_t *)c, *found = NULL;
  size_t n = allocated(c);
  uint8_t *was = malloc(n);
  if (was == NULL) return NULL;
  memcpy(was, bytes, n);
  set(c, false);
  size_t changed = 0;
  for (size_t i = 0; i < n; i++) {
    if (bytes[i] == was[i]) continue;
    changed++;
    if (was[i] == UNSET && bytes[i] == false) found = &bytes[i];
  }
  free(was);
  if (found != NULL) *found = UNSET;
  return changed == 1 ? found : NULL;
}

// address_map finds where a configuration stores whether to make the table that maps machine code
// to wasm. In the library it is the fourth of six adjacent settings, of which the first and the
// last have names in the C interface. NULL: they are not adjacent, or some are already set.
static uint8_t *address_map(wasm_config_t *c) {
  uint8_t *first = choice(c, wasmtime_config_memory_may_move_set), *last = choice(c, wasmtime_config_wasm_relaxed_simd_deterministic_set);
  if (first == NULL || last != first + 5) return NULL;
  for (uint8_t *p = first; p <= last; p++)
    if (*p != UNSET) return NULL;
  return first + 3;
}

bool troupe_has_address_map(void) {
  wasm_config_t *c = wasm_config_new();
  bool has = address_map(c) != NULL;
  wasm_config_delete(c);
  return has;
}

wasm_engine_t *troupe_engine_new(uint32_t instances, uint64_t reservation, uint64_t max_memory, uint64_t table_elements,
                                 size_t max_stack, size_t async_stack, bool winch, bool mapless) {
  wasm_config_t *c = wasm_config_new();
  uint8_t *map = mapless ? address_map(c) : NULL;
  if (map != NULL) *map = false;
  uint8_t *generator = winch ? strategy(c) : NULL;
  if (generator != NULL) *generator = STRATEGY_WINCH;
  // The library aborts the process if the first exceeds the second, so the second is set first.
  wasmtime_config_async_stack_size_set(c, async_stack);
  wasmtime_config_max_wasm_stack_set(c, max_stack);
  wasmtime_config_cranelift_opt_level_set(c, OPT_NONE);
  wasmtime_config_cranelift_nan_canonicalization_set(c, false); // prepared modules do it
  wasmtime_config_parallel_compilation_set(c, false);
  wasmtime_config_native_unwind_info_set(c, false);
  wasmtime_config_memory_may_move_set(c, false);
  wasmtime_config_memory_reservation_set(c, reservation);
  wasmtime_config_memory_reservation_for_growth_set(c, 0);
  wasmtime_config_memory_init_cow_set(c, true);
  wasmtime_config_wasm_relaxed_simd_set(c, false);
  wasmtime_config_wasm_simd_set(c, false);
  wasmtime_config_wasm_threads_set(c, false);
  wasmtime_config_wasm_multi_value_set(c, false);
  wasmtime_config_wasm_multi_memory_set(c, true); // prepared modules may have one of their own
  wasmtime_config_wasm_memory64_set(c, false);
  wasmtime_config_wasm_tail_call_set(c, false);
  wasmtime_config_wasm_gc_set(c, false);
  wasmtime_config_wasm_function_references_set(c, false);
  wasmtime_config_gc_support_set(c, false);

  wasmtime_pool_t *p = wasmtime_pooling_allocation_config_new();
  wasmtime_pooling_allocation_config_total_core_instances_set(p, instances);
  // A prepared module may have one memory more than its contract, and three more tables: for
  // places, for a trace, for function references.
  wasmtime_pooling_allocation_config_total_memories_set(p, 2 * instances);
  wasmtime_pooling_allocation_config_max_memories_per_module_set(p, 2);
  wasmtime_pooling_allocation_config_total_tables_set(p, 4 * instances);
  wasmtime_pooling_allocation_config_max_tables_per_module_set(p, 4);
  wasmtime_pooling_allocation_config_total_component_instances_set(p, 0);
  wasmtime_pooling_allocation_config_total_stacks_set(p, 0);
  wasmtime_pooling_allocation_config_total_gc_heaps_set(p, 0);
  // The first part of a memory, and each table, is cleared when an instance ends and not returned
  // to the system. Returning it and faulting it in again takes longer, and interrupts threads on
  // other cores each time.
  wasmtime_pooling_allocation_config_linear_memory_keep_resident_set(p, KEEP_RESIDENT);
  wasmtime_pooling_allocation_config_table_keep_resident_set(p, KEEP_RESIDENT);
  // Modules that are too large to load are rejected before they get here.
  wasmtime_pooling_allocation_config_max_core_instance_size_set(p, (size_t)64 << 20);
  wasmtime_pooling_allocation_config_max_memory_size_set(p, max_memory);
  wasmtime_pooling_allocation_config_table_elements_set(p, table_elements);
  wasmtime_pooling_allocation_strategy_set(c, p);
  wasmtime_pooling_allocation_config_delete(p);
  // The library starts a log of its own with the first engine, and writes what RUST_LOG asks for to
  // stderr, in another form than the node's log, for which the variable is meant. Go has a copy of
  // the environment, so the node and its child processes still see the variable.
  unsetenv("RUST_LOG");
  return wasm_engine_new_with_config(c);
}

bool troupe_can_reserve(uint64_t bytes) {
  void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, bytes);
  return true;
}

troupe_call_t *troupe_calls_new(uint32_t n) { return calloc(n, sizeof(troupe_call_t)); }

static wasm_trap_t *host_call(void *env, wasmtime_caller_t *caller, wasmtime_val_raw_t *args, size_t n) {
  (void)n;
  wasmtime_context_t *cx = wasmtime_caller_context(caller);
  troupe_call_t *c = wasmtime_context_get_data(cx);
  uint8_t *memory = NULL;
  size_t memory_len = 0;
  wasmtime_val_t v = {.kind = VALUE_I64};
  if (c->has_gas) {
    wasmtime_global_get(cx, &c->gas_global, &v);
    c->gas = v.of.i64;
  }
  if (c->has_memory) {
    memory = wasmtime_memory_data(cx, &c->memory);
    memory_len = wasmtime_memory_data_size(cx, &c->memory);
  }
  bool ok = troupeHostCall(c->slot, (uint32_t)(uintptr_t)env, args, memory, memory_len, &c->gas);
  if (c->has_gas) {
    v.of.i64 = c->gas;
    wasmtime_error_t *err = wasmtime_global_set(cx, &c->gas_global, &v);
    if (err != NULL) { // the global is not a mutable i64
      if (c->error == NULL) c->error = err;
      else wasmtime_error_delete(err);
      ok = false;
    }
  }
  if (ok) return NULL;
  c->host_failed = true;
  return wasmtime_trap_new("host", 4);
}

wasmtime_linker_t *troupe_linker_new(wasm_engine_t *e) { return wasmtime_linker_new(e); }

static void types(wasm_valtype_vec_t *out, const uint8_t *kinds, size_t n) {
  wasm_valtype_t *t[32];
  for (size_t i = 0; i < n; i++) t[i] = wasm_valtype_new(kinds[i]);
  wasm_valtype_vec_new(out, n, t);
}

wasmtime_error_t *troupe_link(wasmtime_linker_t *l, uint32_t index, const char *name, size_t name_len, const uint8_t *params,
                              size_t n_params, const uint8_t *results, size_t n_results) {
  wasm_valtype_vec_t p, r;
  types(&p, params, n_params);
  types(&r, results, n_results);
  wasm_functype_t *ty = wasm_functype_new(&p, &r);
  wasmtime_error_t *err =
      wasmtime_linker_define_func_unchecked(l, "env", 3, name, name_len, ty, host_call, (void *)(uintptr_t)index, NULL);
  wasm_functype_delete(ty);
  return err;
}

// ended records how a step of a run ended. It returns true if the run continues.
static bool ended(troupe_call_t *c, uint8_t stage, wasmtime_error_t *err, wasm_trap_t *trap) {
  c->stage = stage;
  if (err == NULL && trap == NULL) return true;
  if (c->error != NULL) {
    c->status = TROUPE_FAULT;
  } else if (c->host_failed) {
    c->status = TROUPE_HOST;
  } else if (trap != NULL && wasmtime_trap_code(trap, &c->code)) {
    c->status = TROUPE_TRAP;
  } else {
    c->status = TROUPE_FAULT;
    c->error = err;
    err = NULL;
  }
  if (err != NULL) wasmtime_error_delete(err);
  if (trap != NULL) wasm_trap_delete(trap);
  return false;
}

static bool call(troupe_call_t *c, uint8_t stage, wasmtime_context_t *cx, const wasmtime_instance_t *in, const char *name,
                 size_t name_len) {
  wasmtime_extern_t e;
  if (!wasmtime_instance_export_get(cx, in, name, name_len, &e) || e.kind != KIND_FUNC) {
    c->status = TROUPE_NO_EXPORT;
    c->stage = stage;
    return false;
  }
  wasmtime_val_raw_t none[1] = {{0}};
  wasm_trap_t *trap = NULL;
  wasmtime_error_t *err = wasmtime_func_call_unchecked(cx, &e.of.func, none, 1, &trap);
  return ended(c, stage, err, trap);
}

// set_trace gives a traced module the function through which it reports the functions it runs.
static wasmtime_error_t *set_trace(troupe_call_t *c, wasmtime_context_t *cx, const wasmtime_instance_t *in) {
  wasmtime_extern_t e;
  if (!wasmtime_instance_export_get(cx, in, "trace", 5, &e) || e.kind != KIND_TABLE) {
    return wasmtime_error_new("not a traced module");
  }
  static const uint8_t i32 = VALUE_I32;
  wasm_valtype_vec_t p, r;
  types(&p, &i32, 1);
  types(&r, NULL, 0);
  wasm_functype_t *ty = wasm_functype_new(&p, &r);
  wasmtime_val_t v = {.kind = VALUE_FUNCREF};
  wasmtime_func_new_unchecked(cx, ty, host_call, (void *)(uintptr_t)c->trace_index, NULL, &v.of.funcref);
  wasm_functype_delete(ty);
  return wasmtime_table_set(cx, &e.of.table, 0, &v);
}

// Above LARGE_FROM a memory uses large pages, where the system has them. A contract that touches a
// byte in each small page of 128 MiB causes one fault per page, and pays for only a few
// instructions at each. Below LARGE_FROM, where ordinary contracts keep all of their data, clearing
// a large page would take longer than clearing the few small ones that are touched.
#define LARGE_FROM ((size_t)2 << 20)

// The system remembers the advice for a slot of the pool until a module with other data uses the
// slot. So the advice is given once per slot and module: each time takes a lock that all threads
// share, longer than the rest of a short call. A forgotten or wrong entry only costs time.
#define TOLD 4096
static _Atomic(uintptr_t) told[TOLD];

static void use_large_pages(const wasmtime_context_t *cx, const wasmtime_memory_t *m, const void *module, size_t max_memory) {
#ifdef MADV_HUGEPAGE
  uintptr_t from = (uintptr_t)wasmtime_memory_data(cx, m), end = from + max_memory;
  uintptr_t key = (from >> 12) * (uintptr_t)0x9e3779b97f4a7c15 ^ (uintptr_t)module;
  _Atomic(uintptr_t) *at = &told[(from >> 16) * (uintptr_t)0x9e3779b97f4a7c15 >> (8 * sizeof(uintptr_t) - 12)];
  if (atomic_load_explicit(at, memory_order_relaxed) == key) return;
  atomic_store_explicit(at, key, memory_order_relaxed);
  from = (from + LARGE_FROM + LARGE_FROM - 1) & ~(LARGE_FROM - 1);
  madvise((void *)from, end - from, MADV_HUGEPAGE);
#else
  (void)cx, (void)m, (void)module, (void)max_memory;
#endif
}

// MOST_GLOBALS is prep's mostAgainGlobals plus one for the stack.
#define MOST_GLOBALS 9

struct troupe_kept {
  wasmtime_store_t *store;
  wasmtime_instance_t in;
  bool has_gas, has_memory;
  wasmtime_memory_t memory;
  wasmtime_global_t gas_global;
  wasmtime_global_t globals[MOST_GLOBALS]; // the mutable ones, with their initial values
  wasmtime_val_t values[MOST_GLOBALS];
  size_t n;
  uint8_t *base; // of the memory, with its initial size
  size_t size;
  size_t from, len; // range that data covers, with its initial content
  uint8_t data[];
};

void troupe_kept_delete(troupe_kept_t *k) {
  wasmtime_store_delete(k->store);
  free(k);
}

// keepable records the state of a new instance, so that it can be reset. NULL: it cannot be reset.
static troupe_kept_t *keepable(const troupe_call_t *c, wasmtime_store_t *store, const wasmtime_instance_t *in) {
  wasmtime_context_t *cx = wasmtime_store_context(store);
  wasmtime_extern_t e;
  wasmtime_val_t v;
  if (!c->has_gas || !wasmtime_instance_export_get(cx, in, c->again_name, c->again_name_len, &e) || e.kind != KIND_GLOBAL) return NULL;
  wasmtime_global_get(cx, &e.of.global, &v);
  size_t from = (uint32_t)v.of.i64, end = (uint64_t)v.of.i64 >> 32;
  uint8_t *base = c->has_memory ? wasmtime_memory_data(cx, &c->memory) : NULL;
  size_t size = c->has_memory ? wasmtime_memory_data_size(cx, &c->memory) : 0;
  if (v.kind != VALUE_I64 || from > end || end > size) return NULL;
  troupe_kept_t *k = calloc(1, sizeof *k + (end - from));
  if (k == NULL) return NULL;
  *k = (troupe_kept_t){.store = store, .in = *in, .has_gas = c->has_gas, .has_memory = c->has_memory, .memory = c->memory,
                       .gas_global = c->gas_global, .base = base, .size = size, .from = from, .len = end - from};
  char name[64];
  size_t len = c->again_name_len < sizeof name - 1 ? c->again_name_len : sizeof name - 1;
  memcpy(name, c->again_name, len);
  for (char digit = '0'; k->n < MOST_GLOBALS - 1; k->n++, digit++) {
    name[len] = digit;
    if (!wasmtime_instance_export_get(cx, in, name, len + 1, &e) || e.kind != KIND_GLOBAL) break;
    k->globals[k->n] = e.of.global;
  }
  if (wasmtime_instance_export_get(cx, in, c->stack_name, c->stack_name_len, &e) && e.kind == KIND_GLOBAL) k->globals[k->n++] = e.of.global;
  for (size_t i = 0; i < k->n; i++) wasmtime_global_get(cx, &k->globals[i], &k->values[i]);
  if (k->len > 0) memcpy(k->data, base + from, k->len);
  return k;
}

// set_back resets an instance to its initial state. It returns false if that failed.
static bool set_back(troupe_kept_t *k) {
  wasmtime_context_t *cx = wasmtime_store_context(k->store);
  for (size_t i = 0; i < k->n; i++) {
    wasmtime_error_t *err = wasmtime_global_set(cx, &k->globals[i], &k->values[i]);
    if (err != NULL) {
      wasmtime_error_delete(err);
      return false;
    }
  }
  if (!k->has_memory) return true;
  return wasmtime_memory_data_size(cx, &k->memory) == k->size && wasmtime_memory_data(cx, &k->memory) == k->base &&
         troupe_set_back(k->base, k->size, k->from, k->data, k->len);
}

// instance makes a new instance for a call.
static bool instance(troupe_call_t *c, wasmtime_store_t *store, wasmtime_instance_t *in) {
  wasmtime_context_t *cx = wasmtime_store_context(store);
  wasmtime_store_limiter(store, c->max_memory, c->max_elements, 1, 4, 2);
  c->has_gas = c->has_memory = false;
  wasm_trap_t *trap = NULL;
  wasmtime_error_t *err = wasmtime_instance_pre_instantiate(c->pre, cx, in, &trap);
  if (!ended(c, TROUPE_INSTANTIATE, err, trap)) return false;
  wasmtime_extern_t e;
  if (wasmtime_instance_export_get(cx, in, "memory", 6, &e) && e.kind == KIND_MEMORY) {
    c->memory = e.of.memory;
    c->has_memory = true;
    use_large_pages(cx, &c->memory, c->pre, c->max_memory);
  }
  if (wasmtime_instance_export_get(cx, in, c->gas_name, c->gas_name_len, &e) && e.kind == KIND_GLOBAL) {
    c->gas_global = e.of.global;
    c->has_gas = true;
  }
  return true;
}

static void run(troupe_call_t *c) {
  troupe_kept_t *k = c->kept;
  wasmtime_store_t *store = k != NULL ? k->store : wasmtime_store_new(c->engine, c, NULL);
  wasmtime_context_t *cx = wasmtime_store_context(store);
  wasmtime_instance_t in;
  c->kept = NULL;
  c->status = TROUPE_DONE;
  c->host_failed = false;
  c->error = NULL;
  c->code = 0;
  c->stack = 0;
  if (k != NULL) {
    in = k->in;
    c->has_gas = k->has_gas, c->has_memory = k->has_memory;
    c->memory = k->memory, c->gas_global = k->gas_global;
    wasmtime_context_set_data(cx, c);
  } else {
    if (!instance(c, store, &in)) goto out;
    if (c->keep) k = keepable(c, store, &in);
  }

  wasmtime_extern_t e;
  wasmtime_val_t v = {.kind = VALUE_I64};
  if (c->has_gas) {
    v.of.i64 = c->gas;
    if (!ended(c, TROUPE_INSTANTIATE, wasmtime_global_set(cx, &c->gas_global, &v), NULL)) goto out;
  }
  if (c->trace && !ended(c, TROUPE_INSTANTIATE, set_trace(c, cx, &in), NULL)) goto out;
  if (!c->start || call(c, TROUPE_START, cx, &in, "start", 5)) call(c, TROUPE_METHOD, cx, &in, c->method, c->method_len);
  if (c->has_gas) {
    wasmtime_global_get(cx, &c->gas_global, &v);
    c->gas = v.of.i64;
  }
  // Only after a trap it matters whether the stack was exhausted.
  if (c->status == TROUPE_TRAP && wasmtime_instance_export_get(cx, &in, c->stack_name, c->stack_name_len, &e) && e.kind == KIND_GLOBAL) {
    wasmtime_global_get(cx, &e.of.global, &v);
    c->stack = v.of.i64;
  }
out:
  if (k != NULL && c->status == TROUPE_DONE && set_back(k)) c->kept = k;
  else if (k != NULL) troupe_kept_delete(k);
  else wasmtime_store_delete(store);
}

// stack_left returns how much of this thread's stack is free; 0 if unknown.
static size_t stack_left(void) {
  static __thread uintptr_t low;
  char here;
  if (low == 0) {
#ifdef __APPLE__
    pthread_t me = pthread_self();
    low = (uintptr_t)pthread_get_stackaddr_np(me) - pthread_get_stacksize_np(me);
#else
    pthread_attr_t attr;
    void *addr = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attr) != 0) return 0;
    if (pthread_attr_getstack(&attr, &addr, &size) == 0) low = (uintptr_t)addr;
    pthread_attr_destroy(&attr);
#endif
  }
  return low == 0 || (uintptr_t)&here < low ? 0 : (uintptr_t)&here - low;
}

static void *run_thread(void *c) {
  run(c);
  return NULL;
}

// Host functions and the library itself need some stack below what wasm may use.
#define STACK_SPARE ((size_t)512 << 10)

// Threads made by Go get as much stack as a run may need, whatever the shell's limit is. The stack
// is mapped, and takes memory only where a run uses it.
static void thread_stacks(size_t size) {
#if defined(__GLIBC__)
  pthread_attr_t attr;
  if (pthread_attr_init(&attr) != 0) return;
  if (pthread_attr_setstacksize(&attr, size) == 0) pthread_setattr_default_np(&attr);
  pthread_attr_destroy(&attr);
#else
  (void)size;
#endif
}

__attribute__((constructor)) static void roomy_threads(void) { thread_stacks(TROUPE_MAX_STACK + 2 * STACK_SPARE); }

// troupe_thread_stack returns the default stack size of threads, which those made by Go have; 0 if
// unknown.
size_t troupe_thread_stack(void) {
  pthread_attr_t attr;
  size_t size = 0;
  if (pthread_attr_init(&attr) != 0) return 0;
  if (pthread_attr_getstacksize(&attr, &size) != 0) size = 0;
  pthread_attr_destroy(&attr);
  return size;
}

size_t troupe_stack_spare(void) { return STACK_SPARE; }

void troupe_run(troupe_call_t *c) {
  if (stack_left() >= c->max_stack + STACK_SPARE) {
    run(c);
    return;
  }
  if (!c->own_thread) {
    c->status = TROUPE_SHORT_STACK;
    return;
  }
  pthread_attr_t attr;
  pthread_t t;
  pthread_attr_init(&attr);
  if (pthread_attr_setstacksize(&attr, c->max_stack + 2 * STACK_SPARE) != 0 || pthread_create(&t, &attr, run_thread, c) != 0) {
    c->status = TROUPE_FAULT;
    c->stage = TROUPE_INSTANTIATE;
    c->error = wasmtime_error_new("no thread with a stack that is large enough");
  } else {
    pthread_join(t, NULL);
  }
  pthread_attr_destroy(&attr);
}

size_t troupe_error_text(wasmtime_error_t *e, char *out, size_t cap) {
  wasm_byte_vec_t m;
  wasmtime_error_message(e, &m);
  size_t n = m.size < cap ? m.size : cap;
  memcpy(out, m.data, n);
  wasm_byte_vec_delete(&m);
  wasmtime_error_delete(e);
  return n;
}
