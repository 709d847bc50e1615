package workload

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// receiver draws the receiver of a transfer.
func (g *Generator) receiver() primitives.AccountID {
	switch g.rng.IntN(20) {
	case 0: // an account that does not exist
		return primitives.AccountID(fmt.Sprintf("missing%d.w", g.rng.IntN(9)))
	case 1:
		return primitives.NearImplicitID(g.implicitKey().PublicKey())
	case 2:
		return primitives.EthImplicitID(g.keys.get(primitives.SECP256K1, fmt.Sprint("eth ", g.rng.IntN(5))).PublicKey())
	case 3:
		return primitives.AccountID(fmt.Sprintf("0s%040x", g.rng.IntN(5)))
	case 4:
		if len(g.inits) > 0 {
			return g.inits[g.rng.IntN(len(g.inits))].DerivedAccount()
		}
	case 5:
		return g.created()
	}
	return g.account()
}

func (g *Generator) implicitKey() primitives.SecretKey {
	return g.keys.get(primitives.ED25519, fmt.Sprint("implicit ", g.rng.IntN(6)))
}

// created draws one of the accounts that recent transactions have tried to create.
func (g *Generator) created() primitives.AccountID {
	if len(g.made) == 0 {
		return g.account()
	}
	return g.made[g.rng.IntN(len(g.made))]
}

func (g *Generator) remember(id primitives.AccountID) {
	const few = 32
	if len(g.made) < few {
		g.made = append(g.made, id)
		return
	}
	g.made[g.rng.IntN(few)] = id
}

// amount draws an amount. Most amounts are very small. Some are more than an account has.
func (g *Generator) amount() primitives.Balance {
	switch g.rng.IntN(12) {
	case 0:
		return primitives.NEAR(uint64(g.rng.IntN(40)))
	case 1:
		return primitives.Balance{}
	case 2:
		return primitives.NEAR(uint64(g.rng.IntN(20_000)))
	}
	return primitives.Yocto(g.rng.Uint64())
}

// any draws a transaction of a random kind from a random account. It is not signed yet.
func (g *Generator) any(at Base) *draft {
	from := g.account()
	if g.o.Universal && g.rng.IntN(4) == 0 {
		return g.universal(at, from)
	}
	if g.o.Contracts && g.rng.IntN(2) == 0 {
		return g.contractCall(at, from)
	}
	switch g.rng.IntN(24) {
	case 0, 1:
		return g.createAccount(at, from)
	case 2:
		return g.byGasKey(at, from)
	case 3:
		return g.byExtraKey(at, from)
	case 4:
		return g.byCallKey(at, from)
	case 5:
		return g.stateInit(at, from)
	case 6, 7:
		to := g.account()
		return g.draft(at, from, to, g.delegate(at, to))
	case 8:
		return g.byImplicit(at)
	case 9: // sign as a recently created account
		id := g.created()
		return g.draftBy(at, g.Key(id), id, g.receiver(), g.action(at, id, id))
	case 10: // add keys and fund gas keys in one transaction
		return g.draft(at, from, from, g.addKey(from), g.addKey(from), g.fillGasKey(from), g.fillGasKey(from))
	case 11:
		return g.draft(at, from, from, &primitives.Stake{Stake: g.stake(), PublicKey: StakeKey(from).PublicKey()})
	}
	to := g.receiver()
	if g.rng.IntN(3) == 0 {
		to = from
	}
	var actions []primitives.Action
	for range 1 + g.rng.IntN(3) {
		actions = append(actions, g.action(at, from, to))
	}
	return g.draft(at, from, to, actions...)
}

// action draws an action of a receipt with this sender (from) and receiver (to).
func (g *Generator) action(at Base, from, to primitives.AccountID) primitives.Action {
	switch g.rng.IntN(20) {
	case 0, 1:
		return g.addKey(to)
	case 2:
		return &primitives.DeleteKey{PublicKey: g.extra(to, [...]keyClass{fullKeys, callKeys, gasKeys, gasCalls}[g.rng.IntN(4)]).PublicKey()}
	case 3, 4:
		return g.fillGasKey(to)
	case 5:
		return &primitives.WithdrawFromGasKey{PublicKey: g.extra(to, gasKeys).PublicKey(), Amount: g.amount()}
	case 6:
		return &primitives.Stake{Stake: g.stake(), PublicKey: StakeKey(to).PublicKey()}
	case 7:
		return &primitives.DeployContract{Code: g.code()}
	case 8:
		if g.rng.IntN(3) == 0 {
			return &primitives.DeleteAccount{Beneficiary: g.receiver()}
		}
	case 9:
		call := &primitives.FunctionCall{Method: "m", Args: fmt.Append(nil, g.rng.IntN(1000)),
			Gas: primitives.Gas(1 + g.rng.Uint64N(30_000_000_000_000))}
		if g.rng.IntN(2) == 0 {
			call.Deposit = g.amount()
		}
		return call
	case 10:
		return &primitives.DeployGlobalContract{Code: g.code(), Mode: primitives.GlobalDeployMode(g.rng.IntN(2))}
	case 11:
		return &primitives.UseGlobalContract{ID: g.global()}
	case 12:
		if g.rng.IntN(4) == 0 {
			// If the account exists, the action fails and the whole receipt is reverted.
			return &primitives.CreateAccount{}
		}
	}
	return &primitives.Transfer{Deposit: g.amount()}
}

