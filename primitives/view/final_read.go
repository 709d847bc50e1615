package view

import (
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// RemoteTransaction is a transaction as reported by another node: its view, with only the hash of
// deployed code, and without the block that it references.
type RemoteTransaction struct {
	Hash             primitives.Hash
	Signer, Receiver primitives.AccountID
	JSON             []byte // the transaction as nearcore's SignedTransactionView
}

// ReadFinalOutcome reads another node's report of a transaction. It has no level.
func ReadFinalOutcome(raw []byte) (*FinalOutcome, error) {
	r := borsh.NewReader(raw)
	o := &FinalOutcome{Status: FinalStatus{Kind: FinalStatusKind(r.Byte())}}
	switch o.Status.Kind {
	case FinalNotStarted, FinalStarted:
	case FinalFailure:
		o.Status.Failure = readFailure(r)
	case FinalSuccessValue:
		o.Status.Value = r.BytesCopy()
	default:
		r.BadTag("FinalExecutionStatus", byte(o.Status.Kind))
	}
	o.Remote = readTransaction(r)
	o.Outcome = readProof(r)
	for n := r.Len(100); n > 0 && r.Err() == nil; n-- {
		o.Outcomes = append(o.Outcomes, readProof(r))
	}
	return o, r.Close()
}

// readFailure reads an error and returns its JSON.
func readFailure(r *borsh.Reader) []byte {
	var e primitives.TxExecutionError
	if e.DecodeBorsh(r); r.Err() != nil {
		return nil
	}
	return e.AppendJSON(nil)
}

func readTransaction(r *borsh.Reader) *RemoteTransaction {
	t := &RemoteTransaction{Signer: primitives.ReadAccountID(r)}
	key, nonce, receiver := primitives.ReadPublicKey(r), r.Uint64(), primitives.ReadAccountID(r)
	b := []byte(`{"actions":[`)
	for i, n := 0, r.Len(1); i < n && r.Err() == nil; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = readAction(r, b)
	}
	fee, signature := r.Uint64(), primitives.ReadSignature(r)
	t.Hash, t.Receiver = primitives.ReadHash(r), receiver
	b = appendUint(append(AppendHash(append(b, `],"hash":`...), &t.Hash), `,"nonce":`...), nonce)
	if r.Option() {
		b = appendUint(append(b, `,"nonce_index":`...), r.Uint16())
	}
	if r.Option() {
		b = append(b, `,"nonce_mode":`...)
		switch mode := r.Byte(); mode {
		case 0:
			b = append(b, `"monotonic"`...)
		case 1:
			b = append(b, `"strict"`...)
		default:
			r.BadTag("NonceMode", mode)
		}
	}
	if r.Err() != nil {
		return nil
	}
	b = strconv.AppendUint(append(b, `,"priority_fee":`...), fee, 10)
	b = AppendAccountID(append(AppendKey(append(b, `,"public_key":`...), key), `,"receiver_id":`...), receiver)
	b = AppendSignature(append(b, `,"signature":`...), signature)
	t.JSON = append(AppendAccountID(append(b, `,"signer_id":`...), t.Signer), '}')
	return t
}

// readAction reads an ActionView and appends its JSON.
func readAction(r *borsh.Reader, b []byte) []byte {
	code := func(name string) []byte {
		return append(AppendBase64(append(append(append(b, `{"`...), name...), `":{"code":`...), r.Bytes()), "}}"...)
	}
	var a primitives.Action
	switch tag := r.Byte(); tag {
	case viewDeployContract:
		return code("DeployContract")
	case viewDeployGlobal:
		return code("DeployGlobalContract")
	case viewDeployGlobalByAccount:
		return code("DeployGlobalContractByAccountId")
	case viewCreateAccount:
		a = &primitives.CreateAccount{}
	case viewFunctionCall:
		c := &primitives.FunctionCall{Method: r.String(), Args: r.BytesCopy(), Gas: primitives.Gas(r.Uint64())}
		c.Deposit.DecodeBorsh(r)
		a = c
	case viewTransfer:
		a = &primitives.Transfer{Deposit: readBalance(r)}
	case viewStake:
		stake := readBalance(r)
		a = &primitives.Stake{Stake: stake, PublicKey: primitives.ReadPublicKey(r)}
	case viewAddKey:
		key := primitives.ReadPublicKey(r)
		a = &primitives.AddKey{PublicKey: key, AccessKey: readKey(r)}
	case viewDeleteKey:
		a = &primitives.DeleteKey{PublicKey: primitives.ReadPublicKey(r)}
	case viewDeleteAccount:
		a = &primitives.DeleteAccount{Beneficiary: primitives.ReadAccountID(r)}
	case viewDelegate:
		d := &primitives.Delegate{}
		d.Action.DecodeBorsh(r)
		d.Signature = primitives.ReadSignature(r)
		a = d
	case viewUseGlobal:
		a = &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Hash: primitives.ReadHash(r)}}
	case viewUseGlobalByAccount:
		a = &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: primitives.ReadAccountID(r)}}
	case viewStateInit:
		s := &primitives.DeterministicStateInit{}
		s.Init.Code.DecodeBorsh(r)
		s.Init.Data = primitives.ReadStateEntries(r)
		s.Deposit = readBalance(r)
		a = s
	case viewUniversalStateInit:
		init := r.Bytes()
		a = &primitives.UniversalStateInit{Init: init, Deposit: readBalance(r)}
	case viewTransferToGasKey:
		key := primitives.ReadPublicKey(r)
		a = &primitives.TransferToGasKey{PublicKey: key, Deposit: readBalance(r)}
	case viewWithdrawFromGasKey:
		key := primitives.ReadPublicKey(r)
		a = &primitives.WithdrawFromGasKey{PublicKey: key, Amount: readBalance(r)}
	case viewDelegateV2:
		if v := r.Byte(); v != 0 {
			r.BadTag("VersionedDelegateActionPayload", v)
		}
		d := &primitives.DelegateV2{}
		d.Action.DecodeBorsh(r)
		d.Signature = primitives.ReadSignature(r)
		a = d
	default:
		r.BadTag("ActionView", tag)
	}
	if r.Err() != nil {
		return b
	}
	return AppendAction(b, a)
}

