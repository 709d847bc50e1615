package logic

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// ValType is the type of a parameter or result, in its wasm encoding.
type ValType byte

// The types of host functions.
const (
	I32 ValType = 0x7f
	I64 ValType = 0x7e
)

// hostFunc implements a host function. a has one element per parameter.
type hostFunc func(l *Logic, a []uint64) (uint64, error)

// Function is a host function of module "env".
type Function struct {
	Name    string
	Params  []ValType
	Results []ValType
	View    bool // views may call the function; in a view, begin fails for a function without View
	// Since returns whether a protocol version has the function. nil: all versions have it.
	Since func(*parameters.Wasm) bool
	// From is the first version of the numbering release that has the function. 0: all versions have
	// it.
	From primitives.ProtocolVersion
	call hostFunc

	refusedAs string // name in the error for views; empty: Name
}

// Signatures.
var (
	none     = []ValType{}
	gives    = []ValType{I64}
	gives32  = []ValType{I32}
	fourI32s = []ValType{I32, I32, I32, I32}
)

func i64s(n int) []ValType { return slices.Repeat(gives, n) }

// Conditions of the functions that not all versions have.
func hasChainID(w *parameters.Wasm) bool     { return w.ChainIDHostFn }
func hasP256(w *parameters.Wasm) bool        { return w.P256VerifyHostFn }
func hasGlobal(w *parameters.Wasm) bool      { return w.GlobalContractHostFns }
func hasGasKeys(w *parameters.Wasm) bool     { return w.GasKeyHostFns }
func hasSHA3(w *parameters.Wasm) bool        { return w.SHA3HostFns }
func hasMLDSA(w *parameters.Wasm) bool       { return w.MLDSAVerifyHostFn }
func hasUniversal(w *parameters.Wasm) bool   { return w.UniversalAccounts }
func hasYieldWithID(w *parameters.Wasm) bool { return w.YieldWithIDHostFns }

