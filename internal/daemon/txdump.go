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

// nonceRange is by how much a block's height bounds nonces (nearcore
// ACCESS_KEY_NONCE_RANGE_MULTIPLIER).
const nonceRange = 1_000_000

// ReplayTransaction writes what a transaction of this or another chain needs, has it run here
// without its signature, and says whether it does what it did. Its block is of then, if that is
// still to come.
func (s steerer) ReplayTransaction(ctx context.Context, c *view.Case) (out view.Replayed, err error) {
	if err := s.may(); err != nil {
		return out, err
	}
	select {
	case s.replays <- struct{}{}:
		defer func() { <-s.replays }()
	case <-ctx.Done():
		return out, steerError(ctx, ctx.Err())
	}
	records, tx := s.prepareReplay(ctx, c)
	if !c.Replace {
		if err := s.losesNothing(ctx, records); err != nil {
			return out, err
		}
	}
	if err := s.LoadState(ctx, records); err != nil {
		return out, err
	}
	head := s.Engine.Head()
	if at := head.Header().Timestamp; c.Timestamp > at+1 {
		// it has passed meanwhile
		if _, err := s.Node.Clock(ctx, messages.SetClock{Next: &c.Timestamp}); err != nil && !errors.Is(err, producer.ErrClock) {
			return out, steerError(ctx, err)
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
			return out, &view.SandboxError{Reason: fmt.Sprintf("the transaction is refused here: %v", invalid)}
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

// prepareReplay returns what is to be written, and the transaction. Its key has just the nonce
// before: it may be used here, however high this chain is.
func (s steerer) prepareReplay(ctx context.Context, c *view.Case) ([]genesis.Record, primitives.Transaction) {
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
		default: // as it was
		}
		records = append(records, r)
	}
	return records, tx
}

// maxLosses bounds the accounts that a refusal names.
const maxLosses = 5

// losesNothing refuses records whose loading would take away what they do not have.
func (s steerer) losesNothing(ctx context.Context, records []genesis.Record) error {
	others, err := s.othersOf(ctx, records)
	if err != nil {
		return err
	}
	var losses []string
	for _, r := range records {
		if gone, ok := r.(*genesis.Removal); ok { // of an account that was not there
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
		default: // data, and nonces of gas keys
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
	return &view.SandboxError{Reason: "what the dump does not have would be taken away: " + strings.Join(losses, "; ") +
		`. Replay it in a world (sandbox_new_world), or with "replace": true`}
}

func (s steerer) hasAccount(ctx context.Context, id primitives.AccountID) (there bool) {
	_ = s.Engine.EachAccount(ctx, s.Engine.Head().Hash, []primitives.AccountID{id}, func(*genesis.AccountRecord) error { there = true; return nil })
	return there
}

// runReplay submits a transaction and returns when it has run.
func (s steerer) runReplay(ctx context.Context, tx *primitives.SignedTransaction) error {
	if s.Node.Mode() != production.Manual {
		_, err := s.Node.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic})
		return steerError(ctx, err)
	}
	switch pooled, err := s.Node.Submit(tx); {
	case err != nil:
		return err
	case !pooled:
		return &view.SandboxError{Reason: "the pool of transactions is full"}
	}
	hash := tx.Hash()
	_, err := s.Mine(ctx, &view.Mine{Until: &hash})
	return err
}
