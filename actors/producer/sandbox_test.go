package producer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// request sends a request to the producer and calls answered with the reply.
func request[Q, A any](c *testChain, q Q, answered func(A, error)) {
	r := system.NewRequest[Q, A](q)
	c.post(func() { c.send(r) })
	go func() {
		a := <-r.Answer()
		c.post(func() { answered(a.Value, a.Err) })
	}()
}

// TestPatchIsWrittenOnceWithNextBlock: patches are written with the next block, which is made at
// once in every mode. Each is answered when that block is on disk, and is written once.
func TestPatchIsWrittenOnceWithNextBlock(t *testing.T) {
	for _, mode := range []production.Mode{production.Instant, production.Interval, production.Manual} {
		synctest.Test(t, func(t *testing.T) {
			c := newChain(t, mode)
			defer c.stop()
			c.lag = 100 * time.Millisecond
			c.run(time.Second)
			before, answers := len(c.made), 0
			for range 3 {
				request(c, messages.PatchState{Records: []genesis.Record{&genesis.DataRecord{AccountID: "a"}}},
					func(got messages.StatePatched, err error) {
						if answers++; err != nil || got.Hash != c.disk.Hash && got.Height > c.disk.Height() {
							t.Errorf("%v: %+v, %v, with block %d on disk", mode, got, err, c.disk.Height())
						}
					})
			}
			c.run(50 * time.Millisecond)
			if len(c.made) == before || answers > 0 {
				t.Fatalf("%v: %d blocks and %d answers at once", mode, len(c.made)-before, answers)
			}
			c.run(2 * time.Second)
			records := 0
			for i := range c.made {
				records += len(c.made[i].Patch)
			}
			if answers != 3 || records != 3 {
				t.Errorf("%v: %d answers, %d records in blocks", mode, answers, records)
			}
		})
	}
}

// TestFastForwardAdvancesRequestedHeights: the head advances by exactly the requested heights, and
// its time by what they would have taken. A request during another one waits. Impossible requests
// get an error. Stopping answers all requests.
func TestFastForwardAdvancesRequestedHeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Manual)
		defer c.stop()
		c.lag = 10 * time.Millisecond
		c.run(time.Second)
		answers := 0
		answered := func(got messages.Forwarded, err error) {
			if answers++; err != nil || got.Height != 1600 || c.disk.Height() != 1600 {
				t.Errorf("%+v, %v, with block %d on disk", got, err, c.disk.Height())
			}
		}
		begun := time.Now()
		request(c, messages.FastForward{Heights: 1600}, answered)
		request(c, messages.FastForward{Heights: 5}, answered)
		if c.run(5 * time.Second); answers != 2 || c.head.Height() != 1600 {
			t.Fatalf("%d answers, head %d", answers, c.head.Height())
		}
		passed := primitives.Height(0)
		for i, prev := range append([]messages.MakeBlock{{}}, c.made[:len(c.made)-1]...) {
			passed += c.made[i].Height - prev.Height - 1
		}
		last := c.made[len(c.made)-1]
		if want := uint64(begun.UnixNano()) + uint64(passed)*1_300_000_000; last.Timestamp < want ||
			last.Timestamp > want+uint64(time.Second) {
			t.Errorf("%d heights were passed over; the last block's time is %d, want %d and a bit", passed, last.Timestamp, want)
		}
		for _, n := range []uint64{MaxForward + 1, 1 << 63} {
			request(c, messages.FastForward{Heights: n}, func(_ messages.Forwarded, err error) {
				if answers++; !errors.Is(err, ErrForward) {
					t.Errorf("%d heights: %v", n, err)
				}
			})
		}
		c.run(time.Second)
		c.lag = time.Hour // no block reaches the disk from here on
		request(c, messages.FastForward{Heights: 10}, func(_ messages.Forwarded, err error) {
			if answers++; !errors.Is(err, ErrStopped) {
				t.Errorf("stopped: %v", err)
			}
		})
		c.run(time.Second)
		request(c, messages.StopProducing{}, func(messages.Stopped, error) {})
		if c.run(time.Second); answers != 5 {
			t.Errorf("%d answers, want 5", answers)
		}
	})
}

