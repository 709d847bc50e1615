package parameters

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// RuntimeConfig holds every parameter of one version. It contains no pointers: a copy is
// independent, and what Get returns is shared by all and must not be changed. Names are nearcore's
// (core/parameters/src/config.rs).
type RuntimeConfig struct {
	Version            Version
	Fees               Fees
	Wasm               Wasm
	AccountCreation    AccountCreation
	CongestionControl  CongestionControl
	Witness            Witness
	BandwidthScheduler BandwidthScheduler

	// UseStateStoredReceipt: queued receipts carry the gas and size they were counted with.
	UseStateStoredReceipt bool
	// MinGasPurchasePrice is the least price at which a receipt's gas is bought, in yoctoNEAR per
	// gas. It may be burnt at a lower one; the difference is refunded.
	MinGasPurchasePrice primitives.Balance
	// AccountCreationCharge is what creating an account shall cost in all, in yoctoNEAR.
	AccountCreationCharge primitives.Balance
}

// Fees are the fees of actions and receipts, and the constants of storage staking and rewards.
type Fees struct {
	Action [NumActionCosts]Fee

	StorageAmountPerByte               primitives.Balance // to be held per byte of storage usage
	NumBytesAccount                    uint64             // usage of an account record
	NumExtraBytesRecord                uint64             // usage of any other record besides key and value
	GlobalContractStorageAmountPerByte primitives.Balance // burnt per byte of deployed global code

	BurntGasReward               Ratio // share of the gas burnt inside the VM that the contract gets
	PessimisticGasPriceInflation Ratio
	GasRefundPenalty             Ratio // of the refunded gas; 0
	MinGasRefundPenalty          primitives.Gas

	// Compute of storing global code on a shard that a distribution receipt reaches; nobody pays
	// gas for it.
	DeployGlobalContractExecutionBase    Compute
	DeployGlobalContractExecutionPerByte Compute

	// SignatureVerification is what verifying a signature adds, by primitives.KeyType.
	SignatureVerification [3]Cost
}

// Wasm is the part that contracts see (core/parameters/src/vm.rs Config).
type Wasm struct {
	Ext [NumExtCosts]Cost

	GrowMemCost      primitives.Gas // per page
	RegularOpCost    primitives.Gas // per instruction
	LinearOpBaseCost primitives.Gas // bulk memory and table instructions
	LinearOpUnitCost primitives.Gas

	VMKind                string // "Wasmtime"
	StorageGetMode        string // "FlatStorage"
	DiscardCustomSections bool
	ReftypesBulkMemory    bool
	EthImplicitAccounts   bool

	GlobalContractHostFns  bool
	GasKeyHostFns          bool
	OneYoctoOnPromise      bool // a promise may attach 1 yoctoNEAR that the contract does not have
	P256VerifyHostFn       bool
	YieldWithIDHostFns     bool
	ChainIDHostFn          bool
	PostQuantumHostFns     bool // sha3_256, sha3_384, sha3_512, ml_dsa_verify
	BLS12381NotInGroupFix  bool
	FixContractLoadingCost bool
	// FixContractLoadingError: a module that does not load burns the loading fee (feature of the
	// same name).
	FixContractLoadingError bool

	Limits Limits
}

// Limits bound contracts, transactions and receipts (core/parameters/src/vm.rs LimitConfig).
// Lengths are in bytes.
type Limits struct {
	MaxGasBurnt                      primitives.Gas // of one function call; also what a view call may use
	MaxStackHeight                   uint32         // in finite-wasm units
	InitialMemoryPages               uint32         // of 64 KiB
	MaxMemoryPages                   uint32
	RegistersMemoryLimit             uint64
	MaxRegisterSize                  uint64
	MaxNumberRegisters               uint64
	MaxNumberLogs                    uint64
	MaxTotalLogLength                uint64
	MaxTotalPrepaidGas               primitives.Gas
	MaxActionsPerReceipt             uint64
	MaxDeployActionsPerReceipt       uint64
	MaxNumberBytesMethodNames        uint64 // of an access key, a terminator counted for each
	MaxLengthMethodName              uint64
	MaxArgumentsLength               uint64
	MaxLengthReturnedData            uint64
	MaxContractSize                  uint64
	MaxTransactionSize               uint64 // signature included
	MaxReceiptSize                   uint64
	MaxLengthStorageKey              uint64
	MaxLengthStorageValue            uint64
	MaxPromisesPerFunctionCallAction uint64
	MaxNumberInputDataDependencies   uint64
	MaxFunctionsNumberPerContract    uint64
	MaxLocalsPerContract             uint64
	MaxParamsPerContract             uint64
	MaxParamsPerFunction             uint64
	MaxOperandStackBytesPerFunction  uint64
	MaxTablesPerContract             uint64
	MaxElementsPerContractTable      uint64
	MaxFunctionBodySize              uint64
	MaxInstrumentedCodeSize          uint64
	MaxBlocksPerFunction             uint64
	MaxBlocksPerContract             uint64
	MaxTypesPerContract              uint64
	AccountIDValidityRulesVersion    uint64
	YieldTimeoutLengthInBlocks       uint64
	MaxYieldPayloadSize              uint64
	PerReceiptStorageProofSizeLimit  uint64 // hard: the receipt fails
}