// code draws one of a few contract codes. None is ever executed. There are few codes, so that
// several accounts deploy the same code.
func (g *Generator) code() []byte {
	code := make([]byte, 1+g.rng.IntN(4)*300)
	code[0] = byte(len(code) / 300)
	return code
}

func (g *Generator) global() primitives.GlobalContractID {
	if g.rng.IntN(2) == 0 {
		return primitives.GlobalContractID{Account: g.account()}
	}
	return primitives.GlobalContractID{Hash: primitives.HashBytes(g.code())}
}

// stake draws a stake: zero, too little for a seat, enough for a seat, or more than any account
// has.
func (g *Generator) stake() primitives.Balance {
	switch g.rng.IntN(6) {
	case 0, 1:
		return primitives.Balance{}
	case 2:
		return primitives.NEAR(uint64(g.rng.IntN(2_000)))
	case 3:
		return primitives.NEAR(3_000_000_000)
	}
	return primitives.NEAR(10_000 + uint64(g.rng.IntN(200_000)))
}

// addKey draws an AddKey action for an account.
func (g *Generator) addKey(id primitives.AccountID) *primitives.AddKey {
	a := &primitives.AddKey{}
	class := [...]keyClass{fullKeys, callKeys, gasKeys, gasKeys, gasCalls}[g.rng.IntN(5)]
	a.PublicKey = g.extra(id, class).PublicKey()
	if class == callKeys || class == gasCalls {
		a.AccessKey.FunctionCall = &primitives.FunctionCallPermission{ReceiverID: string(g.account())}
		if class == callKeys && g.rng.IntN(3) > 0 {
			allowance := primitives.NEAR(uint64(g.rng.IntN(3)))
			a.AccessKey.FunctionCall.Allowance = &allowance
		}
		if g.rng.IntN(2) == 0 {
			a.AccessKey.FunctionCall.MethodNames = []string{"m"}
		}
	}
	if class == gasKeys || class == gasCalls {
		// 0 nonces make the gas key invalid.
		a.AccessKey.GasKey = &primitives.GasKeyInfo{NumNonces: uint16(g.rng.IntN(5))}
		if g.rng.IntN(12) == 0 {
			a.AccessKey.GasKey.Balance = primitives.Yocto(1) // a new gas key with a balance is invalid
		}
	}
	return a
}

func (g *Generator) fillGasKey(id primitives.AccountID) *primitives.TransferToGasKey {
	a := &primitives.TransferToGasKey{PublicKey: g.extra(id, gasKeys).PublicKey(), Deposit: g.amount()}
	if g.rng.IntN(2) == 0 {
		a.Deposit = primitives.NEAR(uint64(g.rng.IntN(3)))
	}
	return a
}

// createAccount returns a transaction that creates a sub-account with a key and tokens. Some of
// these transactions fail on purpose.
func (g *Generator) createAccount(at Base, from primitives.AccountID) *draft {
	to := primitives.AccountID(fmt.Sprintf("%c%d.%s", 'a'+g.rng.IntN(26), g.rng.IntN(1000), from))
	deposit := primitives.NEAR(uint64(1 + g.rng.IntN(9)))
	switch g.rng.IntN(10) {
	case 0: // without tokens, an account may have at most 770 bytes of state
		deposit = primitives.Balance{}
	case 1: // a sub-account of any account
		to = primitives.AccountID(fmt.Sprintf("x%d.%s", g.rng.IntN(9), g.account()))
	case 2: // a top-level account
		to = primitives.AccountID(fmt.Sprintf("top%d", g.rng.IntN(9)))
	case 3: // an existing account
		to = g.account()
	}
	actions := []primitives.Action{
		&primitives.CreateAccount{}, &primitives.Transfer{Deposit: deposit}, &primitives.AddKey{PublicKey: g.Key(to).PublicKey()},
	}
	switch g.rng.IntN(6) {
	case 0:
		actions = append(actions, g.addKey(to), g.fillGasKey(to))
	case 1: // too few tokens for the account's state
		actions[1] = &primitives.Transfer{Deposit: primitives.Yocto(1000)}
		actions = append(actions, &primitives.DeployContract{Code: make([]byte, 2000)})
	case 2:
		actions = append(actions, &primitives.DeployContract{Code: g.code()})
	}
	g.remember(to)
	return g.draft(at, from, to, actions...)
}