// Functions is the table of all host functions (nearcore runtime/near-vm-runner/src/imports.rs).
// The number of a function is its index here. Each function charges its own prices, in nearcore's
// order.
var Functions = []Function{
	{Name: "read_register", Params: i64s(2), Results: none, View: true, call: readRegister},
	{Name: "register_len", Params: i64s(1), Results: gives, View: true, call: registerLen},
	{Name: "write_register", Params: i64s(3), Results: none, View: true, call: writeRegister},

	{Name: "current_account_id", Params: i64s(1), Results: none, View: true, call: currentAccountID},
	{Name: "chain_id", Params: i64s(1), Results: none, View: true, Since: hasChainID, call: chainID},
	{Name: "signer_account_id", Params: i64s(1), Results: none, call: signerAccountID},
	{Name: "signer_account_pk", Params: i64s(1), Results: none, call: signerAccountPK},
	{Name: "predecessor_account_id", Params: i64s(1), Results: none, call: predecessorAccountID},
	{Name: "refund_to_account_id", Params: i64s(1), Results: none, call: refundToAccountID},
	{Name: "current_contract_code", Params: i64s(1), Results: gives, View: true, call: currentContractCode},
	{Name: "input", Params: i64s(1), Results: none, View: true, call: input},
	{Name: "block_index", Params: none, Results: gives, View: true, call: blockIndex},
	{Name: "block_timestamp", Params: none, Results: gives, View: true, call: blockTimestamp},
	{Name: "epoch_height", Params: none, Results: gives, View: true, call: epochHeight},
	{Name: "storage_usage", Params: none, Results: gives, View: true, call: storageUsage},
	{Name: "account_balance", Params: i64s(1), Results: none, View: true, call: accountBalance},
	{Name: "account_locked_balance", Params: i64s(1), Results: none, View: true, call: accountLockedBalance},
	{Name: "attached_deposit", Params: i64s(1), Results: none, View: true, call: attachedDeposit},
	{Name: "prepaid_gas", Params: none, Results: gives, call: prepaidGas},
	{Name: "used_gas", Params: none, Results: gives, call: usedGas},
	{Name: "random_seed", Params: i64s(1), Results: none, View: true, call: randomSeed},
	{Name: "validator_stake", Params: i64s(3), Results: none, View: true, call: validatorStake},
	{Name: "validator_total_stake", Params: i64s(1), Results: none, View: true, call: validatorTotalStake},

	{Name: "sha256", Params: i64s(3), Results: none, View: true, call: sha256},
	{Name: "keccak256", Params: i64s(3), Results: none, View: true, call: keccak256},
	{Name: "keccak512", Params: i64s(3), Results: none, View: true, call: keccak512},
	{Name: "ripemd160", Params: i64s(3), Results: none, View: true, call: ripemd160},
	{Name: "ecrecover", Params: i64s(7), Results: gives, View: true, call: ecrecover},
	{Name: "ed25519_verify", Params: i64s(6), Results: gives, View: true, call: ed25519Verify},
	{Name: "p256_verify", Params: i64s(6), Results: gives, View: true, Since: hasP256, call: p256Verify},
	{Name: "alt_bn128_g1_multiexp", Params: i64s(3), Results: none, View: true, call: altBn128G1Multiexp},
	{Name: "alt_bn128_g1_sum", Params: i64s(3), Results: none, View: true, call: altBn128G1Sum},
	{Name: "alt_bn128_pairing_check", Params: i64s(2), Results: gives, View: true, call: altBn128PairingCheck},
	{Name: "bls12381_p1_sum", Params: i64s(3), Results: gives, View: true, call: blsP1Sum},
	{Name: "bls12381_p2_sum", Params: i64s(3), Results: gives, View: true, call: blsP2Sum},
	{Name: "bls12381_g1_multiexp", Params: i64s(3), Results: gives, View: true, call: blsG1Multiexp},
	{Name: "bls12381_g2_multiexp", Params: i64s(3), Results: gives, View: true, call: blsG2Multiexp},
	{Name: "bls12381_map_fp_to_g1", Params: i64s(3), Results: gives, View: true, call: blsMapFpToG1},
	{Name: "bls12381_map_fp2_to_g2", Params: i64s(3), Results: gives, View: true, call: blsMapFp2ToG2},
	{Name: "bls12381_pairing_check", Params: i64s(2), Results: gives, View: true, call: blsPairingCheck},
	{Name: "bls12381_p1_decompress", Params: i64s(3), Results: gives, View: true, call: blsP1Decompress},
	{Name: "bls12381_p2_decompress", Params: i64s(3), Results: gives, View: true, call: blsP2Decompress},
	{Name: "sha3_256", Params: i64s(3), Results: none, View: true, Since: hasSHA3, From: 87, call: sha3x256},
	{Name: "sha3_384", Params: i64s(3), Results: none, View: true, Since: hasSHA3, From: 87, call: sha3x384},
	{Name: "sha3_512", Params: i64s(3), Results: none, View: true, Since: hasSHA3, From: 87, call: sha3x512},
	{Name: "ml_dsa_verify", Params: i64s(6), Results: gives, View: true, Since: hasMLDSA, From: 87, call: mlDSAVerify},

	{Name: "value_return", Params: i64s(2), Results: none, View: true, call: valueReturn},
	{Name: "panic", Params: none, Results: none, View: true, call: panicPlain},
	{Name: "panic_utf8", Params: i64s(2), Results: none, View: true, call: panicUTF8},
	{Name: "log_utf8", Params: i64s(2), Results: none, View: true, call: logUTF8},
	{Name: "log_utf16", Params: i64s(2), Results: none, View: true, call: logUTF16},
	{Name: "abort", Params: fourI32s, Results: none, View: true, call: abort},

	{Name: "promise_create", Params: i64s(8), Results: gives, call: promiseCreate, refusedAs: "promise_batch_create"},
	{Name: "promise_then", Params: i64s(9), Results: gives, call: promiseThen, refusedAs: "promise_batch_then"},
	{Name: "promise_and", Params: i64s(2), Results: gives, call: promiseAnd},
	{Name: "promise_batch_create", Params: i64s(2), Results: gives, call: promiseBatchCreate},
	{Name: "promise_batch_then", Params: i64s(3), Results: gives, call: promiseBatchThen},
	{Name: "promise_set_refund_to", Params: i64s(3), Results: none, call: promiseSetRefundTo},
	{Name: "universal_state_init_to_account_id", Params: i64s(3), Results: gives, View: true, Since: hasUniversal,
		From: 88, call: universalAccountID},
	{Name: "promise_batch_action_universal_state_init", Params: i64s(4), Results: none, Since: hasUniversal, From: 88,
		call: universalStateInit},
	{Name: "promise_batch_action_create_account", Params: i64s(1), Results: none, call: createAccount},
	{Name: "promise_batch_action_deploy_contract", Params: i64s(3), Results: none, call: deployContract},
	{Name: "promise_batch_action_deploy_global_contract", Params: i64s(3), Results: none, Since: hasGlobal, call: deployGlobal},
	{Name: "promise_batch_action_deploy_global_contract_by_account_id", Params: i64s(3), Results: none, Since: hasGlobal,
		call: deployGlobalByAccount},
	{Name: "promise_batch_action_use_global_contract", Params: i64s(3), Results: none, Since: hasGlobal, call: useGlobal},
	{Name: "promise_batch_action_use_global_contract_by_account_id", Params: i64s(3), Results: none, Since: hasGlobal,
		call: useGlobalByAccount},
	{Name: "promise_batch_action_state_init", Params: i64s(4), Results: gives, call: stateInit},
	{Name: "promise_batch_action_state_init_by_account_id", Params: i64s(4), Results: gives, call: stateInitByAccount},
	{Name: "set_state_init_data_entry", Params: i64s(6), Results: none, call: stateInitEntry},
	{Name: "promise_batch_action_function_call", Params: i64s(7), Results: none, call: functionCall},
	{Name: "promise_batch_action_function_call_weight", Params: i64s(8), Results: none, call: functionCallWeight,
		refusedAs: "promise_batch_action_function_call"},
	{Name: "promise_batch_action_transfer", Params: i64s(2), Results: none, call: transfer},
	{Name: "promise_batch_action_stake", Params: i64s(4), Results: none, call: stake},
	{Name: "promise_batch_action_add_key_with_full_access", Params: i64s(4), Results: none, call: addFullKey},
	{Name: "promise_batch_action_add_key_with_function_call", Params: i64s(9), Results: none, call: addCallKey},
	{Name: "promise_batch_action_delete_key", Params: i64s(3), Results: none, call: deleteKey},
	{Name: "promise_batch_action_delete_account", Params: i64s(3), Results: none, call: deleteAccount},
	{Name: "promise_batch_action_transfer_to_gas_key", Params: i64s(4), Results: none, Since: hasGasKeys, call: transferToGasKey},
	{Name: "promise_batch_action_add_gas_key_with_full_access", Params: i64s(4), Results: none, Since: hasGasKeys, call: addFullGasKey},
	{Name: "promise_batch_action_add_gas_key_with_function_call", Params: i64s(9), Results: none, Since: hasGasKeys, call: addCallGasKey},
	{Name: "promise_yield_create", Params: i64s(7), Results: gives, call: yieldCreate},
	{Name: "promise_yield_create_with_id", Params: i64s(9), Results: gives, Since: hasYieldWithID, call: yieldCreateWithID},
	{Name: "promise_yield_resume", Params: i64s(4), Results: gives32, call: yieldResume},
	{Name: "promise_yield_resume_with_yield_id", Params: i64s(4), Results: gives32, Since: hasYieldWithID, call: yieldResumeByID},
	{Name: "promise_results_count", Params: none, Results: gives, call: resultsCount},
	{Name: "promise_result", Params: i64s(2), Results: gives, call: promiseResult},
	{Name: "promise_return", Params: i64s(1), Results: none, call: promiseReturn},

	{Name: "storage_write", Params: i64s(5), Results: gives, call: storageWrite},
	{Name: "storage_read", Params: i64s(3), Results: gives, View: true, call: storageRead},
	{Name: "storage_remove", Params: i64s(3), Results: gives, call: storageRemove},
	{Name: "storage_has_key", Params: i64s(2), Results: gives, View: true, call: storageHasKey},
	{Name: "storage_iter_prefix", Params: i64s(2), Results: gives, View: true, call: deprecated("storage_iter_prefix")},
	{Name: "storage_iter_range", Params: i64s(4), Results: gives, View: true, call: deprecated("storage_iter_range")},
	{Name: "storage_iter_next", Params: i64s(3), Results: gives, View: true, call: deprecated("storage_iter_next")},

	{Name: "gas", Params: []ValType{I32}, Results: none, View: true, call: gas},
}

// gas (opcodes) burns the gas of that many instructions. Old contracts count their instructions
// with this function.
func gas(l *Logic, a []uint64) (uint64, error) {
	return 0, l.gas.burn(primitives.Gas(uint32(a[0])) * l.wasm.RegularOpCost) // the product is at most 3.6e15
}

// byName maps the names of functions to their numbers.
var byName = func() map[string]int {
	all := make(map[string]int, len(Functions))
	for i := range Functions {
		all[Functions[i].Name] = i
	}
	return all
}()

// Index returns the number of the function with a name. ok is false if no version has such a
// function.
func Index(name string) (index int, ok bool) {
	index, ok = byName[name]
	return index, ok
}

// In returns whether a version has the function.
func (f *Function) In(w *parameters.Wasm) bool { return f.Since == nil || f.Since(w) }
