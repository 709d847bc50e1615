package backend

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/txtext"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// How Transactions lists transactions without an index.
//
// The node stores nothing for lists. Each request reads blocks backwards, from the head or from the
// position where the client's previous reply ended. So lists cost nothing until a client requests
// one. A list covers all stored blocks, also after a restart, and needs no handling of
// reorganisations. Of a block without transactions, a request reads only the head of the record.
// The bounds below end a request early; the reply then contains the position from which to
// continue.
//
// A filter by account or for failures selects outcomes of receipts, and lists their originating
// transactions. The parent of a receipt ran in the same block or in an earlier one. So a request
// keeps the ids of selected receipts until it has read the parent's outcome. Such receipts count as
// transactions of the list. A full list selects no further outcomes, but the request reads on until
// it has the transactions of the receipts that it selected: the next request does not select them.
// If the bounds end the request before that, it searches for these transactions as ReceiptToTx
// does.
//
// Rejected: a list in memory that each accepted block extends. Such a list would cost every node
// with a console a few microseconds for each outcome, even without readers, and it would be empty
// after a restart.

// Bounds of one list.
const (
	listBlocks   = 2000   // maximum number of blocks read
	listOutcomes = 20_000 // maximum number of transactions and outcomes read for one list
	// maximum number of outcomes read to describe one transaction; receipts beyond it count as
	// pending
	listReceipts = 300
)

// listing is the state of one request for a list of transactions, with its remaining budget.
type listing struct {
	*Backend
	ctx    context.Context
	q      *view.ListQuery
	out    *view.TransactionList
	blocks int                          // number of blocks that may still be read
	left   int                          // number of transactions and outcomes that may still be read
	wanted map[primitives.Hash]struct{} // ids of receipts whose parent receipt or transaction is still to be found
	tokens map[contractStandard]struct{}
}

type contractStandard struct {
	contract primitives.AccountID
	standard string
}

// Transactions lists transactions of the current chain. Errors: the errors of find for the head.
func (b *Backend) Transactions(ctx context.Context, q *view.ListQuery) (*view.TransactionList, error) {
	return b.transactionsWithin(ctx, q, listBlocks, listOutcomes)
}

// transactionsWithin does the same as Transactions, with these bounds instead of the default ones.
func (b *Backend) transactionsWithin(ctx context.Context, q *view.ListQuery, blocks, outcomes int) (*view.TransactionList, error) {
	head, err := b.find(view.BlockRef{Kind: view.RefOptimistic})
	if err != nil {
		return nil, err
	}
	l := &listing{Backend: b, ctx: ctx, q: q, blocks: blocks, left: outcomes, wanted: map[primitives.Hash]struct{}{},
		tokens: map[contractStandard]struct{}{},
		out:    &view.TransactionList{Head: head.ref.Height, From: head.ref.Height + 1}}
	k, below := head, view.WholeBlock
	if p := q.Before; p != nil {
		if k, err = b.atOrBelow(head, p.Height); err != nil {
			return nil, err
		}
		if k != nil && k.ref.Height == p.Height {
			below = p.Index
		}
	}
	end, err := l.walk(k, below)
	if err != nil {
		return nil, err
	}
	if !end {
		err = l.below()
	}
	return l.out, err
}

// atOrBelow returns the highest block of the head's chain whose height is at most height. atOrBelow
// returns nil if the node has no such block.
func (b *Backend) atOrBelow(head *block, height primitives.Height) (*block, error) {
	if height >= head.ref.Height {
		return head, nil
	}
	k, err := b.byHeight(height)
	if err == nil || !isLookup(err) {
		return k, err
	}
	ref, err := b.Engine.Store().NextBlock(height)
	if gone(err) { // the store has no blocks above the height yet
		for k = head; err == nil && k != nil && k.ref.Height > height; {
			k, err = b.parentOf(k)
		}
		return k, err
	}
	if err != nil {
		return nil, err
	}
	if k, err = b.byHash(ref.Hash); err != nil {
		return nil, ifStored(err)
	}
	return b.parentOf(k)
}

