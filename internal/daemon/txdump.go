package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-chain/troupe/actors/producer"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// nonceRange is a factor: a new key's nonce is at most about this factor times the block's height
// (nearcore ACCESS_KEY_NONCE_RANGE_MULTIPLIER).
const nonceRange = 1_000_000

// ReplayTransaction executes a transaction of this or another chain on this chain, without its
// signature, and compares the outcomes. Before that, it loads the records that the transaction
// needs. If the original timestamp is later than the head's timestamp, the block gets the original
// timestamp.
func (s sandboxControl) ReplayTransaction(ctx context.Context, c *view.Case) (out view.Replayed, err error) {
	if err := s.checkSandbox(); err != nil {
		return out, err
	}
	select {
	case s.replays <- struct{}{}:
		defer func() { <-s.replays }()
	case <-ctx.Done():
		return out, sandboxError(ctx, ctx.Err())
	}
	records, tx := s.prepareReplay(ctx, c)
	if !c.Replace {
		if err := s.checkNoLoss(ctx, records); err != nil {
			return out, err
		}
	}
	if err := s.LoadState(ctx, records); err != nil {
		return out, err
	}
	head := s.Engine.Head()
	if at := head.Header().Timestamp; c.Timestamp > at+1 {
		// ErrClock means that the clock has already passed this time.
		if _, err := s.Node.Clock(ctx, messages.SetClock{Next: &c.Timestamp}); err != nil && !errors.Is(err, producer.ErrClock) {
			return out, sandboxError(ctx, err)
		}
	}
	tx.BlockHash = head.Hash
	unsigned := primitives.NewSignedTransaction(tx, primitives.ZeroED25519Signature)
	out.Hash = unsigned.Hash()
	s.checker.AllowOnce(&out.Hash)
	defer s.checker.AllowOnce(nil)
	if err := s.runReplay(ctx, unsigned); err != nil {
		var invalid *primitives.InvalidTxError
		if errors.As(err, &invalid) {
			return out, &view.SandboxError{Reason: fmt.Sprintf("the transaction is invalid here: %v", invalid)}
		}
		return out, err
	}
	if len(c.Outcomes) == 0 {
		return out, nil
	}
	now, err := s.Engine.Deeds(out.Hash)
	if err == nil {
		out.Differs = view.DeedsDiffer(c.Outcomes, now)
	}
	return out, err
}

// prepareReplay returns the records to write and the transaction. The nonce of the signing key is
// set to one below the transaction's nonce. If the signer is an uninitialized account, the same is
// done with the account's nonce. So the transaction is valid at any height of this chain.
func (s sandboxControl) prepareReplay(ctx context.Context, c *view.Case) ([]genesis.Record, primitives.Transaction) {
	tx := c.Tx.Transaction
	before := tx.Nonce.Nonce - min(tx.Nonce.Nonce, 1)
	if uint64(tx.Nonce.Nonce) >= uint64(s.Engine.Head().Height())*nonceRange {
		before = 0
	}
	tx.Nonce.Nonce = before + 1
	var records []genesis.Record
	for _, id := range c.Absent {
		if s.hasAccount(ctx, id) {
			records = append(records, &genesis.Removal{Of: &genesis.AccountRecord{AccountID: id}})
		}
	}
	for _, r := range c.Records {
		switch k := r.(type) {
		case *genesis.AccessKeyRecord:
			if !tx.Nonce.HasIndex && k.AccountID == tx.SignerID && k.PublicKey == tx.PublicKey.Handle() {
				own := *k
				own.AccessKey.Nonce = before
				r = &own
			}
		case *genesis.GasKeyNonceRecord:
			if tx.Nonce.HasIndex && k.AccountID == tx.SignerID && k.PublicKey == tx.PublicKey.Handle() && k.Index == tx.Nonce.Index {
				own := *k
				own.Nonce = before
				r = &own
			}
		case *genesis.AccountRecord:
			if k.Account.IsInitialized() {
				break
			}
			// Remove the account first: an account with state cannot become uninitialized.
			if s.hasAccount(ctx, k.AccountID) {
				records = append(records, &genesis.Removal{Of: &genesis.AccountRecord{AccountID: k.AccountID}})
			}
			if k.AccountID == tx.SignerID {
				own := *k
				own.Account.BootstrapNonce = before
				r = &own
			}
		default: // records of all other kinds stay as they are
		}
		records = append(records, r)
	}
	return records, tx
}

// maxLosses is the maximum number of accounts that an error names.
const maxLosses = 5

// checkNoLoss returns an error if loading records would remove state that is not in records.
func (s sandboxControl) checkNoLoss(ctx context.Context, records []genesis.Record) error {
	others, err := s.restOf(ctx, records)
	if err != nil {
		return err
	}
	var losses []string
	for _, r := range records {
		if gone, ok := r.(*genesis.Removal); ok { // the record removes an account
			losses = append(losses, fmt.Sprintf("%s would be removed", gone.Owner()))
		}
	}
	counts := map[primitives.AccountID]*[3]int{}
	var order []primitives.AccountID
	for _, r := range others {
		n := counts[r.Owner()]
		if n == nil {
			n = new([3]int)
			counts[r.Owner()] = n
			order = append(order, r.Owner())
		}
		switch r.(type) {
		case *genesis.AccessKeyRecord:
			n[0]++
		case *genesis.ContractRecord:
			n[1]++
		default: // records of data and of gas key nonces
			n[2]++
		}
	}
	for _, id := range order {
		var of []string
		for i, what := range []string{"keys", "code", "values"} {
			switch n := counts[id][i]; {
			case n > 0 && what == "code":
				of = append(of, "its code")
			case n > 0:
				of = append(of, fmt.Sprintf("%d %s", n, what))
			}
		}
		losses = append(losses, fmt.Sprintf("%s would lose %s", id, strings.Join(of, ", ")))
	}
	if len(losses) == 0 {
		return nil
	}
	if more := len(losses) - maxLosses; more > 0 {
		losses = append(losses[:maxLosses], fmt.Sprintf("and %d accounts more", more))
	}
	return &view.SandboxError{Reason: "state that is missing in the dump would be removed: " + strings.Join(losses, "; ") +
		`. Replay it in a world (sandbox_new_world), or with "replace": true`}
}

func (s sandboxControl) hasAccount(ctx context.Context, id primitives.AccountID) (there bool) {
	_ = s.Engine.EachAccount(ctx, s.Engine.Head().Hash, []primitives.AccountID{id},
		func(*genesis.AccountRecord) error { there = true; return nil })
	return there
}

// runReplay submits a transaction and waits for its execution.
func (s sandboxControl) runReplay(ctx context.Context, tx *primitives.SignedTransaction) error {
	if s.Node.Mode() != production.Manual {
		_, err := s.Node.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic})
		return sandboxError(ctx, err)
	}
	switch pooled, err := s.Node.Submit(tx); {
	case err != nil:
		return err
	case !pooled:
		return &view.SandboxError{Reason: "the transaction pool is full; retry later"}
	}
	hash := tx.Hash()
	_, err := s.Mine(ctx, &view.Mine{Until: &hash})
	return err
}
