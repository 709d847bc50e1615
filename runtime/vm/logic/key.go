package logic

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// publicKey is a public key argument. The method publicKey finds out whether the key is valid, but
// the error is reported only after all fees are paid.
type publicKey struct {
	key primitives.PublicKey // empty: the key is invalid
	len int                  // length in bytes that the fees of gas keys count
}

// publicKey reads a key in borsh form.
//
// The fees of gas keys count the bytes of the decoded key, and no bytes for an invalid key
// (near-vm-runner 0.38.0 src/logic/host.rs:3681). The June build instead counts the length that the
// contract passes, which differs for invalid keys. If that length stands for a register
// (inRegister), the June build overflows and its process ends, so there is no result that must be
// reproduced.
func (l *Logic) publicKey(n, ptr uint64) (k publicKey, err error) {
	b, err := l.arg(n, ptr)
	if err != nil {
		return k, err
	}
	if borsh.Unmarshal(b, &k.key) != nil {
		k.key = ""
	}
	k.len = len(k.key)
	if l.cfg.Version.Numbering == primitives.NumberingJune && n != inRegister {
		k.len = len(b)
	}
	return k, nil
}

func (k *publicKey) decode() (primitives.PublicKey, error) {
	if k.key == "" {
		return "", fail(InvalidPublicKey)
	}
	return k.key, nil
}

// stake (promise_index, amount_ptr, public_key_len, public_key_ptr)
func stake(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	amount, err := l.readBalance(a[1])
	if err != nil {
		return 0, err
	}
	k, err := l.publicKey(a[2], a[3])
	if err != nil {
		return 0, err
	}
	return 0, l.keyAction(a[0], k, parameters.ActionStake, func(key primitives.PublicKey) primitives.Action {
		return &primitives.Stake{Stake: amount, PublicKey: key}
	})
}

// deleteKey (promise_index, public_key_len, public_key_ptr)
func deleteKey(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	k, err := l.publicKey(a[1], a[2])
	if err != nil {
		return 0, err
	}
	return 0, l.keyAction(a[0], k, parameters.ActionDeleteKey, func(key primitives.PublicKey) primitives.Action {
		return &primitives.DeleteKey{PublicKey: key}
	})
}

// addFullKey (promise_index, public_key_len, public_key_ptr, nonce)
func addFullKey(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	k, err := l.publicKey(a[1], a[2])
	if err != nil {
		return 0, err
	}
	return 0, l.keyAction(a[0], k, parameters.ActionAddFullAccessKey, func(key primitives.PublicKey) primitives.Action {
		return &primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{Nonce: primitives.Nonce(a[3])}}
	})
}

// keyAction pays for an action on a key and appends the action.
func (l *Logic) keyAction(promise uint64, k publicKey, c parameters.ActionCost, build func(primitives.PublicKey) primitives.Action) error {
	receipt, to, err := l.receiptOf(promise)
	if err != nil {
		return err
	}
	if err := l.payAction(c, l.isSelf(to)); err != nil {
		return err
	}
	key, err := k.decode()
	if err != nil {
		return err
	}
	return l.appendTo(receipt, build(key))
}

// addCallKey (promise_index, public_key_len, public_key_ptr, nonce, allowance_ptr, receiver_id_len,
// receiver_id_ptr, method_names_len, method_names_ptr). An allowance of 0 means unlimited.
func addCallKey(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	k, err := l.publicKey(a[1], a[2])
	if err != nil {
		return 0, err
	}
	p, err := l.readPermission(a[4:])
	if err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	if err := l.payCallKey(p, l.isSelf(to)); err != nil {
		return 0, err
	}
	return 0, l.addKey(receipt, k, p, primitives.AccessKey{Nonce: primitives.Nonce(a[3])})
}

// permission is the permission of a function-call key, in the form in which the contract passes the
// permission.
type permission struct {
	allowance primitives.Balance
	receiver  primitives.AccountID
	names     []byte // method names, separated by commas, none empty; shared with the memory or a register
}

// readPermission reads (allowance_ptr, receiver_id_len, receiver_id_ptr, method_names_len,
// method_names_ptr).
func (l *Logic) readPermission(a []uint64) (*permission, error) {
	p := &permission{}
	var err error
	if p.allowance, err = l.readBalance(a[0]); err != nil {
		return nil, err
	}
	if p.receiver, err = l.accountID(a[1], a[2]); err != nil {
		return nil, err
	}
	if p.names, err = l.arg(a[3], a[4]); err != nil || len(p.names) == 0 {
		return p, err
	}
	// There may be millions of names, far more than a key can have. So the names are split only
	// after the contract has paid for them.
	comma := []byte{','}
	if bytes.HasPrefix(p.names, comma) || bytes.HasSuffix(p.names, comma) || bytes.Contains(p.names, []byte(",,")) {
		return nil, fail(EmptyMethodName)
	}
	return p, nil
}