// AccountCreation says who may create top-level accounts.
type AccountCreation struct {
	MinAllowedTopLevelAccountLength uint8 // shorter ones only by the registrar
	RegistrarAccountID              primitives.AccountID
}

// CongestionControl holds the levels and limits of package runtime/congestion
// (core/parameters/src/config.rs).
type CongestionControl struct {
	// At these loads a shard is fully congested.
	MaxCongestionIncomingGas       primitives.Gas
	MaxCongestionOutgoingGas       primitives.Gas
	MaxCongestionMemoryConsumption uint64 // bytes of receipts
	MaxCongestionMissedChunks      uint64

	// Gas that may be sent to a shard per chunk: from the maximum to the minimum as its level
	// rises; once it is full, only its allowed shard may send anything.
	MaxOutgoingGas          primitives.Gas
	MinOutgoingGas          primitives.Gas
	AllowedShardOutgoingGas primitives.Gas

	// Gas for converting transactions per chunk, as the own incoming level rises.
	MaxTxGas primitives.Gas
	MinTxGas primitives.Gas

	RejectTxCongestionThreshold Ratio

	OutgoingReceiptsUsualSizeLimit uint64 // bytes; unused since the bandwidth scheduler
	OutgoingReceiptsBigSizeLimit   uint64
}

// Witness bounds what chunk validators are sent, in bytes.
type Witness struct {
	MainStorageProofSizeSoftLimit               uint64 // receipts after it are delayed
	CombinedTransactionsSizeLimit               uint64 // of the previous and the new chunk together
	NewTransactionsValidationStateSizeSoftLimit uint64
}

// BandwidthScheduler holds the parameters of package runtime/bandwidth, in bytes of receipts per
// height.
type BandwidthScheduler struct {
	MaxShardBandwidth uint64 // a shard sends, and receives, at most this
	MaxSingleGrant    uint64 // on one link; at least MaxReceiptSize
	MaxAllowance      uint64
	MaxBaseBandwidth  uint64 // granted on every link unasked, at most
}

// Get returns the parameters of v. The value is shared: copy it before changing anything.
func Get(v Version) (*RuntimeConfig, error) {
	if !v.Supported() {
		return nil, fmt.Errorf("%w: %v", ErrUnsupportedVersion, v)
	}
	table := juneConfigs
	if v.Numbering == primitives.NumberingRelease {
		table = releaseConfigs
	}
	return &table[v.Protocol-OldestProtocol], nil
}

// MustGet is Get for versions that are known to be supported; it panics otherwise.
func MustGet(v Version) *RuntimeConfig {
	c, err := Get(v)
	if err != nil {
		panic("config: " + err.Error())
	}
	return c
}

var juneConfigs, releaseConfigs = build(primitives.NumberingJune), build(primitives.NumberingRelease)

// build makes the configurations of all versions of a numbering, from the oldest on.
func build(n primitives.Numbering) []RuntimeConfig {
	all := make([]RuntimeConfig, Newest(n)-OldestProtocol+1)
	for i := range all {
		all[i] = values(Version{OldestProtocol + primitives.ProtocolVersion(i), n})
	}
	return all
}

// Fee returns the fee of c.
func (f *Fees) Fee(c ActionCost) *Fee { return &f.Action[c] }

// MinReceiptWithFunctionCallGas is the least gas with which a receipt that calls a function can be
// made and run: how many receipts some gas can become (nearcore
// min_receipt_with_function_call_gas).
func (f *Fees) MinReceiptWithFunctionCallGas() primitives.Gas {
	return f.Action[ActionNewActionReceipt].MinSendAndExecGas() + f.Action[ActionFunctionCallBase].MinSendAndExecGas()
}
