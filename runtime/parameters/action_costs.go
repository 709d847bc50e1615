package parameters

import (
	"strconv"
	"strings"
)

// ActionCost names a fee of actions and receipts. The numbers are nearcore's discriminants
// (core/parameters/src/cost.rs ActionCosts).
type ActionCost uint8

const (
	ActionCreateAccount ActionCost = iota
	ActionDeleteAccount
	ActionDeployContractBase
	ActionDeployContractByte
	ActionFunctionCallBase
	ActionFunctionCallByte
	ActionTransfer
	ActionStake
	ActionAddFullAccessKey
	ActionAddFunctionCallKeyBase
	ActionAddFunctionCallKeyByte
	ActionDeleteKey
	ActionNewActionReceipt
	ActionNewDataReceiptBase
	ActionNewDataReceiptByte
	ActionDelegate
	ActionDeployGlobalContractBase
	ActionDeployGlobalContractByte
	ActionUseGlobalContractBase
	ActionUseGlobalContractByte
	ActionDeterministicStateInitBase
	ActionDeterministicStateInitByte
	ActionDeterministicStateInitEntry
	ActionGasKeyTransferBase
	ActionGasKeyByte
	ActionGasKeyNonceWriteBase

	// Costs of the action that version 88 introduces.
	ActionUniversalStateInitBase
	ActionUniversalStateInitByte
	ActionUniversalStateInitEntry

	// NumActionCosts is the number of action costs.
	NumActionCosts
)

// actionCosts holds nearcore's name of each cost and its value at version 85 (near-parameters
// 0.38.0 res/runtime_configs). Function values applies the changes of the versions after 85. The
// compute of an execution cost is given if it differs from the gas. The compute of a send cost
// always equals the gas of that cost.
var actionCosts = [NumActionCosts]struct {
	name                 string
	sendSIR, sendNot     uint64 // gas to send, if the sender is the receiver (SIR) and if not
	exec, execComputeAlt uint64 // gas to execute, and its compute; compute 0: equal to the gas
}{
	ActionCreateAccount:               {"create_account", 500_000_000_000, 500_000_000_000, 7_200_000_000_000, 0},
	ActionDeleteAccount:               {"delete_account", 147_489_000_000, 147_489_000_000, 147_489_000_000, 0},
	ActionDeployContractBase:          {"deploy_contract_base", 184_765_750_000, 184_765_750_000, 184_765_750_000, 20_000_000_000_000},
	ActionDeployContractByte:          {"deploy_contract_byte", 6_812_999, 47_683_715, 64_572_944, 250_000_000},
	ActionFunctionCallBase:            {"function_call_base", 200_000_000_000, 200_000_000_000, 780_000_000_000, 0},
	ActionFunctionCallByte:            {"function_call_byte", 2_235_934, 47_683_715, 2_235_934, 0},
	ActionTransfer:                    {"transfer", 115_123_062_500, 115_123_062_500, 115_123_062_500, 0},
	ActionStake:                       {"stake", 141_715_687_500, 141_715_687_500, 102_217_625_000, 0},
	ActionAddFullAccessKey:            {"add_full_access_key", 101_765_125_000, 101_765_125_000, 101_765_125_000, 0},
	ActionAddFunctionCallKeyBase:      {"add_function_call_key_base", 102_217_625_000, 102_217_625_000, 102_217_625_000, 0},
	ActionAddFunctionCallKeyByte:      {"add_function_call_key_byte", 1_925_331, 47_683_715, 1_925_331, 0},
	ActionDeleteKey:                   {"delete_key", 94_946_625_000, 94_946_625_000, 94_946_625_000, 0},
	ActionNewActionReceipt:            {"new_action_receipt", 108_059_500_000, 108_059_500_000, 108_059_500_000, 0},
	ActionNewDataReceiptBase:          {"new_data_receipt_base", 36_486_732_312, 36_486_732_312, 36_486_732_312, 0},
	ActionNewDataReceiptByte:          {"new_data_receipt_byte", 17_212_011, 47_683_715, 17_212_011, 0},
	ActionDelegate:                    {"delegate", 200_000_000_000, 200_000_000_000, 200_000_000_000, 0},
	ActionDeployGlobalContractBase:    {"deploy_global_contract_base", 184_765_750_000, 184_765_750_000, 184_765_750_000, 0},
	ActionDeployGlobalContractByte:    {"deploy_global_contract_byte", 6_812_999, 47_683_715, 70_000_000, 0},
	ActionUseGlobalContractBase:       {"use_global_contract_base", 184_765_750_000, 184_765_750_000, 184_765_750_000, 0},
	ActionUseGlobalContractByte:       {"use_global_contract_byte", 6_812_999, 47_683_715, 64_572_944, 0},
	ActionDeterministicStateInitBase:  {"deterministic_state_init_base", 500_000_000_000, 500_000_000_000, 7_430_000_000_000, 0},
	ActionDeterministicStateInitByte:  {"deterministic_state_init_byte", 72_000_000, 72_000_000, 70_000_000, 0},
	ActionDeterministicStateInitEntry: {"deterministic_state_init_entry", 0, 0, 200_000_000_000, 0},
	ActionGasKeyTransferBase:          {"gas_key_transfer_base", 115_123_062_500, 115_123_062_500, 235_676_644_250, 0},
	ActionGasKeyByte:                  {"gas_key_byte", 59_357_464, 59_357_464, 101_435_400, 0},
	ActionGasKeyNonceWriteBase:        {"gas_key_nonce_write_base", 0, 0, 64_196_736_000, 0},
	ActionUniversalStateInitBase:      {"universal_state_init_base", 500_000_000_000, 500_000_000_000, 7_430_000_000_000, 0},
	ActionUniversalStateInitByte:      {"universal_state_init_byte", 72_000_000, 72_000_000, 70_000_000, 0},
	ActionUniversalStateInitEntry:     {"universal_state_init_entry", 0, 0, 200_000_000_000, 0},
}

// String returns nearcore's name, e.g. "new_action_receipt".
func (c ActionCost) String() string {
	if c >= NumActionCosts {
		return "ActionCost(" + strconv.Itoa(int(c)) + ")"
	}
	return actionCosts[c].name
}

// actionProfileNames are the names of the action costs in upper case, computed once.
var actionProfileNames = func() (names [NumActionCosts]string) {
	for c := range names {
		names[c] = strings.ToUpper(actionCosts[c].name)
	}
	return names
}()

// ProfileName returns the name of c in gas profiles, e.g. "NEW_ACTION_RECEIPT". c must be below
// NumActionCosts.
func (c ActionCost) ProfileName() string { return actionProfileNames[c] }
