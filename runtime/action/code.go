package action

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// dropContractUsage subtracts the current contract's storage from the account's storage usage.
func (x *Execution) dropContractUsage() error {
	n, err := x.contractUsage()
	x.subUsage(n)
	return err
}

// deployContract sets the account's own code.
func (x *Execution) deployContract(a *primitives.DeployContract) error {
	if err := x.dropContractUsage(); err != nil {
		return err
	}
	if err := x.addUsage(uint64(len(a.Code))); err != nil {
		return err
	}
	hash := primitives.HashBytes(a.Code)
	x.Account.SetContract(primitives.AccountContract{Kind: primitives.ContractLocal, Hash: hash})
	x.State.SetCode(x.Receipt.ReceiverID, hash, a.Code)
	x.Block.Warm(x.Receipt.ReceiverID, a.Code)
	return nil
}

// useGlobal sets the account's contract to a global contract.
func (x *Execution) useGlobal(id *primitives.GlobalContractID) (*failure, error) {
	known, err := x.State.HasGlobalCode(id)
	if err != nil {
		return nil, err
	}
	if !known {
		return &failure{Tag: primitives.ActionGlobalContractDoesNotExist, Identifier: *id}, nil
	}
	if err := x.dropContractUsage(); err != nil {
		return nil, err
	}
	if x.Account.Contract.Kind == primitives.ContractLocal {
		x.State.RemoveCode(x.Receipt.ReceiverID)
	}
	if err := x.addUsage(uint64(id.Len())); err != nil {
		return nil, err
	}
	x.Account.SetContract(primitives.GlobalContract(*id))
	return nil, nil
}

// deployGlobal burns tokens for the storage and creates the receipt that distributes the code.
// The first receiver of the distribution is this shard. deployGlobal increments the distribution
// nonce immediately, so that each distribution has its own nonce.
func (x *Execution) deployGlobal(a *primitives.DeployGlobalContract) (*failure, error) {
	id := x.Receipt.ReceiverID
	cost := fees.GlobalDeployBurn(x.Block.Config, len(a.Code))
	rest, ok := x.Account.Amount.Sub(cost)
	if !ok {
		return &failure{Tag: primitives.ActionLackBalanceForState, AccountID: id, Amount: cost}, nil
	}
	if err := x.burn(cost); err != nil {
		return nil, err
	}
	x.Account.Amount = rest
	global := primitives.GlobalContractID{Account: id}
	if a.Mode == primitives.GlobalByCodeHash {
		global = primitives.GlobalContractID{Hash: primitives.HashBytes(a.Code)}
	}
	nonce, err := x.State.GlobalNonce(&global)
	if err != nil {
		return nil, err
	}
	if nonce++; nonce == 0 {
		return nil, state.Inconsistent("global contract nonce: %w", primitives.ErrOverflow)
	}
	x.State.SetGlobalNonce(&global, nonce)
	x.Result.NewReceipts = append(x.Result.NewReceipts, &primitives.Receipt{
		PredecessorID: id, ReceiverID: primitives.SystemAccount,
		Body: &primitives.GlobalContractDistribution{ID: global, TargetShard: x.Block.ShardID, Code: a.Code, V2: true, Nonce: nonce},
	})
	return nil, nil
}

// stateInit creates or initialises a deterministic account. The account keeps only the part of the
// deposit that its storage needs. The actor stays the predecessor, so that no following action of
// the receipt can act for the new account (nearcore deterministic_account_id.rs).
func (x *Execution) stateInit(a *primitives.DeterministicStateInit) (*failure, error) {
	if !x.Exists {
		x.Exists = true
		x.Account = primitives.Account{StorageUsage: x.Block.Config.Fees.NumBytesAccount, Version: primitives.AccountV1}
	}
	if x.Account.Contract.Kind == primitives.ContractNone {
		if fail, err := x.useGlobal(&a.Init.Code); fail != nil || err != nil {
			return fail, err
		}
		if err := x.installData(a.Init.Data); err != nil {
			return nil, err
		}
	}
	return x.settleDeposit(a.Deposit)
}

// universalStateInit creates a universal account if the account does not exist, and sets the
// account's code, data and keys (nearcore 2.14.0-rc.1
// runtime/runtime/src/universal_account_id.rs:21). It changes nothing if the account is initialized
// already. The actor stays the predecessor.
func (x *Execution) universalStateInit(a *primitives.UniversalStateInit) (*failure, error) {
	if !x.Exists {
		x.createUninitialized(primitives.Balance{})
	}
	if x.Account.IsInitialized() {
		if x.Block.Config.Version.Has(parameters.RefundRepeatedUniversalStateInitDeposit) {
			x.returnDeposit(a.Deposit)
			return nil, nil
		}
		return x.settleDeposit(a.Deposit)
	}
	init, err := a.Init.Decode()
	if err != nil { // unreachable: the validation of the receipt has decoded Init
		return &failure{Tag: primitives.ActionMalformedUniversalStateInit}, nil
	}
	// The nonce of the new keys is at least BootstrapNonce, the nonce of the account's last
	// self-signed state init. Otherwise that signed transaction would be valid again for a new
	// key.
	nonce := max(primitives.InitialNonce(x.Block.Height), x.Account.BootstrapNonce)
	x.Account.Initialize()
	if init.Code != nil {
		if fail, err := x.useGlobal(init.Code); fail != nil || err != nil {
			return fail, err
		}
	}
	if err := x.installData(init.Data); err != nil {
		return nil, err
	}
	key := primitives.AccessKey{Nonce: nonce}
	for _, h := range init.AccessKeys {
		x.State.SetAccessKey(x.Receipt.ReceiverID, h, &key)
		if err := x.addUsage(keyUsage(&x.Block.Config.Fees, len(h), &key)); err != nil {
			return nil, err
		}
	}
	return x.settleDeposit(a.Deposit)
}

// installData writes the entries of a state init and adds the entries to the account's storage
// usage. The account must have no data yet.
func (x *Execution) installData(data []primitives.StateEntry) error {
	id, extra := x.Receipt.ReceiverID, x.Block.Config.Fees.NumExtraBytesRecord
	for i := range data {
		e := &data[i]
		value := e.Value
		if value == nil {
			value = []byte{}
		}
		x.State.Set(primitives.AppendContractDataKey(nil, id, e.Key), value)
		if err := x.addUsage(uint64(len(e.Key)) + uint64(len(e.Value)) + extra); err != nil {
			return err
		}
	}
	return nil
}

// settleDeposit pays for the storage of a state init. If the account's balance is too small for its
// storage, settleDeposit adds the missing part from the deposit. settleDeposit returns the rest of
// the deposit to the sender. It fails if the deposit is too small.
func (x *Execution) settleDeposit(deposit primitives.Balance) (*failure, error) {
	lack, err := verify.StorageStake(x.Block.Config, &x.Account, x.Account.Amount)
	if err != nil {
		return nil, state.Inconsistent("%w", err)
	}
	rest, ok := deposit.Sub(lack)
	if !ok {
		return &failure{Tag: primitives.ActionLackBalanceForState, AccountID: x.Receipt.ReceiverID, Amount: lack}, nil
	}
	if err := x.credit(lack); err != nil {
		return nil, err
	}
	x.returnDeposit(rest)
	return nil, nil
}

// returnDeposit creates a receipt that refunds amount to the account that RefundReceiver returns.
// returnDeposit creates no receipt if amount is 0.
func (x *Execution) returnDeposit(amount primitives.Balance) {
	if !amount.IsZero() {
		x.Result.NewReceipts = append(x.Result.NewReceipts, BalanceRefund(x.refundReceiver(), amount))
	}
}
