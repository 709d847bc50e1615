package apply

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// Group holds the waiting transactions of one signer, key and nonce index, by ascending nonce. All
// have passed verify.Transaction.
type Group interface {
	Peek() *primitives.SignedTransaction // next transaction; nil: no transaction is left
	Pop()
}

// Candidates yields groups in turns. A group that still has transactions comes again after the
// other groups, unless the group's last turn removed no transaction. NextGroup returns nil at the
// end.
type Candidates interface{ NextGroup() Group }

// PrepareInput is everything that the choice of a new chunk's transactions depends on.
type PrepareInput struct {
	Trie       state.Trie // state after the previous chunk of the shard
	Config     *parameters.RuntimeConfig
	Layout     primitives.ShardLayout // layout of the new block's epoch
	ShardID    primitives.ShardID
	PrevHeight primitives.Height  // height of the block that the chunk builds on
	GasPrice   primitives.Balance // next_gas_price of that block
	Congestion []ShardCongestion  // congestion info from that block's chunk headers
	Candidates Candidates

	// Valid returns whether the block that a transaction refers to is an ancestor and recent
	// enough. Fresh returns only whether that block is recent enough.
	Valid, Fresh func(*primitives.SignedTransaction) bool
	// Stop is called before each group and returns true when the time is over. nil: no time limit.
	Stop func() bool
}

// Limit says which limit ended the choice.
type Limit byte

const (
	LimitNone Limit = iota // no candidate was left
	LimitGas
	LimitSize
	LimitTime
	LimitProof
	Limits // number of limits
)

// String returns the limit's name as in nearcore's metrics (chain/chain/src/types.rs:474).
func (l Limit) String() string {
	return [Limits]string{"NoMoreTxsInPool", "Gas", "Size", "Time", "StorageProofSize"}[l]
}

// DropReason says why a candidate was dropped.
type DropReason byte

const (
	DropExpired   DropReason = iota // the strict nonce leaves a gap, and the transaction is too old to wait longer
	DropCongested                   // the receiver's shard accepts no transactions
	DropChain                       // the transaction's block hash is unknown, too old or on another branch
	DropInvalid                     // the transaction is invalid; Err has the reason
)

// Dropped is a candidate that was removed and not chosen.
type Dropped struct {
	*primitives.SignedTransaction
	Reason DropReason
	Err    *primitives.InvalidTxError // set if Reason is DropInvalid
}

// Prepared is the result of Prepare.
type Prepared struct {
	Transactions []*primitives.SignedTransaction
	Dropped      []Dropped
	Limit        Limit
	Gas          primitives.Gas // gas burnt by the conversion of Transactions into receipts
	GasLimit     primitives.Gas // gas from which on no further transaction is chosen
	Size         uint64         // size of the encoded Transactions with signatures, in bytes
	RecordedSize uint64         // size of the state that was read, in bytes
}

// Prepare chooses the transactions of a new chunk (nearcore chain/chain/src/runtime/mod.rs:893).
// Chunk validators check each transaction but not the choice. The chosen transactions are valid
// in a block at the height after PrevHeight.
func Prepare(in *PrepareInput) (*Prepared, error) {
	own := congestion.Control{Config: &in.Config.CongestionControl}
	for i := range in.Congestion {
		if in.Congestion[i].Shard == in.ShardID {
			own.Info, own.Missed = in.Congestion[i].Info, in.Congestion[i].Missed
		}
	}
	p := &preparation{in: in, u: state.New(in.Trie, ^uint64(0)), out: new(Prepared)}
	gasLimit := own.ProcessTxLimit()
	p.out.GasLimit = gasLimit
	sizeLimit := in.Config.Witness.CombinedTransactionsSizeLimit
	for {
		g := in.Candidates.NextGroup()
		switch {
		case g == nil:
			return p.done(LimitNone), nil
		case p.out.Gas >= gasLimit:
			return p.done(LimitGas), nil
		case p.out.Size >= sizeLimit:
			return p.done(LimitSize), nil
		case in.Stop != nil && in.Stop():
			return p.done(LimitTime), nil
		case p.u.RecordedSize() > in.Config.Witness.NewTransactionsValidationStateSizeSoftLimit:
			return p.done(LimitProof), nil
		}
		full, err := p.turn(g, sizeLimit)
		if err != nil {
			return nil, err
		}
		if full {
			return p.done(LimitSize), nil
		}
	}
}