// TestForwardedHeadBecomesFinal: after a fast-forward the target becomes final soon, also on a
// chain that makes no idle blocks. It does so after the linger time; until then clients see the
// final block from before the jump.
func TestForwardedHeadBecomesFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChainOf(t, 1, 0, production.Rules{Mode: production.Instant, Interval: 6e8, Validity: 86400, Linger: 2e8,
			SkipEmpty: true})
		defer c.stop()
		c.indifferent = true
		c.run(time.Second)
		request(c, messages.FastForward{Heights: 1600}, func(_ messages.Forwarded, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		if c.run(150 * time.Millisecond); c.disk.Height() != 1600 || c.final >= 1600 {
			t.Fatalf("head %d, final %d", c.disk.Height(), c.final)
		}
		if c.run(100 * time.Millisecond); c.final != 1600 || c.disk.Height() != 1602 {
			t.Errorf("head %d, final %d, want the blocks that make 1600 final", c.disk.Height(), c.final)
		}
		if c.run(time.Minute); c.disk.Height() != 1602 {
			t.Errorf("head %d a minute later", c.disk.Height())
		}
	})
}

// TestSandboxIsRefusedWithOtherValidators: with other validators, all sandbox requests get
// ErrShared.
func TestSandboxIsRefusedWithOtherValidators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChainOf(t, 4, 1, production.Rules{Mode: production.Interval, Interval: 6e8, Validity: 86400})
		defer c.stop()
		c.run(time.Second)
		answers := 0
		request(c, messages.PatchState{}, func(_ messages.StatePatched, err error) {
			if answers++; !errors.Is(err, ErrShared) {
				t.Errorf("patch: %v", err)
			}
		})
		request(c, messages.FastForward{Heights: 3}, func(_ messages.Forwarded, err error) {
			if answers++; !errors.Is(err, ErrShared) {
				t.Errorf("fast forward: %v", err)
			}
		})
		request(c, messages.MissChunks{Blocks: 3}, func(_ messages.ChunksMissed, err error) {
			if answers++; !errors.Is(err, ErrShared) {
				t.Errorf("missing chunks: %v", err)
			}
		})
		request(c, messages.Reorganise{Blocks: 1}, func(_ messages.Reorganised, err error) {
			if answers++; !errors.Is(err, ErrShared) {
				t.Errorf("reorganisation: %v", err)
			}
		})
		request(c, messages.MockVerification{Mocks: &primitives.Mocks{P256: true}},
			func(_ messages.VerificationMocked, err error) {
				if answers++; !errors.Is(err, ErrShared) {
					t.Errorf("mocks: %v", err)
				}
			})
		if c.run(time.Second); answers != 5 {
			t.Errorf("%d answers", answers)
		}
	})
}

// TestPendingPatchesAreBounded: patches that are not on disk are bounded, even if their clients
// have disconnected. A large patch is accepted if no other one is pending.
func TestPendingPatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Manual)
		defer c.stop()
		c.run(time.Second)
		c.lag = time.Hour // no block reaches the disk
		large := []genesis.Record{&genesis.DataRecord{AccountID: "a", Value: make([]byte, maxPatchBytes)}}
		many, stopped := 0, 0
		refused := func(err error) {
			switch {
			case errors.Is(err, ErrMany):
				many++
			case errors.Is(err, ErrStopped):
				stopped++
			default:
				t.Error(err)
			}
		}
		for range 3 {
			request(c, messages.PatchState{Records: large}, func(_ messages.StatePatched, err error) {
				refused(err)
			})
		}
		for range maxForwardWaits + 7 {
			request(c, messages.FastForward{Heights: 5}, func(_ messages.Forwarded, err error) {
				refused(err)
			})
			c.run(time.Nanosecond)
		}
		if c.run(time.Second); many != 2+7 {
			t.Errorf("%d were refused, want 9", many)
		}
		request(c, messages.StopProducing{}, func(messages.Stopped, error) {})
		if c.run(time.Second); stopped != 1+maxForwardWaits {
			t.Errorf("%d requests got ErrStopped, want %d", stopped, 1+maxForwardWaits)
		}
	})
}

