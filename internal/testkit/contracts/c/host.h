// The host functions that the contracts call, as protocol 86 has them. All arguments are 64 bits wide: lengths, addresses,
// numbers of registers and promises. Amounts are addresses of 16 bytes.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned __int128 u128;

#define HOST(result, name, ...) __attribute__((import_module("env"), import_name(#name))) extern result name(__VA_ARGS__)

HOST(void, read_register, u64 reg, u64 ptr);
HOST(u64, register_len, u64 reg);
HOST(void, write_register, u64 reg, u64 len, u64 ptr);
HOST(void, current_account_id, u64 reg);
HOST(void, signer_account_id, u64 reg);
HOST(void, predecessor_account_id, u64 reg);
HOST(void, input, u64 reg);
HOST(u64, block_index, void);
HOST(u64, storage_usage, void);
HOST(void, account_balance, u64 ptr);
HOST(void, attached_deposit, u64 ptr);
HOST(u64, prepaid_gas, void);
HOST(u64, used_gas, void);
HOST(void, sha256, u64 len, u64 ptr, u64 reg);
HOST(void, value_return, u64 len, u64 ptr);
HOST(_Noreturn void, panic, void);
HOST(_Noreturn void, panic_utf8, u64 len, u64 ptr);
HOST(_Noreturn void, abort, u32 msg, u32 file, u32 line, u32 col);
HOST(void, log_utf8, u64 len, u64 ptr);
HOST(void, log_utf16, u64 len, u64 ptr);
HOST(u64, storage_write, u64 klen, u64 kptr, u64 vlen, u64 vptr, u64 reg);
HOST(u64, storage_read, u64 klen, u64 kptr, u64 reg);
HOST(u64, storage_remove, u64 klen, u64 kptr, u64 reg);
HOST(u64, storage_has_key, u64 klen, u64 kptr);
HOST(u64, storage_iter_prefix, u64 len, u64 ptr);
HOST(u64, promise_create, u64 alen, u64 aptr, u64 mlen, u64 mptr, u64 len, u64 ptr, u64 amount, u64 gas);
HOST(u64, promise_then, u64 after, u64 alen, u64 aptr, u64 mlen, u64 mptr, u64 len, u64 ptr, u64 amount, u64 gas);
HOST(u64, promise_and, u64 ptr, u64 n);
HOST(u64, promise_batch_create, u64 alen, u64 aptr);
HOST(u64, promise_batch_then, u64 after, u64 alen, u64 aptr);
HOST(void, promise_set_refund_to, u64 promise, u64 alen, u64 aptr);
HOST(void, promise_batch_action_create_account, u64 promise);
HOST(void, promise_batch_action_deploy_contract, u64 promise, u64 len, u64 ptr);
HOST(void, promise_batch_action_deploy_global_contract, u64 promise, u64 len, u64 ptr);
HOST(void, promise_batch_action_use_global_contract, u64 promise, u64 len, u64 ptr);
HOST(void, promise_batch_action_function_call, u64 promise, u64 mlen, u64 mptr, u64 len, u64 ptr, u64 amount, u64 gas);
HOST(void, promise_batch_action_function_call_weight, u64 promise, u64 mlen, u64 mptr, u64 len, u64 ptr, u64 amount, u64 gas, u64 weight);
HOST(void, promise_batch_action_transfer, u64 promise, u64 amount);
HOST(void, promise_batch_action_add_key_with_full_access, u64 promise, u64 len, u64 ptr, u64 nonce);
HOST(void, promise_batch_action_delete_account, u64 promise, u64 alen, u64 aptr);
HOST(u64, promise_results_count, void);
HOST(u64, promise_result, u64 i, u64 reg);
HOST(void, promise_return, u64 promise);
HOST(u64, promise_yield_create, u64 mlen, u64 mptr, u64 len, u64 ptr, u64 gas, u64 weight, u64 reg);
HOST(u64, promise_yield_create_with_id, u64 mlen, u64 mptr, u64 len, u64 ptr, u64 amount, u64 gas, u64 weight, u64 idlen, u64 idptr);
HOST(u32, promise_yield_resume, u64 idlen, u64 idptr, u64 len, u64 ptr);
HOST(u32, promise_yield_resume_with_yield_id, u64 idlen, u64 idptr, u64 len, u64 ptr);
