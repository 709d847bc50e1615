package apply

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// chunk is the state of one call of Apply.
type chunk struct {
	in  *Input
	cfg *parameters.RuntimeConfig
	u   *state.TrieUpdate
	res *Result
	sink

	gas     primitives.Gas     // gas burnt by all outcomes, including refunds
	compute parameters.Compute // compute used so far; the chunk is full when it reaches limit
	limit   parameters.Compute
	ended   StageUse // gas and compute at the end of the last stage

	local     []*primitives.Receipt // receipts of transactions whose receiver is their signer
	localOf   []primitives.Hash     // hash of the transaction of each receipt in local
	instant   []*primitives.Receipt // receipts that run next, because the last receipt created them
	delayed   delayedQueue
	proposals []primitives.ValidatorStake // staking proposals, in the order of execution
	burnt     balances
	work      worker
	spec      speculation
	window    windowSizes
}

// balances are the amounts from which the chunk's burnt balance is computed.
type balances struct {
	burnt      primitives.Balance // tokens that transactions and receipts burnt, without contract rewards
	other      primitives.Balance // deposits of failed refunds
	subsidized primitives.Balance // tokens minted for contracts
}

func addBalance(sum *primitives.Balance, b primitives.Balance) error {
	v, ok := sum.Add(b)
	if !ok {
		return fmt.Errorf("apply: add up the burnt balance: %w", primitives.ErrOverflow)
	}
	*sum = v
	return nil
}

func (b *balances) add(o *balances) error {
	if err := addBalance(&b.burnt, o.burnt); err != nil {
		return err
	}
	if err := addBalance(&b.other, o.other); err != nil {
		return err
	}
	return addBalance(&b.subsidized, o.subsidized)
}

func (b *balances) total() (primitives.Balance, error) {
	sum, ok := b.burnt.Add(b.other)
	sum, ok2 := sum.Sub(b.subsidized)
	if !ok || !ok2 {
		return sum, fmt.Errorf("apply: add up the burnt balance: %w", primitives.ErrOverflow)
	}
	return sum, nil
}

// Apply executes a chunk. Apply does not change its input. An error means that the chunk cannot be
// applied.
func Apply(in *Input) (*Result, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	cfg := in.Block.Config
	c := &chunk{
		in: in, cfg: cfg, res: new(Result), limit: parameters.Compute(in.GasLimit), window: in.window.orDefault(),
		u: state.NewRecorded(in.Trie, in.Recording, cfg.Witness.MainStorageProofSizeSoftLimit),
	}
	c.ended.Nanoseconds = in.elapsed()
	c.u.Grow(2*len(in.Transactions) + len(in.Incoming))
	if err := c.proposeSplit(); err != nil {
		return nil, err
	}
	if err := c.updateValidators(); err != nil {
		return nil, err
	}
	indices, err := c.u.DelayedIndices()
	if err != nil {
		return nil, err
	}
	c.delayed = delayedQueue{QueueIndices: indices}
	if err := c.scheduleBandwidth(); err != nil {
		return nil, err
	}
	if !in.NewChunk {
		return c.finishMissing()
	}
	c.prefetch()
	if err := c.openSink(); err != nil {
		return nil, err
	}
	if err := c.forwardBuffers(); err != nil {
		return nil, err
	}
	if err := c.transactions(); err != nil {
		return nil, err
	}
	c.endStage(StageTransactions)
	if err := c.receipts(); err != nil {
		return nil, err
	}
	c.endStage(StageIncoming)
	if err := c.yieldTimeouts(); err != nil {
		return nil, err
	}
	c.endStage(StageYieldTimeouts)
	return c.finish()
}

func (in *Input) canceled() bool { return in.Canceled != nil && in.Canceled.Load() }

// check returns an error if required input is missing.
func (in *Input) check() error {
	switch {
	case in.Trie == nil || in.Block.Config == nil || in.Layout.IsZero():
		return fmt.Errorf("%w: the trie, config or layout is missing", ErrInput)
	case !in.Layout.Has(in.Block.ShardID):
		return fmt.Errorf("%w: shard %d is not in the layout", ErrInput, in.Block.ShardID)
	case !in.NewChunk && len(in.Patch) > 0:
		return fmt.Errorf("%w: a state patch needs a new chunk", ErrInput)
	// If a shard's chunk is missing after a split, the block has the parent shard's chunk header
	// for the shard, and no congestion info of the shard itself. So the check applies only to new
	// chunks.
	case in.NewChunk && in.ownCongestion() == nil:
		return fmt.Errorf("%w: the congestion info of shard %d is missing", ErrInput, in.Block.ShardID)
	}
	return nil
}

