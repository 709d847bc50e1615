package parameters

import (
	"math"

	"github.com/troupe-chain/troupe/primitives"
)

// values returns the parameters of v: the parameters of 85 with the changes of the versions after
// 85 (near-parameters 0.38.0 res/runtime_configs: parameters.snap, 87.yaml, 88.yaml). If nearcore
// switches a parameter together with a feature, values tests the feature. For any other parameter,
// values tests the version number.
func values(v Version) RuntimeConfig {
	since87 := v.Numbering == primitives.NumberingRelease && v.Protocol >= 87
	c := RuntimeConfig{
		Version: v,
		Fees: Fees{
			StorageAmountPerByte:               primitives.Yocto(10_000_000_000_000_000_000),         // 10^19 yoctoNEAR
			GlobalContractStorageAmountPerByte: primitives.MustParseBalance("100000000000000000000"), // 10^20 yoctoNEAR
			NumBytesAccount:                    100,
			NumExtraBytesRecord:                40,

			BurntGasReward:               burntGasReward(v),
			PessimisticGasPriceInflation: Ratio{1, 1},
			GasRefundPenalty:             Ratio{0, 1},
			MinGasRefundPenalty:          0,

			DeployGlobalContractExecutionBase:    20_000_000_000_000,
			DeployGlobalContractExecutionPerByte: 250_000_000,
		},
		Wasm: Wasm{
			GrowMemCost:      1,
			RegularOpCost:    822_756,
			LinearOpBaseCost: 26_328_192,
			LinearOpUnitCost: 822_756,

			VMKind:                "Wasmtime",
			StorageGetMode:        "FlatStorage",
			DiscardCustomSections: true,
			ReftypesBulkMemory:    true,
			EthImplicitAccounts:   true,

			GlobalContractHostFns:   true,
			GasKeyHostFns:           v.includes(GasKeys),
			OneYoctoOnPromise:       true,
			P256VerifyHostFn:        true,
			YieldWithIDHostFns:      v.includes(YieldWithID),
			ChainIDHostFn:           true,
			SHA3HostFns:             since87,
			MLDSAVerifyHostFn:       since87,
			FixContractLoadingCost:  v.includes(FixContractLoadingCost),
			FixContractLoadingError: v.includes(FixContractLoadingError),

			UniversalAccounts:           v.includes(UniversalAccounts),
			CanonicalUniversalStateInit: v.includes(CanonicalUniversalStateInit),

			Limits: limits,
		},
		AccountCreation: AccountCreation{
			MinAllowedTopLevelAccountLength: 65,
			RegistrarAccountID:              "registrar",
		},
		CongestionControl: CongestionControl{
			MaxCongestionIncomingGas:       400 * petaGas,
			MaxCongestionOutgoingGas:       10 * petaGas,
			MaxCongestionMemoryConsumption: 1_000_000_000,
			MaxCongestionMissedChunks:      125,
			MaxOutgoingGas:                 300 * petaGas,
			MinOutgoingGas:                 1 * petaGas,
			AllowedShardOutgoingGas:        1 * petaGas,
			MaxTxGas:                       500 * teraGas,
			MinTxGas:                       20 * teraGas,
			RejectTxCongestionThreshold:    Ratio{80, 100},
			OutgoingReceiptsUsualSizeLimit: 102_400,
			OutgoingReceiptsBigSizeLimit:   4_718_592,
		},
		Witness: Witness{
			MainStorageProofSizeSoftLimit:               4_000_000,
			CombinedTransactionsSizeLimit:               4_194_304,
			NewTransactionsValidationStateSizeSoftLimit: 572_864,
		},
		BandwidthScheduler: BandwidthScheduler{
			MaxShardBandwidth: 4_500_000,
			MaxSingleGrant:    4_194_304,
			MaxAllowance:      4_500_000,
			MaxBaseBandwidth:  100_000,
		},
		UseStateStoredReceipt: true,
		MinGasPurchasePrice:   primitives.Yocto(1_000_000_000),
		AccountCreationCharge: primitives.MustParseBalance("7000000000000000000000"), // 0.007 NEAR
	}
	c.Fees.SignatureVerification[primitives.MLDSA65] = GasCost(100_000_000_000)
	for i, row := range actionCosts {
		exec := GasCost(primitives.Gas(row.exec))
		if row.execComputeAlt != 0 {
			exec.Compute = Compute(row.execComputeAlt)
		}
		c.Fees.Action[i] = Fee{
			SendSIR: GasCost(primitives.Gas(row.sendSIR)), SendNotSIR: GasCost(primitives.Gas(row.sendNot)), Exec: exec,
		}
	}
	for i, row := range extCosts {
		c.Wasm.Ext[i] = GasCost(primitives.Gas(row.gas))
		if row.compute != 0 {
			c.Wasm.Ext[i].Compute = Compute(row.compute)
		}
	}
	if since87 {
		c.Wasm.Limits.MinContractSizePerLocal = 2
		c.Wasm.Limits.MaxStateInitEntries = 1_500
	}
	if v.includes(CanonicalUniversalStateInit) {
		// The fees are higher because decoding now encodes the value again to compare the bytes.
		c.Fees.Action[ActionUniversalStateInitByte] = Fee{SendSIR: GasCost(78_000_000), SendNotSIR: GasCost(78_000_000),
			Exec: GasCost(74_000_000)}
		c.Fees.Action[ActionUniversalStateInitEntry] = Fee{
			SendSIR: GasCost(3_100_000_000), SendNotSIR: GasCost(3_100_000_000), Exec: GasCost(200_000_000_000),
		}
		c.Wasm.Ext[ExtUniversalStateInitToAccountIDBase] = GasCost(8_900_000_000)
		c.Wasm.Ext[ExtUniversalStateInitToAccountIDByte] = GasCost(83_100_000)
	}
	return c
}

