package refmodel

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

type failure = primitives.ActionErrorKind

// act runs one action of the receipt. It checks that the account exists or is absent, as the action
// requires, and that the actor has permission. Then it executes the action.
func (x *receipt) act(a primitives.Action) *failure {
	id := x.r.ReceiverID
	none := &failure{Tag: primitives.ActionAccountDoesNotExist, AccountID: id}
	// actions.rs check_account_existence
	switch a.(type) {
	case *primitives.CreateAccount:
		if x.account != nil {
			return &failure{Tag: primitives.ActionAccountAlreadyExists, AccountID: id}
		}
		if x.kind(id) != primitives.NamedAccount {
			return &failure{Tag: primitives.ActionOnlyImplicitAccountCreationAllowed, AccountID: id}
		}
	case *primitives.Transfer:
		makes := x.r.PredecessorID != primitives.SystemAccount
		switch x.kind(id) {
		case primitives.NamedAccount:
			makes = false
		case primitives.UniversalAccount: // a transfer creates a universal account, whatever the other actions are
		default:
			makes = makes && len(x.b.Actions) == 1
		}
		if x.account == nil && !makes {
			return none
		}
	case *primitives.DeterministicStateInit, *primitives.UniversalStateInit:
	default:
		if x.account == nil {
			return none
		}
		if x.account.Bare {
			return &failure{Tag: primitives.ActionAccountNotInitialized, AccountID: id}
		}
	}
	// check_actor_permissions
	switch a.(type) {
	case *primitives.DeployContract, *primitives.Stake, *primitives.AddKey, *primitives.DeleteKey, *primitives.DeployGlobalContract,
		*primitives.UseGlobalContract, *primitives.WithdrawFromGasKey, *primitives.DeleteAccount:
		if x.actor != id {
			return &failure{Tag: primitives.ActionActorNoPermission, AccountID: id, ActorID: x.actor}
		}
	default: // any account may run the remaining actions
	}
	switch a := a.(type) {
	case *primitives.CreateAccount:
		return x.create()
	case *primitives.DeployContract:
		x.account.set(local(a.Code), a.Code)
		x.bring(a.Code)
	case *primitives.FunctionCall:
		return x.call(a)
	case *primitives.Transfer:
		return x.transfer(a.Deposit)
	case *primitives.Stake:
		return x.stake(a)
	case *primitives.AddKey:
		return x.addKey(a)
	case *primitives.DeleteKey:
		return x.deleteKey(a.PublicKey)
	case *primitives.DeleteAccount:
		return x.deleteAccount(a.Beneficiary)
	case *primitives.Delegate:
		d := &a.Action
		return x.delegate(delegated{d.SenderID, d.ReceiverID, d.Actions, primitives.TransactionNonce{Nonce: d.Nonce},
			d.MaxBlockHeight, d.PublicKey}, a.Signature, d.SignedHash())
	case *primitives.DelegateV2:
		d := &a.Action
		return x.delegate(delegated{d.SenderID, d.ReceiverID, d.Actions, d.Nonce, d.MaxBlockHeight, d.PublicKey}, a.Signature, d.SignedHash())
	case *primitives.DeployGlobalContract:
		return x.deployGlobal(a)
	case *primitives.UseGlobalContract:
		return x.use(a.ID)
	case *primitives.DeterministicStateInit:
		return x.stateInit(a)
	case *primitives.UniversalStateInit:
		return x.universalInit(a)
	case *primitives.TransferToGasKey:
		k := x.account.key(a.PublicKey)
		if k == nil || k.GasKey == nil {
			return &failure{Tag: primitives.ActionGasKeyDoesNotExist, AccountID: id, PublicKey: a.PublicKey}
		}
		k.GasKey.Balance = more(k.GasKey.Balance, a.Deposit)
	case *primitives.WithdrawFromGasKey:
		k := x.account.key(a.PublicKey)
		if k == nil || k.GasKey == nil {
			return &failure{Tag: primitives.ActionGasKeyDoesNotExist, AccountID: id, PublicKey: a.PublicKey}
		}
		if k.GasKey.Balance.Less(a.Amount) {
			return &failure{Tag: primitives.ActionInsufficientGasKeyBalance, AccountID: id, PublicKey: a.PublicKey,
				Balance: k.GasKey.Balance, Required: a.Amount}
		}
		k.GasKey.Balance = less(k.GasKey.Balance, a.Amount)
		x.account.Amount = more(x.account.Amount, a.Amount)
	default:
		panic(fmt.Sprintf("rules: no case for %T", a))
	}
	return nil
}

