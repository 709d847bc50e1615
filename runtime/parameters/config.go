package parameters

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// RuntimeConfig has all parameters of one version. A RuntimeConfig contains no pointers, so a copy
// is independent. The RuntimeConfig that Get returns is shared, so callers must not change it. The
// field names are nearcore's (core/parameters/src/config.rs).
type RuntimeConfig struct {
	Version            Version
	Fees               Fees
	Wasm               Wasm
	AccountCreation    AccountCreation
	CongestionControl  CongestionControl
	Witness            Witness
	BandwidthScheduler BandwidthScheduler

	// UseStateStoredReceipt: queued receipts are stored together with the gas and size with which
	// congestion control counts them.
	UseStateStoredReceipt bool
	// MinGasPurchasePrice is the lowest price at which a receipt's gas is bought, in yoctoNEAR per
	// gas. Gas may be burnt at a lower price; the difference is refunded.
	MinGasPurchasePrice primitives.Balance
	// AccountCreationCharge is the least total cost of creating an account, in yoctoNEAR.
	AccountCreationCharge primitives.Balance
}

// Fees are the fees of actions and receipts, and the constants of storage staking and rewards.
type Fees struct {
	Action [NumActionCosts]Fee

	StorageAmountPerByte               primitives.Balance // yoctoNEAR of balance required per byte of storage usage
	NumBytesAccount                    uint64             // bytes of storage usage of an account record
	NumExtraBytesRecord                uint64             // bytes of storage usage of any other record, plus key and value
	GlobalContractStorageAmountPerByte primitives.Balance // yoctoNEAR burnt per byte of a deployed global contract

	BurntGasReward               Ratio // the contract's share of the gas burnt in the VM
	PessimisticGasPriceInflation Ratio
	GasRefundPenalty             Ratio // share of the refunded gas that is burnt; 0 in all supported versions
	MinGasRefundPenalty          primitives.Gas

	// Compute that a distribution receipt uses to store a global contract on a shard. Storing costs
	// no gas.
	DeployGlobalContractExecutionBase    Compute
	DeployGlobalContractExecutionPerByte Compute

	// SignatureVerification is the extra cost of verifying a signature, by primitives.KeyType.
	SignatureVerification [3]Cost
}

// Wasm holds the parameters of contract execution (core/parameters/src/vm.rs Config).
type Wasm struct {
	Ext [NumExtCosts]Cost

	GrowMemCost      primitives.Gas // gas per page of 64 KiB
	RegularOpCost    primitives.Gas // gas per instruction
	LinearOpBaseCost primitives.Gas // base gas of a bulk memory or table instruction
	LinearOpUnitCost primitives.Gas

	VMKind                string // always "Wasmtime"
	StorageGetMode        string // always "FlatStorage"
	DiscardCustomSections bool
	ReftypesBulkMemory    bool
	EthImplicitAccounts   bool

	GlobalContractHostFns  bool
	GasKeyHostFns          bool
	OneYoctoOnPromise      bool // true: a promise may attach 1 yoctoNEAR that the contract does not have
	P256VerifyHostFn       bool
	YieldWithIDHostFns     bool
	ChainIDHostFn          bool
	SHA3HostFns            bool // true: the host functions sha3_256, sha3_384 and sha3_512 exist
	MLDSAVerifyHostFn      bool
	BLS12381NotInGroupFix  bool
	FixContractLoadingCost bool
	// FixContractLoadingError: a module that cannot be loaded still burns the loading fee (feature
	// FixContractLoadingError).
	FixContractLoadingError bool

	// UniversalAccounts: ids that start with 0u are implicit. The action UniversalStateInit and its
	// host functions exist (feature UniversalAccounts).
	UniversalAccounts bool
	// CanonicalUniversalStateInit: a universal state init must be in the canonical encoding of its
	// decoded value, and the fees count that encoding (feature CanonicalUniversalStateInit).
	CanonicalUniversalStateInit bool

	Limits Limits
}

// Limits bound contracts, transactions and receipts (core/parameters/src/vm.rs LimitConfig).
// Lengths are in bytes. A limit that a version does not have is the largest value of its type.
type Limits struct {
	MaxGasBurnt                      primitives.Gas // maximum gas of a function call or a view call
	MaxStackHeight                   uint32         // maximum stack size in bytes, as finite-wasm counts it
	InitialMemoryPages               uint32         // memory size at the start of a call in pages of 64 KiB
	MaxMemoryPages                   uint32
	RegistersMemoryLimit             uint64
	MaxRegisterSize                  uint64
	MaxNumberRegisters               uint64
	MaxNumberLogs                    uint64
	MaxTotalLogLength                uint64
	MaxTotalPrepaidGas               primitives.Gas
	MaxActionsPerReceipt             uint64
	MaxDeployActionsPerReceipt       uint64
	MaxNumberBytesMethodNames        uint64 // maximum size of an access key's method names, each with a terminator
	MaxLengthMethodName              uint64
	MaxArgumentsLength               uint64
	MaxLengthReturnedData            uint64
	MaxContractSize                  uint64
	MaxTransactionSize               uint64 // maximum size of a signed transaction
	MaxReceiptSize                   uint64
	MaxLengthStorageKey              uint64
	MaxLengthStorageValue            uint64
	MaxPromisesPerFunctionCallAction uint64
	MaxNumberInputDataDependencies   uint64
	// maximum size of a receipt's promise results; 2^32-1: only nightly has a lower limit
	MaxReceiptTotalInputSize        uint64
	MaxUniversalStateInitKeys       uint64 // maximum number of keys in all UniversalStateInit actions of a receipt
	MaxStateInitEntries             uint64 // maximum number of entries in all state inits of a receipt, of both kinds
	MaxFunctionsNumberPerContract   uint64
	MaxLocalsPerContract            uint64
	MinContractSizePerLocal         uint64 // minimum size of a contract per local; 0: no limit
	MaxParamsPerContract            uint64
	MaxParamsPerFunction            uint64
	MaxOperandStackBytesPerFunction uint64
	MaxTablesPerContract            uint64
	MaxElementsPerContractTable     uint64
	MaxFunctionBodySize             uint64
	MaxInstrumentedCodeSize         uint64
	MaxBlocksPerFunction            uint64
	MaxBlocksPerContract            uint64
	MaxTypesPerContract             uint64
	AccountIDValidityRulesVersion   uint64
	YieldTimeoutLengthInBlocks      uint64
	MaxYieldPayloadSize             uint64
	PerReceiptStorageProofSizeLimit uint64 // maximum state proof size of a receipt; a larger proof fails the receipt
}

