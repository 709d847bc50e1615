package parameters

import (
	"encoding/json"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// object is a JSON object. encoding/json sorts the keys of a map, as nearcore's RPC does.
type object map[string]any

// AppendJSON appends runtime_config as in EXPERIMENTAL_protocol_config: keys ascending, no blanks,
// u128 as strings. AppendJSON omits compute costs and the parameters of gas keys, state inits,
// global contracts and the bandwidth scheduler. A version in the numbering release has the fields
// of near-parameters 0.38.0 src/view.rs. A version in the numbering june has only the fields of the
// June build.
func (c *RuntimeConfig) AppendJSON(b []byte) []byte {
	text, err := json.Marshal(c.view())
	if err != nil {
		panic("parameters: marshal the JSON view: " + err.Error())
	}
	return append(b, text...)
}

// MarshalJSON returns what AppendJSON appends.
func (c *RuntimeConfig) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

func (c *RuntimeConfig) view() object {
	f, w, june := &c.Fees, &c.Wasm, c.Version.Numbering == primitives.NumberingJune
	fee := func(k ActionCost) object {
		x := &f.Action[k]
		return object{"send_sir": x.SendSIR.Gas, "send_not_sir": x.SendNotSIR.Gas, "execution": x.Exec.Gas}
	}
	ext := make(object, NumExtCosts)
	for k := range NumExtCosts {
		if k < firstReleaseExtCost || !june {
			ext[k.String()] = w.Ext[k].Gas
		}
	}
	for _, gone := range [...]string{"contract_compile_base", "contract_compile_bytes"} {
		ext[gone] = 0 // nearcore's view still lists these costs of old versions as 0
	}
	limitConfig := w.Limits.view()
	wasmConfig := object{
		"ext_costs":                 ext,
		"grow_mem_cost":             w.GrowMemCost,
		"regular_op_cost":           w.RegularOpCost,
		"linear_op_base_cost":       w.LinearOpBaseCost,
		"linear_op_unit_cost":       w.LinearOpUnitCost,
		"vm_kind":                   w.VMKind,
		"discard_custom_sections":   w.DiscardCustomSections,
		"global_contract_host_fns":  w.GlobalContractHostFns,
		"reftypes_bulk_memory":      w.ReftypesBulkMemory,
		"gas_key_host_fns":          w.GasKeyHostFns,
		"one_yocto_on_promise":      w.OneYoctoOnPromise,
		"p256_verify_host_fn":       w.P256VerifyHostFn,
		"yield_with_id_host_fns":    w.YieldWithIDHostFns,
		"chain_id_host_fn":          w.ChainIDHostFn,
		"bls12381_not_in_group_fix": w.BLS12381NotInGroupFix,
		"storage_get_mode":          w.StorageGetMode,
		"fix_contract_loading_cost": w.FixContractLoadingCost,
		"implicit_account_creation": true, // deprecated, always true
		"eth_implicit_accounts":     w.EthImplicitAccounts,
		"limit_config":              limitConfig,
	}
	if !june {
		wasmConfig["sha3_host_fns"] = w.SHA3HostFns
		wasmConfig["ml_dsa_verify_host_fn"] = w.MLDSAVerifyHostFn
		wasmConfig["universal_accounts"] = w.UniversalAccounts
		limitConfig["max_receipt_total_input_size"] = w.Limits.MaxReceiptTotalInputSize
		limitConfig["max_universal_state_init_keys"] = w.Limits.MaxUniversalStateInitKeys
		limitConfig["max_state_init_entries"] = w.Limits.MaxStateInitEntries
		if w.Limits.MinContractSizePerLocal != 0 {
			limitConfig["min_contract_size_per_local"] = w.Limits.MinContractSizePerLocal
		}
	}
	return object{
		"storage_amount_per_byte": f.StorageAmountPerByte,
		"transaction_costs": object{
			"action_receipt_creation_config": fee(ActionNewActionReceipt),
			"data_receipt_creation_config": object{
				"base_cost": fee(ActionNewDataReceiptBase), "cost_per_byte": fee(ActionNewDataReceiptByte),
			},
			"action_creation_config": object{
				"create_account_cost":           fee(ActionCreateAccount),
				"deploy_contract_cost":          fee(ActionDeployContractBase),
				"deploy_contract_cost_per_byte": fee(ActionDeployContractByte),
				"function_call_cost":            fee(ActionFunctionCallBase),
				"function_call_cost_per_byte":   fee(ActionFunctionCallByte),
				"transfer_cost":                 fee(ActionTransfer),
				"stake_cost":                    fee(ActionStake),
				"add_key_cost": object{
					"full_access_cost":            fee(ActionAddFullAccessKey),
					"function_call_cost":          fee(ActionAddFunctionCallKeyBase),
					"function_call_cost_per_byte": fee(ActionAddFunctionCallKeyByte),
				},
				"delete_key_cost":     fee(ActionDeleteKey),
				"delete_account_cost": fee(ActionDeleteAccount),
				"delegate_cost":       fee(ActionDelegate),
			},
			"storage_usage_config": object{
				"num_bytes_account": f.NumBytesAccount, "num_extra_bytes_record": f.NumExtraBytesRecord,
			},
			"burnt_gas_reward":                      f.BurntGasReward.pair(),
			"pessimistic_gas_price_inflation_ratio": f.PessimisticGasPriceInflation.pair(),
			"ml_dsa_65_verification_cost":           f.SignatureVerification[2].Gas,
		},
		"wasm_config": wasmConfig,
		"account_creation_config": object{
			"min_allowed_top_level_account_length": c.AccountCreation.MinAllowedTopLevelAccountLength,
			"registrar_account_id":                 c.AccountCreation.RegistrarAccountID,
		},
		"congestion_control_config": c.CongestionControl.view(),
		"witness_config": object{
			"main_storage_proof_size_soft_limit":                c.Witness.MainStorageProofSizeSoftLimit,
			"combined_transactions_size_limit":                  c.Witness.CombinedTransactionsSizeLimit,
			"new_transactions_validation_state_size_soft_limit": c.Witness.NewTransactionsValidationStateSizeSoftLimit,
		},
		"min_gas_purchase_price":  c.MinGasPurchasePrice,
		"account_creation_charge": c.AccountCreationCharge,
	}
}

// view returns the JSON object of the fields that limits have in both numberings.
func (l *Limits) view() object {
	return object{
		"max_gas_burnt":                         l.MaxGasBurnt,
		"max_stack_height":                      l.MaxStackHeight,
		"initial_memory_pages":                  l.InitialMemoryPages,
		"max_memory_pages":                      l.MaxMemoryPages,
		"registers_memory_limit":                l.RegistersMemoryLimit,
		"max_register_size":                     l.MaxRegisterSize,
		"max_number_registers":                  l.MaxNumberRegisters,
		"max_number_logs":                       l.MaxNumberLogs,
		"max_total_log_length":                  l.MaxTotalLogLength,
		"max_total_prepaid_gas":                 l.MaxTotalPrepaidGas,
		"max_actions_per_receipt":               l.MaxActionsPerReceipt,
		"max_deploy_actions_per_receipt":        l.MaxDeployActionsPerReceipt,
		"max_number_bytes_method_names":         l.MaxNumberBytesMethodNames,
		"max_length_method_name":                l.MaxLengthMethodName,
		"max_arguments_length":                  l.MaxArgumentsLength,
		"max_length_returned_data":              l.MaxLengthReturnedData,
		"max_contract_size":                     l.MaxContractSize,
		"max_transaction_size":                  l.MaxTransactionSize,
		"max_receipt_size":                      l.MaxReceiptSize,
		"max_length_storage_key":                l.MaxLengthStorageKey,
		"max_length_storage_value":              l.MaxLengthStorageValue,
		"max_promises_per_function_call_action": l.MaxPromisesPerFunctionCallAction,
		"max_number_input_data_dependencies":    l.MaxNumberInputDataDependencies,
		"max_functions_number_per_contract":     l.MaxFunctionsNumberPerContract,
		"max_locals_per_contract":               l.MaxLocalsPerContract,
		"max_params_per_contract":               l.MaxParamsPerContract,
		"max_params_per_function":               l.MaxParamsPerFunction,
		"max_operand_stack_bytes_per_function":  l.MaxOperandStackBytesPerFunction,
		"max_tables_per_contract":               l.MaxTablesPerContract,
		"max_elements_per_contract_table":       l.MaxElementsPerContractTable,
		"max_function_body_size":                l.MaxFunctionBodySize,
		"max_instrumented_code_size":            l.MaxInstrumentedCodeSize,
		"max_blocks_per_function":               l.MaxBlocksPerFunction,
		"max_blocks_per_contract":               l.MaxBlocksPerContract,
		"max_types_per_contract":                l.MaxTypesPerContract,
		"account_id_validity_rules_version":     l.AccountIDValidityRulesVersion,
		"yield_timeout_length_in_blocks":        l.YieldTimeoutLengthInBlocks,
		"max_yield_payload_size":                l.MaxYieldPayloadSize,
		"per_receipt_storage_proof_size_limit":  l.PerReceiptStorageProofSizeLimit,
	}
}

func (c *CongestionControl) view() object {
	return object{
		"max_congestion_incoming_gas":        c.MaxCongestionIncomingGas,
		"max_congestion_outgoing_gas":        c.MaxCongestionOutgoingGas,
		"max_congestion_memory_consumption":  c.MaxCongestionMemoryConsumption,
		"max_congestion_missed_chunks":       c.MaxCongestionMissedChunks,
		"max_outgoing_gas":                   c.MaxOutgoingGas,
		"min_outgoing_gas":                   c.MinOutgoingGas,
		"allowed_shard_outgoing_gas":         c.AllowedShardOutgoingGas,
		"max_tx_gas":                         c.MaxTxGas,
		"min_tx_gas":                         c.MinTxGas,
		"reject_tx_congestion_threshold":     json.Number(c.RejectTxCongestionThreshold.decimal()),
		"outgoing_receipts_usual_size_limit": c.OutgoingReceiptsUsualSizeLimit,
		"outgoing_receipts_big_size_limit":   c.OutgoingReceiptsBigSizeLimit,
	}
}

// pair returns r as a pair of numerator and denominator, the JSON form of fractions.
func (r Ratio) pair() [2]uint32 { return [2]uint32{r.Num, r.Den} }

// decimal formats r as Rust prints a float: at least one digit after the point, no trailing zeros.
// The result is exact for denominators that are powers of ten, as all denominators in use are. For
// any other denominator, decimal stops after nine digits.
func (r Ratio) decimal() string {
	b := append(strconv.AppendUint(nil, uint64(r.Num/r.Den), 10), '.')
	rest := uint64(r.Num % r.Den)
	for i := range 9 {
		if rest == 0 && i > 0 {
			break
		}
		rest *= 10
		b = strconv.AppendUint(b, rest/uint64(r.Den), 10)
		rest %= uint64(r.Den)
	}
	return string(b)
}
