package fees

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// TransactionCost is the cost of converting a transaction into a receipt (nearcore
// TransactionCost).
type TransactionCost struct {
	GasBurnt     primitives.Gas // gas of the conversion; GasBurnt of the outcome
	ComputeBurnt parameters.Compute
	GasRemaining primitives.Gas // gas attached to the receipt

	ReceiptGasPrice primitives.Balance // the price at which GasRemaining is bought
	BurntAmount     primitives.Balance // price of GasBurnt at the current gas price; TokensBurnt of the outcome
	GasCost         primitives.Balance // BurntAmount plus the price of GasRemaining at ReceiptGasPrice
	DepositCost     primitives.Balance
	TotalCost       primitives.Balance // GasCost plus DepositCost; what the signer pays
}

// TxCost returns the cost of t at the current gas price, which is next_gas_price of the previous
// block (nearcore tx_cost, config.rs:417).
func TxCost(c *parameters.RuntimeConfig, t *primitives.Transaction, price primitives.Balance) (TransactionCost, error) {
	same := t.SignerID == t.ReceiverID
	burnt, err := TotalSend(c, same, t.Actions, t.ReceiverID)
	if err != nil {
		return TransactionCost{}, err
	}
	if burnt, err = burnt.Add(NewReceiptSend(c, same)); err != nil {
		return TransactionCost{}, err
	}
	verify, err := SignatureVerification(c, t.PublicKey, t.Actions)
	if err != nil {
		return TransactionCost{}, err
	}
	if burnt, err = burnt.Add(verify); err != nil {
		return TransactionCost{}, err
	}
	remaining, err := attached(c, t.Actions, t.ReceiverID)
	if err != nil {
		return TransactionCost{}, err
	}
	cost := TransactionCost{
		GasBurnt: burnt.Gas, ComputeBurnt: burnt.Compute, GasRemaining: remaining,
		ReceiptGasPrice: price,
	}
	if price.Less(c.MinGasPurchasePrice) {
		cost.ReceiptGasPrice = c.MinGasPurchasePrice
	}
	if cost.DepositCost, err = TotalDeposit(t.Actions); err != nil {
		return TransactionCost{}, err
	}
	var ok1, ok2, ok3, ok4 bool
	var bought primitives.Balance
	cost.BurntAmount, ok1 = price.MulGas(burnt.Gas)
	bought, ok2 = cost.ReceiptGasPrice.MulGas(remaining)
	cost.GasCost, ok3 = cost.BurntAmount.Add(bought)
	cost.TotalCost, ok4 = cost.GasCost.Add(cost.DepositCost)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return TransactionCost{}, ErrOverflow
	}
	return cost, nil
}

// SignatureVerification returns what the signer burns for the verification of the transaction's
// signature and of the delegate actions' signatures. The amount is 0 for the classical schemes, and
// 100 Ggas for each ML-DSA-65 signature (PostQuantumSignatures).
func SignatureVerification(c *parameters.RuntimeConfig, signer primitives.PublicKey, actions []primitives.Action) (parameters.Cost, error) {
	sum := c.Fees.SignatureVerification[signer.Type()]
	for _, a := range actions {
		in, ok := delegated(a)
		if !ok {
			continue
		}
		var err error
		if sum, err = sum.Add(c.Fees.SignatureVerification[in.key.Type()]); err != nil {
			return parameters.Cost{}, err
		}
	}
	return sum, nil
}