// appear creates the receiver's account. Later actions of the receipt use the account.
func (x *receipt) appear() {
	x.account = newAccount()
	x.Accounts[x.r.ReceiverID] = x.account
}

func (x *receipt) create() *failure {
	id, by := x.r.ReceiverID, x.r.PredecessorID
	switch {
	case id.IsTopLevel():
		if len(id) < shortestTopLevel && by != registrar {
			return &failure{Tag: primitives.ActionCreateAccountOnlyByRegistrar, AccountID: id, RegistrarID: registrar, PredecessorID: by}
		}
	case !id.IsSubAccountOf(by):
		return &failure{Tag: primitives.ActionCreateAccountNotAllowed, AccountID: id, PredecessorID: by}
	}
	x.appear()
	x.actor = id
	return nil
}

func (x *receipt) transfer(amount primitives.Balance) *failure {
	id := x.r.ReceiverID
	if x.account != nil {
		var k *Key // access key whose allowance gets the gas refund
		if x.r.PredecessorID == primitives.SystemAccount && x.b.SignerID == id {
			k = x.account.key(x.b.SignerPublicKey)
		}
		if k != nil && k.GasKey != nil {
			k.GasKey.Balance = more(k.GasKey.Balance, amount)
			return nil
		}
		x.account.Amount = more(x.account.Amount, amount)
		if k != nil && k.FunctionCall != nil && k.FunctionCall.Allowance != nil {
			sum := k.FunctionCall.Allowance.SaturatingAdd(amount)
			p := *k.FunctionCall
			p.Allowance, k.FunctionCall = &sum, &p
		}
		return nil
	}
	x.appear()
	x.account.Amount = amount
	// A universal account without state is not the actor of later actions.
	if x.kind(id) == primitives.UniversalAccount {
		x.account.Bare, x.account.Nonce = true, x.firstNonce()
		return nil
	}
	x.actor = id
	switch x.kind(id) {
	case primitives.NearImplicitAccount:
		pk, _ := primitives.KeyOfNearImplicit(id)
		x.account.put(pk.Handle(), &Key{AccessKey: primitives.AccessKey{Nonce: x.firstNonce()}})
	case primitives.EthImplicitAccount:
		x.account.set(primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: EthWallet}, nil)
	}
	return nil
}

// firstNonce returns the initial nonce of a key that this chunk adds.
func (c *Chunk) firstNonce() primitives.Nonce { return primitives.Nonce(c.Height-1) * noncesOfABlock }

func (x *receipt) stake(a *primitives.Stake) *failure {
	id, acc := x.r.ReceiverID, x.account
	switch raise := a.Stake.SaturatingSub(acc.Locked); {
	case acc.Amount.Less(raise):
		return &failure{Tag: primitives.ActionTriesToStake, AccountID: id, Stake: a.Stake, Locked: acc.Locked, Balance: acc.Amount}
	case acc.Locked.IsZero() && a.Stake.IsZero():
		return &failure{Tag: primitives.ActionTriesToUnstake, AccountID: id}
	case !a.Stake.IsZero() && a.Stake.Less(MinimumStake):
		return &failure{Tag: primitives.ActionInsufficientStake, AccountID: id, Stake: a.Stake, MinimumStake: MinimumStake}
	case acc.Locked.Less(a.Stake):
		acc.Amount, acc.Locked = less(acc.Amount, raise), a.Stake
	}
	return nil
}

func (x *receipt) addKey(a *primitives.AddKey) *failure {
	if x.account.key(a.PublicKey) != nil {
		return &failure{Tag: primitives.ActionAddKeyAlreadyExists, AccountID: x.r.ReceiverID, PublicKey: a.PublicKey}
	}
	k := &Key{AccessKey: a.AccessKey}
	if k.Nonce = x.firstNonce(); a.AccessKey.GasKey != nil {
		g := *a.AccessKey.GasKey
		k.GasKey, k.Nonce = &g, 0
		for range g.NumNonces {
			k.Rows = append(k.Rows, x.firstNonce())
		}
	}
	x.account.put(a.PublicKey.Handle(), k)
	return nil
}