func readBalance(r *borsh.Reader) (b primitives.Balance) {
	b.DecodeBorsh(r)
	return b
}

// readKey reads AccessKeyView.
func readKey(r *borsh.Reader) (k primitives.AccessKey) {
	k.Nonce = primitives.Nonce(r.Uint64())
	gas := func() {
		b := readBalance(r)
		k.GasKey = &primitives.GasKeyInfo{Balance: b, NumNonces: r.Uint16()}
	}
	calls := func() {
		p := &primitives.FunctionCallPermission{}
		if r.Option() {
			b := readBalance(r)
			p.Allowance = &b
		}
		p.ReceiverID = r.String()
		p.MethodNames, k.FunctionCall = readTexts(r), p
	}
	switch tag := r.Byte(); tag {
	case 0:
		calls()
	case 1:
	case 2:
		gas()
		calls()
	case 3:
		gas()
	default:
		r.BadTag("AccessKeyPermissionView", tag)
	}
	return k
}

func readTexts(r *borsh.Reader) (out []string) {
	for n := r.Len(4); n > 0 && r.Err() == nil; n-- {
		out = append(out, r.String())
	}
	return out
}

// readProof reads ExecutionOutcomeWithIdView.
func readProof(r *borsh.Reader) (o OutcomeProof) {
	o.Proof.DecodeBorsh(r)
	o.BlockHash, o.ID = primitives.ReadHash(r), primitives.ReadHash(r)
	o.Logs, o.ReceiptIDs = readTexts(r), primitives.ReadHashes(r)
	o.GasBurnt = primitives.Gas(r.Uint64())
	o.TokensBurnt.DecodeBorsh(r)
	o.ExecutorID = primitives.ReadAccountID(r)
	o.Status.Kind = primitives.StatusKind(r.Byte())
	switch o.Status.Kind {
	case primitives.StatusUnknown:
	case primitives.StatusFailure:
		o.Status.Failure = readFailure(r)
	case primitives.StatusSuccessValue:
		o.Status.Value = r.BytesCopy()
	case primitives.StatusSuccessReceiptID:
		o.Status.ReceiptID = primitives.ReadHash(r)
	default:
		r.BadTag("ExecutionStatusView", byte(o.Status.Kind))
	}
	m := &o.Metadata
	m.Version = r.Uint32()
	if r.Option() {
		for n := r.Len(16); n > 0 && r.Err() == nil; n-- {
			c := primitives.CostEntry{Category: r.String(), Cost: r.String()}
			c.Gas = primitives.Gas(r.Uint64())
			m.Profile = append(m.Profile, c)
		}
	}
	if r.Option() {
		for n := r.Len(1); n > 0 && r.Err() == nil; n-- {
			m.Contracts = append(m.Contracts, readContract(r))
		}
	}
	return o
}

// readContract reads Option<AccountContractView>.
func readContract(r *borsh.Reader) (c primitives.AccountContract) {
	if !r.Option() {
		return c
	}
	switch tag := r.Byte(); tag {
	case 0:
		c.Kind, c.Hash = primitives.ContractLocal, primitives.ReadHash(r)
	case 1:
		c.Kind, c.Hash = primitives.ContractGlobalHash, primitives.ReadHash(r)
	case 2:
		c.Kind, c.Account = primitives.ContractGlobalAccount, primitives.ReadAccountID(r)
	default:
		r.BadTag("AccountContractView", tag)
	}
	return c
}