func (in *Input) ownCongestion() *ShardCongestion {
	for i := range in.Congestion {
		if in.Congestion[i].Shard == in.Block.ShardID {
			return &in.Congestion[i]
		}
	}
	return nil
}

func (in *Input) signature() verify.SignatureFunc {
	if in.Signature != nil {
		return in.Signature
	}
	return verify.CheckSignature
}

// count adds an outcome's gas and compute to the totals of the chunk.
func (c *chunk) count(gas primitives.Gas, compute parameters.Compute) error {
	if c.gas+gas < gas || c.compute+compute < compute {
		return parameters.ErrOverflow
	}
	c.gas += gas
	c.compute += compute
	return nil
}

// endStage records what the chunk has burnt and used since the end of the stage before.
func (c *chunk) endStage(s Stage) {
	now := StageUse{c.gas, c.compute, c.in.elapsed()}
	was := &c.ended
	c.res.Stats.Stages[s] = StageUse{now.Gas - was.Gas, now.Compute - was.Compute, now.Nanoseconds - was.Nanoseconds}
	c.ended = now
}

// elapsed returns the time of the input's clock, 0 without a clock.
func (in *Input) elapsed() int64 {
	if in.Clock == nil {
		return 0
	}
	return in.Clock.Elapsed()
}

// countCalls counts the contract calls of an executed receipt.
func (s *Stats) countCalls(out *executed) {
	s.CallsDone += uint64(out.callsDone)
	if out.failure == (action.CallFailure{}) {
		return
	}
	if s.CallFailures == nil {
		s.CallFailures = map[action.CallFailure]uint64{}
	}
	s.CallFailures[out.failure]++
}

// full returns whether the chunk's limits do not allow another receipt to start.
func (c *chunk) full() bool { return c.compute >= c.limit || c.u.LimitExceeded() }

// receipts runs local, delayed and incoming receipts, in this order, until the chunk is full.
// receipts delays the remaining receipts.
func (c *chunk) receipts() error {
	for i, r := range c.local { // local receipts are not validated again: they were validated with their transactions
		if i%c.window.most == 0 {
			c.runAhead(c.local[i:])
		}
		if err := c.runOrDelay(r, c.localOf[i]); err != nil {
			return err
		}
	}
	c.endStage(StageLocal)
	if err := c.delayedReceipts(); err != nil {
		return err
	}
	c.endStage(StageDelayed)
	for i, r := range c.in.Incoming {
		if i%c.window.most == 0 {
			c.runAhead(c.in.Incoming[i:])
		}
		if e := verify.Receipt(c.cfg, r, verify.ExistingReceipt); e != nil {
			return fmt.Errorf("apply: incoming receipt %v: %w", r.ID, e)
		}
		if c.full() {
			if err := c.delay(r); err != nil {
				return err
			}
			continue
		}
		c.res.Stats.Incoming++
		if err := c.process(r); err != nil {
			return err
		}
	}
	return nil
}

// runOrDelay runs the local receipt of a transaction, or delays it if the chunk is full.
func (c *chunk) runOrDelay(r *primitives.Receipt, tx primitives.Hash) error {
	if c.full() {
		c.originates(r, tx)
		return c.delay(r)
	}
	if err := c.process(r); err != nil {
		return err
	}
	c.res.Stats.Local++
	c.res.Processed = append(c.res.Processed, Processed{r, SourceLocal})
	return nil
}

// process runs a receipt, then the instant receipts that it created, until no instant receipt is
// left.
func (c *chunk) process(r *primitives.Receipt) error {
	if c.in.canceled() {
		return ErrCanceled
	}
	if err := c.processOne(r); err != nil {
		return err
	}
	for len(c.instant) > 0 {
		r := c.instant[0]
		c.instant = c.instant[1:]
		if err := c.processOne(r); err != nil {
			return err
		}
		c.res.Processed = append(c.res.Processed, Processed{r, SourceInstant})
	}
	return nil
}

func (c *chunk) processOne(r *primitives.Receipt) error {
	if done, err := c.adopt(r); done || err != nil {
		return err
	}
	c.work.reset()
	if err := c.work.run(&c.in.Block, c.in.Layout, c.u, r); err != nil {
		return err
	}
	return c.settle(r, &c.work.out)
}

