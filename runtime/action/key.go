package action

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// keyUsage returns the storage that an access key takes, in bytes: the key's handle, the key's
// record and a fixed part.
func keyUsage(f *parameters.Fees, handleLen int, k *primitives.AccessKey) uint64 {
	var buf [512]byte
	return uint64(handleLen) + uint64(len(k.AppendBorsh(buf[:0]))) + f.NumExtraBytesRecord
}

// gasKeyUsage returns the storage of a key and its nonces.
func gasKeyUsage(f *parameters.Fees, handleLen int, k *primitives.AccessKey) uint64 {
	rows := uint64(0)
	if k.GasKey != nil {
		rows = uint64(k.GasKey.NumNonces)
	}
	return rows*(uint64(handleLen)+2+8+f.NumExtraBytesRecord) + keyUsage(f, handleLen, k)
}

// addKey adds an access key or gas key. The key's nonce starts above every nonce that a deleted key
// with this public key can have used.
func (x *Execution) addKey(a *primitives.AddKey) (*failure, error) {
	id, handle := x.Receipt.ReceiverID, a.PublicKey.Handle()
	var old primitives.AccessKey
	if found, err := x.State.AccessKey(id, handle, &old); err != nil {
		return nil, err
	} else if found {
		return &failure{Tag: primitives.ActionAddKeyAlreadyExists, AccountID: id, PublicKey: a.PublicKey}, nil
	}
	key := a.AccessKey
	if key.GasKey == nil {
		key.Nonce = primitives.InitialNonce(x.Block.Height)
	} else {
		key.Nonce = 0 // the nonces of a gas key are stored under separate trie keys
		for i := range key.GasKey.NumNonces {
			x.State.SetGasKeyNonce(id, handle, i, primitives.InitialNonce(x.Block.Height))
		}
	}
	x.State.SetAccessKey(id, handle, &key)
	return nil, x.addUsage(gasKeyUsage(&x.Block.Config.Fees, len(handle), &key))
}

// deleteKey removes an access key, or a gas key with a balance that is small enough to burn.
func (x *Execution) deleteKey(a *primitives.DeleteKey) (*failure, error) {
	id, handle := x.Receipt.ReceiverID, a.PublicKey.Handle()
	var key primitives.AccessKey
	found, err := x.State.AccessKey(id, handle, &key)
	if err != nil {
		return nil, err
	}
	if !found {
		return &failure{Tag: primitives.ActionDeleteKeyDoesNotExist, AccountID: id, PublicKey: a.PublicKey}, nil
	}
	if g := key.GasKey; g != nil {
		if maxGasKeyBurn.Less(g.Balance) {
			return &failure{Tag: primitives.ActionGasKeyBalanceTooHigh, AccountID: id, PublicKey: a.PublicKey, Balance: g.Balance}, nil
		}
		if err := x.burn(g.Balance); err != nil {
			return nil, err
		}
		for i := range g.NumNonces {
			x.State.RemoveGasKeyNonce(id, handle, i)
		}
		n := uint64(g.NumNonces)
		compute, err := fees.NonceRowsRemoval(x.Block.Config, n, n*uint64(primitives.GasKeyNonceKeyLen(len(id), len(handle))))
		if err == nil {
			err = x.addCompute(compute)
		}
		if err != nil {
			return nil, err
		}
	}
	x.State.RemoveAccessKey(id, handle)
	x.subUsage(gasKeyUsage(&x.Block.Config.Fees, len(handle), &key))
	return nil, nil
}

// gasKey reads a gas key. fail is set if the key does not exist or is an ordinary access key.
func (x *Execution) gasKey(pk primitives.PublicKey, key *primitives.AccessKey) (h primitives.PublicKeyHandle, fail *failure, err error) {
	h = pk.Handle()
	found, err := x.State.AccessKey(x.Receipt.ReceiverID, h, key)
	if err == nil && (!found || key.GasKey == nil) {
		fail = &failure{Tag: primitives.ActionGasKeyDoesNotExist, AccountID: x.Receipt.ReceiverID, PublicKey: pk}
	}
	return h, fail, err
}

// transferToGasKey adds to a gas key's balance. Every account may do so.
func (x *Execution) transferToGasKey(a *primitives.TransferToGasKey) (*failure, error) {
	var key primitives.AccessKey
	h, fail, err := x.gasKey(a.PublicKey, &key)
	if fail != nil || err != nil {
		return fail, err
	}
	sum, ok := key.GasKey.Balance.Add(a.Deposit)
	if !ok {
		return nil, state.Inconsistent("gas key balance of %s: %w", x.Receipt.ReceiverID, primitives.ErrOverflow)
	}
	key.GasKey.Balance = sum
	x.State.SetAccessKey(x.Receipt.ReceiverID, h, &key)
	return nil, nil
}

// withdrawFromGasKey moves tokens from a gas key's balance to the key's account.
func (x *Execution) withdrawFromGasKey(a *primitives.WithdrawFromGasKey) (*failure, error) {
	var key primitives.AccessKey
	h, fail, err := x.gasKey(a.PublicKey, &key)
	if fail != nil || err != nil {
		return fail, err
	}
	rest, ok := key.GasKey.Balance.Sub(a.Amount)
	if !ok {
		return &failure{
			Tag: primitives.ActionInsufficientGasKeyBalance, AccountID: x.Receipt.ReceiverID, PublicKey: a.PublicKey,
			Balance: key.GasKey.Balance, Required: a.Amount,
		}, nil
	}
	key.GasKey.Balance = rest
	x.State.SetAccessKey(x.Receipt.ReceiverID, h, &key)
	return nil, x.credit(a.Amount)
}