func (x *receipt) deleteKey(pk primitives.PublicKey) *failure {
	k := x.account.key(pk)
	if k == nil {
		return &failure{Tag: primitives.ActionDeleteKeyDoesNotExist, AccountID: x.r.ReceiverID, PublicKey: pk}
	}
	if k.GasKey != nil {
		if primitives.NEAR(1).Less(k.GasKey.Balance) {
			return &failure{Tag: primitives.ActionGasKeyBalanceTooHigh, AccountID: x.r.ReceiverID, PublicKey: pk, Balance: k.GasKey.Balance}
		}
		x.burnt = more(x.burnt, k.GasKey.Balance)
	}
	x.account.Usage -= min(x.account.Usage, k.usage(pk.Handle()))
	delete(x.account.Keys, pk.Handle())
	return nil
}

func (x *receipt) deleteAccount(to primitives.AccountID) *failure {
	id, acc := x.r.ReceiverID, x.account
	if !acc.Locked.IsZero() {
		return &failure{Tag: primitives.ActionDeleteAccountStaking, AccountID: id}
	}
	if acc.Usage > acc.contractBytes()+mostBytesDeleted {
		return &failure{Tag: primitives.ActionDeleteAccountWithLargeState, AccountID: id}
	}
	var held primitives.Balance
	for _, k := range acc.Keys {
		if k.GasKey != nil {
			held = more(held, k.GasKey.Balance)
		}
	}
	if primitives.NEAR(1).Less(held) {
		return &failure{Tag: primitives.ActionGasKeyBalanceTooHigh, AccountID: id, Balance: held}
	}
	x.burnt = more(x.burnt, held)
	if !acc.Amount.IsZero() {
		x.made = append(x.made, refund(to, acc.Amount))
	}
	delete(x.Accounts, id)
	x.account, x.actor = nil, x.r.PredecessorID
	return nil
}

func (x *receipt) deployGlobal(a *primitives.DeployGlobalContract) *failure {
	id := x.r.ReceiverID
	cost, _ := primitives.Yocto(perByte).Mul64(perCodeByte * uint64(len(a.Code)))
	if x.account.Amount.Less(cost) {
		return &failure{Tag: primitives.ActionLackBalanceForState, AccountID: id, Amount: cost}
	}
	x.account.Amount = less(x.account.Amount, cost)
	x.burnt = more(x.burnt, cost)
	name := primitives.GlobalContractID{Account: id}
	if a.Mode == primitives.GlobalByCodeHash {
		name = primitives.GlobalContractID{Hash: primitives.HashBytes(a.Code)}
	}
	x.Nonces[name]++
	x.made = append(x.made, &primitives.Receipt{PredecessorID: id, ReceiverID: primitives.SystemAccount,
		Body: &primitives.GlobalContractDistribution{
			ID: name, Code: a.Code, V2: true, Nonce: x.Nonces[name],
		}})
	return nil
}

func (x *receipt) use(id primitives.GlobalContractID) *failure {
	if _, ok := x.Global[id]; !ok {
		return &failure{Tag: primitives.ActionGlobalContractDoesNotExist, Identifier: id}
	}
	c := primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: id.Hash}
	if id.Account != "" {
		c = primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: id.Account}
	}
	x.account.set(c, nil)
	return nil
}

func (x *receipt) stateInit(a *primitives.DeterministicStateInit) *failure {
	if x.account == nil {
		x.appear()
	}
	acc := x.account
	if acc.Contract.Kind == primitives.ContractNone {
		if e := x.use(a.Init.Code); e != nil {
			return e
		}
		for _, e := range a.Init.Data {
			acc.write(string(e.Key), string(e.Value))
		}
	}
	return x.take(a.Deposit)
}

// write adds an entry to the account's contract data.
func (a *Account) write(key, value string) {
	a.Data[key] = value
	a.Usage += uint64(len(key)) + uint64(len(value)) + bytesOfRecord
}

// take adds to the account the part of a deposit that it lacks for its storage. It refunds the
// rest.
func (x *receipt) take(deposit primitives.Balance) *failure {
	lack := x.account.lacks()
	if deposit.Less(lack) {
		return &failure{Tag: primitives.ActionLackBalanceForState, AccountID: x.r.ReceiverID, Amount: lack}
	}
	x.account.Amount = more(x.account.Amount, lack)
	x.giveBack(less(deposit, lack))
	return nil
}

func (x *receipt) giveBack(amount primitives.Balance) {
	if !amount.IsZero() {
		x.made = append(x.made, refund(x.refundTo(), amount))
	}
}