// TestSandboxEndsWhenValidatorsJoin: if other validators take part from some block on, pending
// requests get ErrShared, that block writes no patch, and mocked verification ends.
func TestSandboxEndsWhenValidatorsJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Manual)
		defer c.stop()
		c.run(time.Second)
		a := c.node
		mocks := &primitives.Mocks{Ed25519: true}
		request(c, messages.MockVerification{Mocks: mocks}, func(_ messages.VerificationMocked, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		request(c, messages.MineBlocks{Blocks: 1}, func(messages.BlocksMined, error) {})
		if c.run(time.Second); len(c.made) == 0 || c.made[len(c.made)-1].Mocks != mocks {
			t.Error("a block does not mock verification")
		}
		a.head.making = a.head.height + 1 // as if a block had been requested
		refused := 0
		request(c, messages.PatchState{Records: []genesis.Record{&genesis.DataRecord{AccountID: "a"}}},
			func(_ messages.StatePatched, err error) {
				if refused++; !errors.Is(err, ErrShared) {
					t.Error(err)
				}
			})
		request(c, messages.FastForward{Heights: 50}, func(_ messages.Forwarded, err error) {
			if refused++; !errors.Is(err, ErrShared) {
				t.Error(err)
			}
		})
		c.run(time.Second)
		c.names = append(c.names, "other.near")
		c.keys = append(c.keys, primitives.SecretKeyFromSeed(primitives.ED25519, "other"))
		e := entry(c.head.Height()+1, c.head.Hash)
		c.head, c.disk = e, e
		c.entries[e.Hash] = e
		c.send(messages.BlockAccepted{Block: e.Block, Hash: e.Hash, IsHead: true})
		if c.run(time.Second); refused != 2 || len(a.patches) != 0 || a.forward.target != 0 {
			t.Errorf("%d refused; %d patches, target %d", refused, len(a.patches), a.forward.target)
		}
		if a.mocks != nil || len(c.mocked) != 2 || c.mocked[0] != mocks || c.mocked[1] != nil {
			t.Errorf("mocks are %+v now, and were %+v in the blocks", a.mocks, c.mocked)
		}
	})
}

// TestFastForwardStopsAtMaxForwardTime: fast-forwards cannot bring the clock past maxForwardTime.
func TestFastForwardStopsAtMaxForwardTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Manual)
		defer c.stop()
		c.run(time.Second)
		a := c.node
		for _, shift := range []uint64{maxForwardTime - a.o.Clock(), maxForwardTime, 1<<63 - a.o.Clock() + 5} {
			a.clock.shift = shift
			if _, err := a.forwardTarget(1_000_000); !errors.Is(err, ErrForward) {
				t.Errorf("%d ns ahead: %v", shift, err)
			}
		}
		a.clock.shift = 0
		if _, err := a.forwardTarget(1_000); err != nil {
			t.Error(err)
		}
	})
}

// TestFixedStepStopsAtMaxForwardTime: a fixed step between blocks does not bring timestamps past
// maxForwardTime.
func TestFixedStepStopsAtMaxForwardTime(t *testing.T) {
	c := clock{wall: func() uint64 { return 1 }, step: maxStep}
	for parent, want := range map[uint64]uint64{5: 5 + maxStep, maxForwardTime - 1: maxForwardTime,
		maxForwardTime: maxForwardTime} {
		if got := c.blockTime(parent, 0); got != want {
			t.Errorf("time after %d: %d, want %d", parent, got, want)
		}
	}
}

// TestPatchOfDroppedBlockIsWrittenLater: a patch whose block was dropped because of a rollback that
// then failed is written with the next block.
func TestPatchOfDroppedBlockIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Instant)
		defer c.stop()
		c.run(time.Second)
		a, before := c.node, len(c.made)
		var told []messages.StatePatched
		c.post(func() {
			a.paused = true
			a.patches = []patch{{records: []genesis.Record{&genesis.DataRecord{AccountID: "a"}}, at: c.head.Height() + 1,
				reply: func(m messages.StatePatched, err error) {
					if told = append(told, m); err != nil {
						t.Error(err)
					}
				}}}
			c.send(messages.GoOn{})
		})
		c.run(2 * time.Second)
		n := 0
		for i := range c.made[before:] {
			n += len(c.made[before+i].Patch)
		}
		if n != 1 || len(told) != 1 {
			t.Errorf("%d records in blocks, %d answers; want one of each", n, len(told))
		}
	})
}

// TestStoppedProducerMakesNoBlocks: an actor that is stopped from the start makes no blocks, and
// answers requests with the reason.
func TestStoppedProducerMakesNoBlocks(t *testing.T) {
	why := errors.New("only the genesis")
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Instant)
		c.node.o.Stopped = why // Start is in the queue
		var got []error
		request(c, messages.MineBlocks{Blocks: 3}, func(_ messages.BlocksMined, err error) { got = append(got, err) })
		request(c, messages.FastForward{Heights: 3}, func(_ messages.Forwarded, err error) { got = append(got, err) })
		request(c, messages.CaptureClock{}, func(_ messages.Clock, err error) { got = append(got, err) })
		c.run(time.Second)
		if len(got) != 3 || len(c.made) != 0 {
			t.Fatalf("%d answers, %d blocks", len(got), len(c.made))
		}
		for i, err := range got {
			if !errors.Is(err, ErrStopped) {
				t.Errorf("answer %d: %v, want %v", i, err, ErrStopped)
			}
		}
	})
}