// byExtraKey returns a transaction signed with one of the account's extra full access keys. The key
// may not have been added.
func (g *Generator) byExtraKey(at Base, from primitives.AccountID) *draft {
	to := g.receiver()
	if g.rng.IntN(2) == 0 {
		to = from
	}
	return g.draftBy(at, g.extra(from, fullKeys), from, to, g.action(at, from, to))
}

// byCallKey returns a function call signed with a function call key. Some of these calls are
// invalid: they are to a contract that the key does not allow, or have a deposit.
func (g *Generator) byCallKey(at Base, from primitives.AccountID) *draft {
	call := &primitives.FunctionCall{Method: [...]string{"m", "m", "n"}[g.rng.IntN(3)],
		Gas: primitives.Gas(1 + g.rng.Uint64N(10_000_000_000_000))}
	if g.rng.IntN(8) == 0 {
		call.Deposit = primitives.Yocto(1)
	}
	return g.draftBy(at, g.extra(from, callKeys), from, g.account(), call)
}

// byGasKey returns a transaction paid by a gas key. Its nonce index may be one that the key does
// not have.
func (g *Generator) byGasKey(at Base, from primitives.AccountID) *draft {
	class, to := gasKeys, g.receiver()
	actions := []primitives.Action{g.action(at, from, to)}
	if g.rng.IntN(4) == 0 {
		class, to = gasCalls, g.account()
		actions = []primitives.Action{&primitives.FunctionCall{Method: "m", Gas: 1_000_000_000_000}}
	}
	d := g.draftBy(at, g.extra(from, class), from, to, actions...)
	d.Version = primitives.TransactionV1
	d.Nonce.HasIndex, d.Nonce.Index = g.rng.IntN(8) > 0, uint16(g.rng.IntN(5))
	return d
}

// byImplicit returns a transaction of an implicit account. The account exists only after it has
// received a transfer.
func (g *Generator) byImplicit(at Base) *draft {
	key := g.implicitKey()
	from := primitives.NearImplicitID(key.PublicKey())
	to := g.receiver()
	return g.draftBy(at, key, from, to, g.action(at, from, to))
}

// stateInit returns a transaction that creates a deterministic account.
func (g *Generator) stateInit(at Base, from primitives.AccountID) *draft {
	init := primitives.StateInit{Code: g.global()}
	if g.rng.IntN(2) == 0 {
		init.Data = []primitives.StateEntry{{Key: []byte("k"), Value: make([]byte, g.rng.IntN(1200))}}
	}
	to := init.DerivedAccount()
	if g.rng.IntN(10) == 0 {
		to = g.account() // the state init does not belong to this account
	} else if len(g.inits) < 16 {
		g.inits = append(g.inits, init)
	}
	return g.draft(at, from, to, &primitives.DeterministicStateInit{Init: init, Deposit: primitives.NEAR(uint64(g.rng.IntN(2)))})
}

// delegate draws a delegate action of sender. Some of these actions are expired, signed with a
// wrong key, have a wrong nonce, or name another sender.
func (g *Generator) delegate(at Base, sender primitives.AccountID) primitives.Action {
	to := g.receiver()
	key := g.Key(sender)
	row := primitives.TransactionNonce{}
	switch g.rng.IntN(8) {
	case 0:
		key = g.extra(sender, fullKeys)
	case 1:
		key = g.extra(sender, gasKeys)
		row.HasIndex, row.Index = true, uint16(g.rng.IntN(4))
	}
	row.Nonce = g.nonce(at, slot(sender, key.PublicKey()))
	until := at.Height + primitives.Height(g.rng.IntN(8))
	signedBy := key
	switch g.rng.IntN(16) {
	case 0:
		row.Nonce -= primitives.NonceRangeMultiplier
	case 1:
		signedBy = g.keys.get(key.Type(), "a key of nobody")
	case 2:
		sender = g.account() // invalid: the transaction's receiver must be the sender
	case 3:
		until = at.Height - 1
	}
	actions := []primitives.Action{g.action(at, sender, to)}
	if g.rng.IntN(2) == 0 {
		actions = append(actions, g.action(at, sender, to))
	}
	if !row.HasIndex && g.rng.IntN(2) == 0 {
		a := primitives.DelegateAction{SenderID: sender, ReceiverID: to, Actions: actions, Nonce: row.Nonce,
			MaxBlockHeight: until, PublicKey: key.PublicKey()}
		hash := a.SignedHash()
		return &primitives.Delegate{Action: a, Signature: signedBy.Sign(hash[:])}
	}
	a := primitives.DelegateActionV2{SenderID: sender, ReceiverID: to, Actions: actions, Nonce: row, MaxBlockHeight: until,
		PublicKey: key.PublicKey()}
	hash := a.SignedHash()
	return &primitives.DelegateV2{Action: a, Signature: signedBy.Sign(hash[:])}
}