// parentOf returns the parent of a block. parentOf returns nil if the node does not have the
// parent.
func (b *Backend) parentOf(k *block) (*block, error) {
	var hash primitives.Hash
	if k.entry != nil {
		hash = k.entry.Header().PrevHash
	} else {
		hash = k.rec.Prev().Hash
	}
	if hash.IsZero() {
		return nil, nil
	}
	parent, err := b.byHash(hash)
	if err != nil {
		return nil, ifStored(err)
	}
	return parent, nil
}

// ifStored returns nil if err means that a block is not stored, or no longer stored. It returns any
// other error unchanged.
func ifStored(err error) error {
	if isLookup(err) || gone(err) {
		return nil
	}
	return err
}

// walk reads blocks backwards from k. In k itself it reads only the items whose index is less than
// below. The result is whether walk has read all blocks.
func (l *listing) walk(k *block, below int) (end bool, err error) {
	for n := 0; k != nil && k.ref.Height > l.q.After; n++ {
		if l.full() && l.out.Next == nil {
			l.out.Next = &view.ListPosition{Height: k.ref.Height, Index: below}
		}
		described := len(l.out.Blocks) >= l.q.Blocks
		if l.complete() && described || n == l.blocks || l.spent() {
			if l.out.Next == nil {
				l.out.Next = &view.ListPosition{Height: k.ref.Height, Index: below}
			}
			return false, nil
		}
		if !described {
			known, err := l.describe(k)
			if err != nil || !known {
				return !known, err
			}
		}
		if l.out.Next == nil {
			l.out.From = k.ref.Height
		}
		if !l.complete() {
			if err := l.read(k, below); err != nil {
				return false, err
			}
			if l.out.Next != nil && l.spent() { // the budget may end within the block
				return false, nil
			}
		}
		below = view.WholeBlock
		if k, err = l.parentOf(k); err != nil {
			return false, err
		}
	}
	return true, nil
}

// full returns whether the list has as many transactions as the query wants, the transactions of
// selected receipts included.
func (l *listing) full() bool { return len(l.out.Transactions)+len(l.wanted) >= l.q.Limit }

// complete returns whether nothing more has to be read for the list.
func (l *listing) complete() bool { return l.out.Next != nil && len(l.wanted) == 0 }

// spent returns whether nothing more may be read.
func (l *listing) spent() bool { return l.left <= 0 || l.ctx.Err() != nil }

// passed ends the selection at an item that has been read if the list is full or the budget is
// spent. The result is whether the reading of blocks ends too.
func (l *listing) passed(k *block, index int) (end bool) {
	spent := l.spent()
	if l.out.Next == nil && (l.full() || spent) {
		l.out.Next = &view.ListPosition{Height: k.ref.Height, Index: index}
	}
	return l.complete() || spent
}

// describe lists the transactions of a block. describe returns false if the node does not have the
// block's body.
func (l *listing) describe(k *block) (bool, error) {
	whole, err := l.whole(k)
	if err != nil {
		return false, ifStored(err)
	}
	x := view.ListedBlock{At: view.At{Height: k.ref.Height, Hash: k.ref.Hash}, Timestamp: whole.Header.Timestamp,
		Shards: len(whole.Body.Chunks)}
	if x.Author, err = l.producer(k.ref.Hash, whole.Header); err != nil {
		return false, err
	}
	for _, c := range whole.Body.Chunks {
		if c.HeightIncluded == k.ref.Height {
			x.Chunks++
			x.Gas += c.PrevGasUsed
		}
	}
	parts, err := l.parts(k)
	if err != nil {
		return false, err
	}
	for i := range parts {
		x.Transactions += parts[i].txs
	}
	l.out.Blocks = append(l.out.Blocks, x)
	return true, nil
}

// shardPart describes the contents of a block in one shard, and where these contents are stored.
type shardPart struct {
	id            primitives.ShardID
	state         *engine.ShardState // the contents in memory; nil: not in memory
	rec           *storage.Record    // the stored contents; nil: not needed, because state has all contents
	txs, outcomes int
}