// preparation is the state of one Prepare. Charges are written to an update that is discarded at
// the end.
type preparation struct {
	in  *PrepareInput
	u   *state.TrieUpdate
	out *Prepared
}

func (p *preparation) done(l Limit) *Prepared {
	p.out.Limit, p.out.RecordedSize = l, p.u.RecordedSize()
	return p.out
}

func (p *preparation) drop(tx *primitives.SignedTransaction, why DropReason, err *primitives.InvalidTxError) {
	p.out.Dropped = append(p.out.Dropped, Dropped{tx, why, err})
}

// turn takes at most one transaction of a group. full means that the group's next transaction
// does not fit into the chunk.
func (p *preparation) turn(g Group, sizeLimit uint64) (full bool, err error) {
	for {
		tx := g.Peek()
		if tx == nil {
			return false, nil
		}
		size := uint64(tx.Size())
		if p.out.Size+size > sizeLimit {
			return true, nil
		}
		if tx.NonceMode == primitives.NonceStrict {
			gap, err := p.gap(tx)
			if err != nil {
				return false, err
			}
			if gap && p.in.Fresh(tx) {
				return false, nil // keep the transaction in the pool, because the missing nonces may still arrive
			}
			if gap {
				g.Pop()
				p.drop(tx, DropExpired, nil)
				continue
			}
		}
		g.Pop()
		if p.refused(tx) {
			p.drop(tx, DropCongested, nil)
			continue
		}
		if !p.in.Valid(tx) {
			p.drop(tx, DropChain, nil)
			continue
		}
		gas, e, err := p.charge(&tx.Transaction)
		if err != nil {
			return false, err
		}
		if e != nil {
			p.drop(tx, DropInvalid, e)
			continue
		}
		p.out.Gas += gas
		p.out.Size += size
		p.out.Transactions = append(p.out.Transactions, tx)
		return false, nil
	}
}

// gap returns whether nonces before a strict nonce are missing. gap returns false if the key does
// not exist, which the full check reports. gap does not record its read, because Prepare may not
// choose the transaction.
func (p *preparation) gap(tx *primitives.SignedTransaction) (bool, error) {
	stored, found, err := p.u.PeekNonce(tx.SignerID, tx.PublicKey.Handle(), tx.Nonce)
	return found && tx.Nonce.Nonce > stored && tx.Nonce.Nonce-stored > 1, err
}

// refused returns whether the receiver's shard is too congested to accept transactions.
func (p *preparation) refused(tx *primitives.SignedTransaction) bool {
	to := p.in.Layout.ShardOf(tx.ReceiverID)
	for i := range p.in.Congestion {
		if s := &p.in.Congestion[i]; s.Shard == to {
			c := congestion.Control{Config: &p.in.Config.CongestionControl, Info: s.Info, Missed: s.Missed}
			return c.RefusesTransactions().Refused
		}
	}
	return false
}

// charge charges the signer if the transaction is valid in a block at the height after PrevHeight.
// charge returns the gas that the transaction's conversion burns.
func (p *preparation) charge(tx *primitives.Transaction) (primitives.Gas, *primitives.InvalidTxError, error) {
	var s signer
	handle := tx.PublicKey.Handle()
	view, err := readSigner(p.u, tx, handle, &s)
	if err != nil {
		return 0, nil, err
	}
	if e := verify.MissingSigner(p.in.Config, tx, view, verify.InChunk); e != nil {
		return 0, e, nil
	}
	cost, e := verify.Cost(p.in.Config, tx, p.in.GasPrice)
	if e != nil {
		return 0, e, nil
	}
	v := verify.Charge(p.in.Config, tx, &cost, view, p.in.PrevHeight+1)
	if v.Err != nil {
		return 0, v.Err, nil
	}
	s.store(p.u, tx, handle, &v.Charges)
	return v.Charges.GasBurnt, nil, nil
}
