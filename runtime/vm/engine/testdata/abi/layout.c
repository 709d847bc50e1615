// library.h against the library's own headers: sizes, alignments and offsets of what the shim looks into.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wasmtime.h>

#define wasm_byte_vec_t own_wasm_byte_vec_t
#define wasm_valtype_vec_t own_wasm_valtype_vec_t
#define wasmtime_func_t own_wasmtime_func_t
#define wasmtime_memory_t own_wasmtime_memory_t
#define wasmtime_table_t own_wasmtime_table_t
#define wasmtime_global_t own_wasmtime_global_t
#define wasmtime_instance_t own_wasmtime_instance_t
#define wasmtime_extern_union_t own_wasmtime_extern_union_t
#define wasmtime_extern_t own_wasmtime_extern_t
#define wasmtime_valunion_t own_wasmtime_valunion_t
#define wasmtime_val_t own_wasmtime_val_t
#define wasmtime_val_raw_t own_wasmtime_val_raw_t
#include "../../library.h"
#undef wasm_byte_vec_t
#undef wasm_valtype_vec_t
#undef wasmtime_func_t
#undef wasmtime_memory_t
#undef wasmtime_table_t
#undef wasmtime_global_t
#undef wasmtime_instance_t
#undef wasmtime_extern_union_t
#undef wasmtime_extern_t
#undef wasmtime_valunion_t
#undef wasmtime_val_t
#undef wasmtime_val_raw_t

#define SAME(t) \
  _Static_assert(sizeof(t) == sizeof(own_##t), "size of " #t); \
  _Static_assert(_Alignof(t) == _Alignof(own_##t), "alignment of " #t)
#define AT(t, theirs, ours) _Static_assert(offsetof(t, theirs) == offsetof(own_##t, ours), "offset in " #t " of " #ours)

SAME(wasm_byte_vec_t);
SAME(wasm_valtype_vec_t);
SAME(wasmtime_func_t);
SAME(wasmtime_memory_t);
SAME(wasmtime_table_t);
SAME(wasmtime_global_t);
SAME(wasmtime_instance_t);
SAME(wasmtime_extern_t);
SAME(wasmtime_valunion_t);
SAME(wasmtime_val_t);
SAME(wasmtime_val_raw_t);
SAME(wasmtime_extern_union_t);
AT(wasm_byte_vec_t, size, size);
AT(wasm_byte_vec_t, data, data);
AT(wasm_valtype_vec_t, size, size);
AT(wasm_valtype_vec_t, data, data);
AT(wasmtime_func_t, store_id, store_id);
AT(wasmtime_func_t, __private, priv);
AT(wasmtime_memory_t, store_id, store_id);
AT(wasmtime_memory_t, __private1, priv1);
AT(wasmtime_memory_t, __private2, priv2);
AT(wasmtime_table_t, store_id, store_id);
AT(wasmtime_table_t, __private1, priv1);
AT(wasmtime_table_t, __private2, priv2);
AT(wasmtime_global_t, store_id, store_id);
AT(wasmtime_global_t, __private1, priv1);
AT(wasmtime_global_t, __private2, priv2);
AT(wasmtime_global_t, __private3, priv3);
AT(wasmtime_instance_t, store_id, store_id);
AT(wasmtime_instance_t, __private, priv);
AT(wasmtime_extern_t, kind, kind);
AT(wasmtime_extern_t, of, of);
AT(wasmtime_val_t, kind, kind);
AT(wasmtime_val_t, of, of);
AT(wasmtime_valunion_t, i32, i32);
AT(wasmtime_valunion_t, i64, i64);
AT(wasmtime_valunion_t, funcref, funcref);
AT(wasmtime_val_raw_t, i32, i32);
AT(wasmtime_val_raw_t, i64, i64);
