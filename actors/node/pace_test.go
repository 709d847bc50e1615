package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/trie"
)

// pace is the clock of validators in tests. It follows the machine's clock, except that a gap
// between two turns of this process counts as at most paceMost. So an epoch does not pass while the
// machine runs other processes.
type pace struct{ gone atomic.Int64 }

// paceStep is how often a pace reads the clock. paceMost is the most that it advances at once.
const (
	paceStep = 2 * time.Millisecond
	paceMost = 20 * time.Millisecond
)

// Even returns the time that has passed on this clock.
func (p *pace) Even() time.Duration { return time.Duration(p.gone.Load()) }

// run advances the clock until the test ends.
func (p *pace) run(t *testing.T) {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	begun := time.Now()
	go func() {
		for last := begun; ; {
			select {
			case <-end:
				return
			case <-time.After(paceStep):
			}
			now := time.Now()
			p.gone.Add(int64(min(now.Sub(last), paceMost)))
			last = now
		}
	}()
	t.Cleanup(func() {
		t.Logf("%v went in %v", p.Even().Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	})
}

// stages blocks requests of shards that are caught up, at one stage.
type stages struct {
	mu    sync.Mutex
	stage engine.Stage
	goOn  chan struct{} // nil: no stage is blocked
}

func (s *stages) begin(at engine.Stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage, s.goOn = at, make(chan struct{})
}

func (s *stages) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.goOn)
	s.goOn = nil
}

// wait blocks while the stage at is blocked.
func (s *stages) wait(ctx context.Context, at engine.Stage) {
	s.mu.Lock()
	goOn := s.goOn
	held := goOn != nil && s.stage == at
	s.mu.Unlock()
	if held {
		select {
		case <-goOn:
		case <-ctx.Done():
		}
	}
}

// heldSource is a validator's source of shards whose requests can be blocked by stages. It reports
// requests and their results to say.
type heldSource struct {
	engine.PartSource
	hold *stages
	say  func(string)
}

// report reports a request before and after it is made.
func (s *heldSource) report(what string, ask func() error) {
	begun := time.Now()
	s.say(what)
	err := ask()
	s.say(fmt.Sprintf("%s: %v behind %v", what, err, time.Since(begun).Round(time.Millisecond)))
}

func (s *heldSource) State(ctx context.Context, point primitives.Hash,
	shard primitives.ShardID) (h *engine.StateHeader, err error) {
	s.report(fmt.Sprintf("header of shard %d at %v", shard, point), func() error {
		h, err = s.PartSource.State(ctx, point, shard)
		return err
	})
	return h, err
}

func (s *heldSource) Part(ctx context.Context, point primitives.Hash, shard primitives.ShardID, id trie.PartID,
	take func([][]byte) error) (err error) {
	s.hold.wait(ctx, engine.StageParts)
	s.report(fmt.Sprintf("part %d of %d of shard %d", id.Index, id.Total, shard), func() error {
		err = s.PartSource.Part(ctx, point, shard, id, take)
		return err
	})
	return err
}

func (s *heldSource) Chunks(ctx context.Context, block primitives.Hash,
	shard primitives.ShardID) (list []*primitives.Chunk, err error) {
	s.hold.wait(ctx, engine.StageBlocks)
	s.report(fmt.Sprintf("chunks of block %v for shard %d", block, shard), func() error {
		list, err = s.PartSource.Chunks(ctx, block, shard)
		return err
	})
	return list, err
}
