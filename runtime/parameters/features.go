package parameters

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Feature is a change of the rules that comes with a protocol version. Names are nearcore's.
type Feature uint8

// Features of 85, which are the same in both numberings (june and release, see Version).
const (
	GasKeys Feature = iota
	StrictNonce
	PostQuantumSignatures
	DelegateV2
	DynamicResharding
	StickyReshardingValidatorAssignment
	ValidateBlockOrdinalAndEpochSyncDataHash
	UniqueChunkTransactions
	ExecutionMetadataV4
	YieldWithID
	AccountCostIncrease
	FixDelegateActionDepositWithFunctionCallError
	FixDelegatedDeterministicStateInit
	FixDeleteAccountGlobalContractStorageUsage
	ClampOutgoingGasAdmission
	SignedContractCodeResponse
	ContinuousEpochSync

	// Features that 86 introduces: the first feature in the numbering june, the second in the
	// numbering release.
	FixContractLoadingError
	EnforcePerReceiptStorageProofLimit

	// Features of 87 and 88, only in the numbering release.
	RejectEmptyMethodName
	RejectDelegateV2
	RejectWithdrawFromGasKeyInDelegate
	RemoveGasRewards
	EnforceStorageProofLimitForAllActions
	EarlyKickout
	GlobalContractSameChunkCallFix
	RejectUniversalAccountTransfers
	RejectBlockHeaderV7BeforeSpice
	UniversalAccounts
	CanonicalUniversalStateInit
	RefundRepeatedUniversalStateInitDeposit

	// Features that are nightly in nearcore. This program does not implement these features.
	FixContractLoadingCost
	ShuffleShardAssignments
	FixMLDSACostCharging
	ReceiptPromiseInputSizeLimit
	Spice

	numFeatures
)

// features holds, for each feature, its first version in each numbering; 0: the numbering does not
// have the feature. The numbers of release are from near-primitives-core 0.38.0 src/version.rs:632.
// built is whether this program implements the feature's rule. Enabled returns true only if built
// is true. The parameters of a version do not depend on built.
var features = [numFeatures]struct {
	name          string
	june, release primitives.ProtocolVersion
	built         bool
}{
	GasKeys:                                  {"GasKeys", 85, 85, true},
	StrictNonce:                              {"StrictNonce", 85, 85, true},
	PostQuantumSignatures:                    {"PostQuantumSignatures", 85, 85, true},
	DelegateV2:                               {"DelegateV2", 85, 85, true},
	DynamicResharding:                        {"DynamicResharding", 85, 85, true},
	StickyReshardingValidatorAssignment:      {"StickyReshardingValidatorAssignment", 85, 85, true},
	ValidateBlockOrdinalAndEpochSyncDataHash: {"ValidateBlockOrdinalAndEpochSyncDataHash", 85, 85, true},
	UniqueChunkTransactions:                  {"UniqueChunkTransactions", 85, 85, true},
	ExecutionMetadataV4:                      {"ExecutionMetadataV4", 85, 85, true},
	YieldWithID:                              {"YieldWithId", 85, 85, true},
	AccountCostIncrease:                      {"AccountCostIncrease", 85, 85, true},
	FixDelegateActionDepositWithFunctionCallError: {"FixDelegateActionDepositWithFunctionCallError", 85, 85, true},
	FixDelegatedDeterministicStateInit:            {"FixDelegatedDeterministicStateInit", 85, 85, true},
	FixDeleteAccountGlobalContractStorageUsage:    {"FixDeleteAccountGlobalContractStorageUsage", 85, 85, true},
	ClampOutgoingGasAdmission:                     {"ClampOutgoingGasAdmission", 85, 85, true},
	SignedContractCodeResponse:                    {"SignedContractCodeResponse", 85, 85, true},
	ContinuousEpochSync:                           {"ContinuousEpochSync", 85, 85, true},

	FixContractLoadingError:            {"FixContractLoadingError", 86, 87, true},
	EnforcePerReceiptStorageProofLimit: {"EnforcePerReceiptStorageProofLimit", 0, 86, true},

	RejectEmptyMethodName:                   {"RejectEmptyMethodName", 0, 87, true},
	RejectDelegateV2:                        {"RejectDelegateV2", 0, 87, true},
	RejectWithdrawFromGasKeyInDelegate:      {"RejectWithdrawFromGasKeyInDelegate", 0, 87, true},
	RemoveGasRewards:                        {"RemoveGasRewards", 0, 87, true},
	EnforceStorageProofLimitForAllActions:   {"EnforceStorageProofLimitForAllActions", 0, 87, true},
	EarlyKickout:                            {"EarlyKickout", 152, 87, true},
	GlobalContractSameChunkCallFix:          {"GlobalContractSameChunkCallFix", 0, 87, true},
	RejectUniversalAccountTransfers:         {"RejectUniversalAccountTransfers", 0, 87, true},
	RejectBlockHeaderV7BeforeSpice:          {"RejectBlockHeaderV7BeforeSpice", 0, 87, true},
	UniversalAccounts:                       {"UniversalAccounts", 0, 88, true},
	CanonicalUniversalStateInit:             {"CanonicalUniversalStateInit", 0, 88, true},
	RefundRepeatedUniversalStateInitDeposit: {"RefundRepeatedUniversalStateInitDeposit", 0, 88, true},

	FixContractLoadingCost:       {"FixContractLoadingCost", 129, 129, false},
	ShuffleShardAssignments:      {"ShuffleShardAssignments", 143, 143, false},
	FixMLDSACostCharging:         {"FixMlDsaCostCharging", 0, 157, false},
	ReceiptPromiseInputSizeLimit: {"ReceiptPromiseInputSizeLimit", 0, 157, false},
	Spice:                        {"Spice", 180, 180, false},
}

// String returns nearcore's name.
func (f Feature) String() string {
	if f >= numFeatures {
		return fmt.Sprintf("Feature(%d)", uint8(f))
	}
	return features[f].name
}

// Enabled returns whether f is in force at v. Enabled returns false for features that this program
// does not implement, and for an unknown numbering. Supported rejects unknown numberings before any
// rule is checked.
func Enabled(f Feature, v Version) bool { return features[f].built && v.includes(f) }

// includes returns whether f belongs to v by version number, implemented or not. The parameters of
// a version depend on includes.
func (v Version) includes(f Feature) bool {
	row := &features[f]
	since := primitives.ProtocolVersion(0)
	switch v.Numbering {
	case primitives.NumberingJune:
		since = row.june
	case primitives.NumberingRelease:
		since = row.release
	}
	return since != 0 && v.Protocol >= since
}

// Has returns Enabled(f, v).
func (v Version) Has(f Feature) bool { return Enabled(f, v) }