// parts returns the shards of a block in the block's order.
func (l *listing) parts(k *block) ([]shardPart, error) {
	var out []shardPart
	if k.entry != nil {
		for i := range k.entry.Shards {
			s := &k.entry.Shards[i]
			out = append(out, shardPart{id: s.ID, state: s})
		}
	} else {
		for _, id := range k.rec.Shards() {
			out = append(out, shardPart{id: id})
		}
	}
	inMemory := remembered(k)
	for i := range out {
		p := &out[i]
		if inMemory {
			if p.outcomes = len(p.state.Result.Outcomes); p.state.Chunk != nil {
				p.txs = len(p.state.Chunk.Transactions)
			}
			continue
		}
		rec, err := l.record(k)
		if err != nil {
			return nil, err
		}
		p.rec, p.state = rec, nil
		if p.txs, err = rec.CountTransactions(p.id); err != nil {
			return nil, err
		}
		if p.outcomes, err = rec.CountOutcomes(p.id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// transactions returns the transactions of the shard's new chunk.
func (p *shardPart) transactions() ([]*primitives.SignedTransaction, error) {
	if p.txs == 0 {
		return nil, nil
	}
	if p.rec == nil {
		return p.state.Chunk.Transactions, nil
	}
	stored, err := p.rec.Transactions(p.id)
	if err != nil {
		return nil, err
	}
	out := make([]*primitives.SignedTransaction, len(stored))
	for i := range stored {
		out[i] = new(primitives.SignedTransaction)
		if err := borsh.Unmarshal(stored[i].Value, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// executed returns the outcomes of the shard in the order of execution.
func (p *shardPart) executed() ([]primitives.OutcomeWithID, error) {
	if p.rec == nil {
		return p.state.Result.Outcomes, nil
	}
	stored, err := p.rec.Outcomes(p.id)
	if err != nil {
		return nil, err
	}
	out := make([]primitives.OutcomeWithID, len(stored))
	for i := range stored {
		out[i].ID = stored[i].ID
		if err := borsh.Unmarshal(stored[i].Value, &out[i].Outcome); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// read lists the selected items of a block whose index is less than below, until the list is full.
func (l *listing) read(k *block, below int) error {
	parts, err := l.parts(k)
	if err != nil {
		return ifStored(err)
	}
	first := 0 // index in the block of the shard's first transaction or outcome
	selects := l.selects()
	for i := range parts {
		if selects {
			first += parts[i].outcomes
		} else {
			first += parts[i].txs
		}
	}
	for _, p := range slices.Backward(parts) {
		items := p.txs
		if selects {
			items = p.outcomes
		}
		if first -= items; items == 0 || first >= below {
			continue
		}
		txs, err := p.transactions()
		if err != nil {
			return err
		}
		if selects {
			err = l.readOutcomes(k, &p, txs, first, below)
		} else {
			err = l.readTransactions(k, &p, txs, first, below)
		}
		if err != nil || l.complete() || l.out.Next != nil && l.spent() {
			return err
		}
	}
	return nil
}

// selects returns whether outcomes must be read to determine which transactions are listed.
func (l *listing) selects() bool { return l.q.Account != "" || l.q.Failed }

func (l *listing) readTransactions(k *block, p *shardPart, txs []*primitives.SignedTransaction, first, below int) error {
	for i, tx := range slices.Backward(txs) {
		if first+i >= below {
			continue
		}
		l.left--
		if err := l.list(tx, view.At{Height: k.ref.Height, Hash: k.ref.Hash}, p.id, timestamp(k)); err != nil {
			return err
		}
		if l.passed(k, first+i) {
			return nil
		}
	}
	return nil
}

func (l *listing) readOutcomes(k *block, p *shardPart, txs []*primitives.SignedTransaction, first, below int) error {
	outcomes, err := p.executed()
	if err != nil {
		return err
	}
	byHash := make(map[primitives.Hash]*primitives.SignedTransaction, len(txs))
	for _, tx := range txs {
		byHash[tx.Hash()] = tx
	}
	for i := len(outcomes) - 1; i >= 0; i-- {
		if first+i >= below {
			continue
		}
		l.left--
		o := &outcomes[i]
		tx := byHash[o.ID]
		_, selected := l.wanted[o.ID]
		if l.out.Next == nil && l.matches(o, tx, k.ref.Height) {
			selected = true
		}
		for _, id := range o.Outcome.ReceiptIDs {
			if _, ok := l.wanted[id]; ok {
				selected = true
				delete(l.wanted, id)
			}
		}
		switch {
		case !selected:
		case tx == nil:
			l.wanted[o.ID] = struct{}{}
		default:
			delete(l.wanted, o.ID)
			if err := l.list(tx, view.At{Height: k.ref.Height, Hash: k.ref.Hash}, p.id, timestamp(k)); err != nil {
				return err
			}
		}
		if l.passed(k, first+i) {
			return nil
		}
	}
	return nil
}

func timestamp(k *block) uint64 {
	if k.entry != nil {
		return k.entry.Header().Timestamp
	}
	return k.rec.Timestamp()
}

// matches returns whether the query selects an outcome. tx is the transaction of the outcome; nil:
// it is the outcome of a receipt.
func (l *listing) matches(o *primitives.OutcomeWithID, tx *primitives.SignedTransaction, height primitives.Height) bool {
	if account := l.q.Account; account != "" {
		named := l.events(o, height)
		return named || o.Outcome.ExecutorID == account || tx != nil && (tx.SignerID == account || tx.ReceiverID == account)
	}
	return o.Outcome.Status.Kind == primitives.StatusFailure
}

// standards are the token standards in whose events an account may be named.
var standards = []string{"nep141", "nep171", "nep245"}

// events returns whether a token's event names the account. In that case events also adds the token
// to the list.
func (l *listing) events(o *primitives.OutcomeWithID, height primitives.Height) (named bool) {
	if o.Outcome.Status.Kind == primitives.StatusFailure { // a failed receipt has no effects
		return false
	}
	account := string(l.q.Account)
	for _, log := range o.Outcome.Logs {
		text, ok := strings.CutPrefix(strings.TrimSpace(log), "EVENT_JSON:")
		if !ok || !strings.Contains(text, account) {
			continue
		}
		var e struct {
			Standard string
			Data     []struct {
				Owner    string `json:"owner_id"`
				OldOwner string `json:"old_owner_id"`
				NewOwner string `json:"new_owner_id"`
			}
		}
		if json.Unmarshal([]byte(text), &e) != nil || !slices.Contains(standards, e.Standard) {
			continue
		}
		for i := range e.Data {
			if d := &e.Data[i]; d.Owner != account && d.OldOwner != account && d.NewOwner != account {
				continue
			}
			named = true
			key := contractStandard{o.Outcome.ExecutorID, e.Standard}
			if _, ok := l.tokens[key]; !ok && len(l.tokens) < view.MaxTokens {
				l.tokens[key] = struct{}{}
				l.out.Tokens = append(l.out.Tokens, view.TokenContract{Contract: key.contract, Standard: key.standard, Height: height})
			}
			break
		}
	}
	return named
}

// list adds a transaction to the list if the query selects it.
func (l *listing) list(tx *primitives.SignedTransaction, at view.At, shard primitives.ShardID, time uint64) error {
	if m := l.q.Method; m != "" && !slices.ContainsFunc(tx.Actions, func(a primitives.Action) bool {
		call, ok := a.(*primitives.FunctionCall)
		return ok && strings.HasPrefix(call.Method, m)
	}) {
		return nil
	}
	x := view.ListedTransaction{Transaction: tx, Block: at, Timestamp: time, Shard: shard}
	known, err := l.progress(&x)
	if err != nil || !known || l.q.Failed && x.Failed == 0 && x.Status != view.ListedFailed {
		return err
	}
	l.out.Transactions = append(l.out.Transactions, x)
	return nil
}

// progress sets the known execution results of a transaction. progress returns false if the
// transaction was not executed: a chunk may contain transactions that are no longer valid.
func (l *listing) progress(x *view.ListedTransaction) (bool, error) {
	type open struct {
		id   primitives.Hash
		from primitives.Height // no block below this height has the outcome of the id
	}
	hash := x.Transaction.Hash()
	queue := []open{{hash, x.Block.Height}}
	results := map[primitives.Hash]primitives.ExecutionStatus{}
	for n := 0; n < len(queue); n++ {
		if n == listReceipts {
			x.Pending += len(queue) - n
			break
		}
		l.left--
		o, height, err := l.outcome(queue[n].id, queue[n].from)
		if err != nil {
			return false, err
		}
		if o == nil {
			if n == 0 {
				return false, nil
			}
			x.Pending++
			continue
		}
		if results[o.ID] = o.Outcome.Status; n > 0 {
			x.Receipts++
			if o.Outcome.Status.Kind == primitives.StatusFailure {
				x.Failed++
			}
		}
		x.Gas += o.Outcome.GasBurnt
		if sum, ok := x.Tokens.Add(o.Outcome.TokensBurnt); ok {
			x.Tokens = sum
		}
		for _, id := range o.Outcome.ReceiptIDs {
			queue = append(queue, open{id, height})
		}
	}
	x.Status = view.ListedPending
	for id := hash; ; {
		s, ok := results[id]
		switch {
		case ok && s.Kind == primitives.StatusSuccessReceiptID:
			id = s.ReceiptID // no outcome of this id can follow, so the loop ends
			continue
		case ok && s.Kind == primitives.StatusFailure:
			x.Status, x.Failure = view.ListedFailed, txtext.Failure(s.Failure)
		case ok && s.Kind == primitives.StatusSuccessValue:
			x.Status = view.ListedSucceeded
		}
		return true, nil
	}
}

// outcome returns the outcome of a transaction or receipt on the current chain, and the height of
// its block. The result is nil if there is no such outcome.
func (l *listing) outcome(id primitives.Hash, from primitives.Height) (*primitives.OutcomeWithID, primitives.Height, error) {
	places, err := l.Engine.Store().Find().OutcomeFrom(id, from)
	if err != nil {
		return nil, 0, ifStored(err)
	}
	for _, p := range places {
		if !l.Engine.Canonical(p.Block.Ref()) {
			continue
		}
		raw, err := p.Block.Outcome(p.Shard, p.Index)
		if err != nil {
			return nil, 0, ifStored(err)
		}
		o := &primitives.OutcomeWithID{ID: raw.ID}
		return o, p.Block.Ref().Height, borsh.Unmarshal(raw.Value, &o.Outcome)
	}
	return nil, 0, nil
}

// below lists the transactions of selected receipts that are older than the blocks read. This
// search has a budget of its own.
func (l *listing) below() error {
	o := &origin{Backend: l.Backend, ctx: l.ctx, left: listOutcomes}
	found := map[primitives.Hash]struct{}{}
	wanted := slices.SortedFunc(maps.Keys(l.wanted), func(a, b primitives.Hash) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range wanted {
		if l.ctx.Err() != nil {
			break
		}
		tx, err := o.find(&view.OriginQuery{Receipt: id}, 0)
		var unknown *view.OriginError
		switch {
		case errors.As(err, &unknown), isLookup(err), gone(err), l.ctx.Err() != nil:
			continue
		case err != nil:
			return err
		}
		found[tx.Transaction] = struct{}{}
	}
	first := len(l.out.Transactions)
	for hash := range found {
		tx, place, err := l.Engine.Transactions().Transaction(hash)
		if err != nil {
			continue // a reorganisation has removed the transaction meanwhile
		}
		ref := place.Block.Ref()
		if ref.Height <= l.q.After {
			continue
		}
		if err := l.list(tx, view.At{Height: ref.Height, Hash: ref.Hash}, place.Shard, place.Block.Timestamp()); err != nil {
			return err
		}
	}
	slices.SortFunc(l.out.Transactions[first:], func(a, b view.ListedTransaction) int {
		if a.Block.Height != b.Block.Height {
			return cmp.Compare(b.Block.Height, a.Block.Height)
		}
		x, y := a.Transaction.Hash(), b.Transaction.Hash()
		return bytes.Compare(x[:], y[:])
	})
	return nil
}