func (l *Logic) payCallKey(p *permission, self bool) error {
	if err := l.payAction(parameters.ActionAddFunctionCallKeyBase, self); err != nil {
		return err
	}
	n := uint64(len(p.names))
	if n > 0 {
		n++ // each name counts with a terminating zero
	}
	return l.payActionBytes(parameters.ActionAddFunctionCallKeyByte, n, self)
}

// addKey appends the action that adds a key. A nil p means full access.
func (l *Logic) addKey(receipt int, k publicKey, p *permission, access primitives.AccessKey) error {
	key, err := k.decode()
	if err != nil {
		return err
	}
	if p != nil {
		access.FunctionCall = &primitives.FunctionCallPermission{ReceiverID: string(p.receiver)}
		if !p.allowance.IsZero() {
			access.FunctionCall.Allowance = &p.allowance
		}
		if !utf8.Valid(p.names) {
			return fail(InvalidMethodName)
		}
		if len(p.names) > 0 {
			access.FunctionCall.MethodNames = strings.Split(string(p.names), ",") // the names share one copy
		}
	}
	return l.appendTo(receipt, &primitives.AddKey{PublicKey: key, AccessKey: access})
}

// transferToGasKey (promise_index, public_key_len, public_key_ptr, amount_ptr)
func transferToGasKey(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	k, err := l.publicKey(a[1], a[2])
	if err != nil {
		return 0, err
	}
	amount, err := l.readBalance(a[3])
	if err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	send, err := fees.GasKeyTransferSend(&l.cfg.Fees, l.isSelf(to), k.len)
	if err != nil {
		return 0, fail(IntegerOverflow)
	}
	exec, err := fees.GasKeyTransferExec(&l.cfg.Fees, len(to), k.len)
	if err != nil {
		return 0, fail(IntegerOverflow)
	}
	if err := l.payFee(send.Base, exec.Base.Gas, parameters.ActionGasKeyTransferBase); err != nil {
		return 0, err
	}
	if err := l.payFee(send.PerByte, exec.PerByte.Gas, parameters.ActionGasKeyByte); err != nil {
		return 0, err
	}
	if err := l.deduct(amount); err != nil {
		return 0, err
	}
	key, err := k.decode()
	if err != nil {
		return 0, err
	}
	return 0, l.appendTo(receipt, &primitives.TransferToGasKey{PublicKey: key, Deposit: amount})
}

// addFullGasKey (promise_index, public_key_len, public_key_ptr, num_nonces)
func addFullGasKey(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	k, nonces, err := l.gasKey(a[1:])
	if err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	if err := l.payAction(parameters.ActionAddFullAccessKey, l.isSelf(to)); err != nil {
		return 0, err
	}
	return 0, l.addGasKey(receipt, to, k, nil, nonces)
}

// addCallGasKey is addCallKey with num_nonces instead of nonce.
func addCallGasKey(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	k, nonces, err := l.gasKey(a[1:])
	if err != nil {
		return 0, err
	}
	p, err := l.readPermission(a[4:])
	if err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	if err := l.payCallKey(p, l.isSelf(to)); err != nil {
		return 0, err
	}
	return 0, l.addGasKey(receipt, to, k, p, nonces)
}

// gasKey reads (public_key_len, public_key_ptr, num_nonces).
func (l *Logic) gasKey(a []uint64) (k publicKey, nonces uint16, err error) {
	if k, err = l.publicKey(a[0], a[1]); err != nil {
		return k, 0, err
	}
	if a[2] > 1<<16-1 {
		return k, 0, fail(IntegerOverflow)
	}
	return k, uint16(a[2]), nil
}

// addGasKey pays for the nonces of a gas key and appends the action that adds the key.
func (l *Logic) addGasKey(receipt int, to primitives.AccountID, k publicKey, p *permission, nonces uint16) error {
	send, err := fees.GasKeyAddSend(&l.cfg.Fees, l.isSelf(to))
	if err != nil {
		return fail(IntegerOverflow)
	}
	exec, err := fees.GasKeyAddExec(&l.cfg.Fees, len(to), k.len, nonces)
	if err != nil {
		return fail(IntegerOverflow)
	}
	if err := l.payFee(parameters.Cost{}, exec.Base.Gas, parameters.ActionGasKeyNonceWriteBase); err != nil {
		return err
	}
	if err := l.payFee(send, exec.PerByte.Gas, parameters.ActionGasKeyByte); err != nil {
		return err
	}
	return l.addKey(receipt, k, p, primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: nonces}})
}