// settle adds the results of an executed receipt to the chunk, in the order of execution.
func (c *chunk) settle(ran *primitives.Receipt, out *executed) error {
	if err := c.burnt.add(&out.balances); err != nil {
		return err
	}
	c.proposals = append(c.proposals, out.proposals...)
	for tag, n := range out.begun {
		c.res.Stats.Begun[tag] += uint64(n)
	}
	c.res.Stats.countCalls(out)
	c.instant = append(c.instant, out.instant...)
	for _, r := range out.sends {
		var err error
		if out.done {
			err = c.sendOf(out.outcome.ID, r)
		} else { // the distribution continues in the next shard
			c.originates(r, ran.ID)
			_, err = c.send(r)
		}
		if err != nil {
			return err
		}
	}
	if err := c.count(0, out.compute); err != nil {
		return err
	}
	if !out.done {
		return nil
	}
	c.res.Outcomes = append(c.res.Outcomes, out.outcome)
	return c.count(out.outcome.GasBurnt, parameters.Compute(out.outcome.ComputeUsage))
}

// finish writes the queues, congestion info and requests to the state, finalizes it, and returns the
// result.
func (c *chunk) finish() (*Result, error) {
	if err := c.patchQueue(); err != nil {
		return nil, err
	}
	if err := c.delayed.account(congestion.Account{Info: &c.own}); err != nil {
		return nil, err
	}
	in := c.in
	index, err := in.Layout.Index(in.Block.ShardID)
	if err != nil {
		return nil, err
	}
	c.own.AllowedShard = uint16(congestion.AllowedShard(in.Block.Height, index, in.Layout.ShardIDs()))
	if c.res.BandwidthRequests, err = c.makeRequests(); err != nil {
		return nil, err
	}
	c.u.Commit(primitives.CauseUpdatedDelayedReceipts, primitives.Hash{})
	if err := c.patch(); err != nil {
		return nil, err
	}
	r := c.res
	r.Stats.UpperBoundBytes = c.u.UpperBound()
	if err := c.close(); err != nil {
		return nil, err
	}
	if r.BalanceBurnt, err = c.burnt.total(); err != nil {
		return nil, err
	}
	r.GasUsed, r.Congestion = c.gas, c.own
	r.Proposals = lastProposals(c.proposals)
	r.OutcomeRoot = OutcomeRoot(r.Outcomes)
	r.Outgoing = c.outgoing
	r.OutgoingByShard = c.grouped()
	r.OutgoingRoot = OutgoingRoot(r.OutgoingByShard)
	r.Stats.Compute, r.Stats.DelayedLen = uint64(c.compute), c.delayed.Len()
	r.Stats.LimitedByGas = c.compute >= c.limit
	return r, nil
}

// OutcomeRoot returns the Merkle root over the outcomes of a chunk, in the order of execution.
func OutcomeRoot(outcomes []primitives.OutcomeWithID) primitives.Hash {
	leaves := make([]primitives.Hash, len(outcomes))
	var scratch []byte
	for i := range outcomes {
		leaves[i], scratch = outcomes[i].LeafHashIn(scratch)
	}
	return primitives.MerkleRoot(leaves)
}

// close finalizes the state update and stores it in the result.
func (c *chunk) close() error {
	c.res.Stats.LimitedByProof = c.u.LimitExceeded()
	f, err := c.u.Finalize()
	if err != nil {
		return err
	}
	c.res.Trie, c.res.Changes, c.res.Olds = f.Trie, f.Changes, f.Olds
	c.res.Recording, c.res.RecordedSize = c.u.Recording(), c.u.RecordedSize()
	c.res.Accesses = c.u.Accesses()
	return nil
}

// finishMissing returns the result of a missing chunk. The caller replaces only the state root of
// the old chunk extra with the state root of the result. The result repeats the congestion info and
// bandwidth requests of the input. The gas, burnt balance, outcomes and proposed split of the
// result are zero and have no meaning.
func (c *chunk) finishMissing() (*Result, error) {
	if err := c.close(); err != nil {
		return nil, err
	}
	c.res.ProposedSplit = nil
	if own := c.in.ownCongestion(); own != nil {
		c.res.Congestion = own.Info
	}
	for i := range c.in.Requests {
		if c.in.Requests[i].Shard == c.in.Block.ShardID {
			c.res.BandwidthRequests = c.in.Requests[i].Requests
		}
	}
	return c.res, nil
}

// lastProposals keeps the last proposal of each account, the latest first (nearcore lib.rs:2617).
func lastProposals(all []primitives.ValidatorStake) []primitives.ValidatorStake {
	var out []primitives.ValidatorStake
	seen := make(map[primitives.AccountID]bool, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		if !seen[all[i].AccountID] {
			seen[all[i].AccountID] = true
			out = append(out, all[i])
		}
	}
	return out
}