// AccountCreation restricts the creation of top-level accounts.
type AccountCreation struct {
	// minimum length of a top-level account id that is not created by the registrar
	MinAllowedTopLevelAccountLength uint8
	RegistrarAccountID              primitives.AccountID
}

// CongestionControl holds the parameters of package runtime/congestion
// (core/parameters/src/config.rs).
type CongestionControl struct {
	// A shard that reaches one of these loads is fully congested.
	MaxCongestionIncomingGas       primitives.Gas
	MaxCongestionOutgoingGas       primitives.Gas
	MaxCongestionMemoryConsumption uint64 // size of queued receipts in bytes at which a shard is fully congested
	MaxCongestionMissedChunks      uint64

	// Gas that may be sent to a shard per chunk. The gas falls from the maximum to the minimum as
	// the shard's congestion rises. To a fully congested shard only its allowed shard may send.
	MaxOutgoingGas          primitives.Gas
	MinOutgoingGas          primitives.Gas
	AllowedShardOutgoingGas primitives.Gas

	// Gas for converting transactions per chunk. The gas falls as the shard's own incoming
	// congestion rises.
	MaxTxGas primitives.Gas
	MinTxGas primitives.Gas

	RejectTxCongestionThreshold Ratio

	OutgoingReceiptsUsualSizeLimit uint64 // size in bytes; unused since the bandwidth scheduler
	OutgoingReceiptsBigSizeLimit   uint64
}

// Witness bounds the data sent to chunk validators, in bytes.
type Witness struct {
	MainStorageProofSizeSoftLimit uint64 // state proof size from which further receipts are delayed
	// maximum size of the transactions of the previous and the new chunk together
	CombinedTransactionsSizeLimit               uint64
	NewTransactionsValidationStateSizeSoftLimit uint64
}

// BandwidthScheduler holds the parameters of package runtime/bandwidth, in bytes of receipts per
// height.
type BandwidthScheduler struct {
	MaxShardBandwidth uint64 // maximum that one shard sends, and maximum that one shard receives
	MaxSingleGrant    uint64 // maximum that one shard sends to one other shard; at least MaxReceiptSize
	MaxAllowance      uint64
	MaxBaseBandwidth  uint64 // maximum that one shard sends to one other shard without a request
}

// Get returns the parameters of v, or ErrUnsupportedVersion. The value is shared: the caller must
// copy the value before changing it.
func Get(v Version) (*RuntimeConfig, error) {
	if !v.Supported() {
		return nil, fmt.Errorf("%w: %v", ErrUnsupportedVersion, v)
	}
	return MustGet(v), nil
}

// ForGenesis returns the parameters with which the genesis state of version v is built and read. If
// v is GenesisOnly, ForGenesis returns the parameters of OldestProtocol: the costs of storage, the
// only parameters on which a genesis state depends, have not changed between these versions.
// Otherwise ForGenesis returns the parameters that Get returns.
func ForGenesis(v Version) (*RuntimeConfig, error) {
	if v.GenesisOnly() {
		v.Protocol = OldestProtocol
	}
	return Get(v)
}

// MustGet returns the parameters of v, which may be a version whose rules are not complete yet.
// MustGet panics if the parameters of v are not known. For tests and tools.
func MustGet(v Version) *RuntimeConfig {
	table := juneConfigs
	if v.Numbering == primitives.NumberingRelease {
		table = releaseConfigs
	}
	if v.Protocol < OldestProtocol || v.Protocol > last(v.Numbering) {
		panic("parameters: " + ErrUnsupportedVersion.Error() + ": " + v.String())
	}
	return &table[v.Protocol-OldestProtocol]
}

var juneConfigs, releaseConfigs = build(primitives.NumberingJune), build(primitives.NumberingRelease)

// build returns the parameters of all known versions of a numbering, the oldest first.
func build(n primitives.Numbering) []RuntimeConfig {
	all := make([]RuntimeConfig, last(n)-OldestProtocol+1)
	for i := range all {
		all[i] = values(Version{OldestProtocol + primitives.ProtocolVersion(i), n})
	}
	return all
}

// Fee returns the fee named c.
func (f *Fees) Fee(c ActionCost) *Fee { return &f.Action[c] }

// MinReceiptWithFunctionCallGas returns the least gas that sending and executing a receipt with a
// function call takes (nearcore min_receipt_with_function_call_gas). This gas bounds how many
// receipts an amount of gas can create.
func (f *Fees) MinReceiptWithFunctionCallGas() primitives.Gas {
	return f.Action[ActionNewActionReceipt].MinSendAndExecGas() + f.Action[ActionFunctionCallBase].MinSendAndExecGas()
}