// burntGasReward returns a contract's share of the gas burnt in it.
func burntGasReward(v Version) Ratio {
	if v.includes(RemoveGasRewards) {
		return Ratio{0, 1}
	}
	return Ratio{3, 10}
}

const (
	teraGas primitives.Gas = 1_000_000_000_000
	petaGas                = 1000 * teraGas
)

// limits holds the limits of version 85.
var limits = Limits{
	MaxGasBurnt:                      1 * petaGas,
	MaxStackHeight:                   262_144,
	InitialMemoryPages:               1_024,
	MaxMemoryPages:                   2_048,
	RegistersMemoryLimit:             1_073_741_824,
	MaxRegisterSize:                  104_857_600,
	MaxNumberRegisters:               100,
	MaxNumberLogs:                    100,
	MaxTotalLogLength:                16_384,
	MaxTotalPrepaidGas:               1 * petaGas,
	MaxActionsPerReceipt:             100,
	MaxDeployActionsPerReceipt:       10,
	MaxNumberBytesMethodNames:        2_000,
	MaxLengthMethodName:              256,
	MaxArgumentsLength:               4_194_304,
	MaxLengthReturnedData:            4_194_304,
	MaxContractSize:                  4_194_304,
	MaxTransactionSize:               1_572_864,
	MaxReceiptSize:                   4_194_304,
	MaxLengthStorageKey:              2_048,
	MaxLengthStorageValue:            4_194_304,
	MaxPromisesPerFunctionCallAction: 1_024,
	MaxNumberInputDataDependencies:   128,
	MaxReceiptTotalInputSize:         math.MaxUint32,
	MaxUniversalStateInitKeys:        1_024,
	MaxStateInitEntries:              math.MaxUint32,
	MaxFunctionsNumberPerContract:    10_000,
	MaxLocalsPerContract:             1_000_000,
	MaxParamsPerContract:             50_000,
	MaxParamsPerFunction:             64,
	MaxOperandStackBytesPerFunction:  8_192,
	MaxTablesPerContract:             1,
	MaxElementsPerContractTable:      10_000,
	MaxFunctionBodySize:              196_608,
	MaxInstrumentedCodeSize:          16_777_216,
	MaxBlocksPerFunction:             5_000,
	MaxBlocksPerContract:             50_000,
	MaxTypesPerContract:              1_024,
	AccountIDValidityRulesVersion:    2,
	YieldTimeoutLengthInBlocks:       200,
	MaxYieldPayloadSize:              1_024,
	PerReceiptStorageProofSizeLimit:  4_000_000,
}
