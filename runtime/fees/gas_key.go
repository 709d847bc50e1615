package fees

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Lengths that the fees of gas keys are computed from, in bytes (nearcore
// core/primitives-core/src/account.rs:481, trie_key.rs:13).
const (
	gasKeyInfoBytes = 16 + 2     // length of the balance, plus the length of the number of nonces
	minGasKeyBytes  = 8 + 1 + 18 // nonce, tag, info: a full-access gas key
	nonceValueBytes = 8          // length of a nonce
)

// GasKeyFee is a fee in two parts, which are separate entries of a gas profile. Base is
// gas_key_transfer_base or gas_key_nonce_write_base. PerByte is gas_key_byte times the bytes.
type GasKeyFee struct{ Base, PerByte parameters.Cost }

// GasKeyTransferSend returns the send fee of TransferToGasKey and WithdrawFromGasKey for a key
// whose trie form has keyLen bytes (core/parameters/src/cost.rs:794).
func GasKeyTransferSend(fees *parameters.Fees, senderIsReceiver bool, keyLen int) (GasKeyFee, error) {
	p := sendPart(senderIsReceiver)
	return gasKeyFee(fees, p, parameters.ActionGasKeyTransferBase, 1, uint64(keyLen))
}

// GasKeyTransferExec returns the execution fee of TransferToGasKey and WithdrawFromGasKey. The fee
// counts the trie key and the smallest access key record.
func GasKeyTransferExec(fees *parameters.Fees, accountLen, keyLen int) (GasKeyFee, error) {
	n := uint64(primitives.AccessKeyKeyLen(accountLen, keyLen)) + minGasKeyBytes
	return gasKeyFee(fees, exec, parameters.ActionGasKeyTransferBase, 1, n)
}

// GasKeyAddSend returns the send fee that adding a gas key costs in addition to adding an ordinary
// key. This fee pays for the bytes of the gas key info.
func GasKeyAddSend(fees *parameters.Fees, senderIsReceiver bool) (parameters.Cost, error) {
	return sendPart(senderIsReceiver).of(fees.Fee(parameters.ActionGasKeyByte)).Mul(gasKeyInfoBytes)
}

// GasKeyAddExec returns the execution fee that adding a gas key costs in addition to adding an
// ordinary key. This fee pays for one write per nonce and for the bytes of these writes.
func GasKeyAddExec(fees *parameters.Fees, accountLen, keyLen int, numNonces uint16) (GasKeyFee, error) {
	row := uint64(primitives.GasKeyNonceKeyLen(accountLen, keyLen)) + nonceValueBytes
	return gasKeyFee(fees, exec, parameters.ActionGasKeyNonceWriteBase, uint64(numNonces), row*uint64(numNonces))
}

func gasKeyFee(fees *parameters.Fees, p part, base parameters.ActionCost, times, bytes uint64) (f GasKeyFee, err error) {
	if f.Base, err = p.of(fees.Fee(base)).Mul(times); err != nil {
		return GasKeyFee{}, err
	}
	if f.PerByte, err = p.of(fees.Fee(parameters.ActionGasKeyByte)).Mul(bytes); err != nil {
		return GasKeyFee{}, err
	}
	return f, nil
}

// NonceRowsRemoval returns the compute of removing the nonces of a gas key by DeleteKey or
// DeleteAccount. count is the number of nonces, keyBytes the total length of the nonces' trie keys.
// The removal costs no gas (runtime/runtime/src/config.rs storage_removes_compute).
func NonceRowsRemoval(c *parameters.RuntimeConfig, count, keyBytes uint64) (parameters.Compute, error) {
	return storageRemovals(c, count, keyBytes, count*nonceValueBytes)
}

func storageRemovals(c *parameters.RuntimeConfig, count, keyBytes, valueBytes uint64) (parameters.Compute, error) {
	total, err := c.Wasm.Ext[parameters.ExtStorageRemoveBase].Mul(count)
	if err != nil {
		return 0, err
	}
	for _, term := range [...]struct {
		cost parameters.ExtCost
		n    uint64
	}{{parameters.ExtStorageRemoveKeyByte, keyBytes}, {parameters.ExtStorageRemoveRetValueByte, valueBytes}} {
		cost, err := c.Wasm.Ext[term.cost].Mul(term.n)
		if err != nil {
			return 0, err
		}
		if total, err = total.Add(cost); err != nil {
			return 0, err
		}
	}
	return total.Compute, nil
}
