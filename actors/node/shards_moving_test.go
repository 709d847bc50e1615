package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// shuffled is a chain of four shards with a payer in each. In each epoch the shards are assigned
// anew to that many validators.
func shuffled(makers, each int) func(*genesis.Config) map[string][]byte {
	return func(c *genesis.Config) map[string][]byte {
		var err error
		if c.ShardLayout, err = primitives.MultiShardLayoutAt([]primitives.AccountID{payer(1), payer(2),
			payer(3)}); err != nil {
			panic(err)
		}
		layout, err := c.ShardLayout.MarshalJSON()
		if err != nil {
			panic(err)
		}
		return map[string][]byte{fmt.Sprintf("%d.json", c.ProtocolVersion): fmt.Appendf(nil, `{"epoch_length":%d,"num_block_producer_seats":16,
"block_producer_kickout_threshold":0,"chunk_producer_kickout_threshold":0,"chunk_validator_only_kickout_threshold":0,"target_validator_mandates_per_shard":68,
"online_min_threshold":[9,10],"online_max_threshold":[99,100],"fishermen_threshold":"10000000000000000000000000",
"minimum_stake_divisor":10,"protocol_upgrade_stake_threshold":[4,5],"num_chunk_producer_seats":%d,
"minimum_validators_per_shard":%d,"minimum_stake_ratio":[1,6250],"chunk_producer_assignment_changes_limit":5,
"shuffle_shard_assignment_for_chunk_producers":true,"max_inflation_rate":[1,20],"validator_max_kickout_stake_perc":100,
"num_chunk_validator_seats":300,"shard_layout":%s}`, c.EpochLength, makers, each, layout)}
	}
}

// chunkFaults records reports of a validator that it cannot make or serve a chunk.
type chunkFaults struct {
	mu   sync.Mutex
	said []string
	of   map[int][]string // last log lines of each node about states and moving shards
}

// maxLogLines is how many lines of each node are kept.
const maxLogLines = 40

// nodeLog is a node's log.
type nodeLog struct {
	*chunkFaults
	node int
}

// Levels and Fire are logrus.Hook's.
func (h nodeLog) Levels() []logrus.Level { return logrus.AllLevels }

func (h nodeLog) Fire(e *logrus.Entry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(e.Message, "makes no chunk") || strings.Contains(e.Message, "shows no witness") {
		h.said = append(h.said, fmt.Sprintf("%s: %v", e.Message, e.Data[logrus.ErrorKey]))
		return nil
	}
	if strings.Contains(e.Message, "state") || strings.Contains(e.Message, "shard") {
		h.note(h.node, e.Time, fmt.Sprintf("%s %v", e.Message, e.Data))
	}
	return nil
}

// note keeps a log line of a node. The caller holds mu.
func (w *chunkFaults) note(node int, at time.Time, line string) {
	list := append(w.of[node], at.Format("05.000 ")+line)
	w.of[node] = list[max(0, len(list)-maxLogLines):]
}

// moving is a cluster with validators that hold only the shards that they produce chunks of.
type moving struct {
	*cluster
	want chunkFaults
	pace pace
	hold stages
	at   sync.Mutex
	late []string // validators that began an epoch without a shard that they produce chunks of
	told bool     // the state of the nodes was logged, when the first one was late
	of   map[primitives.EpochID]map[int][]primitives.ShardID
}

func newMoving(t *testing.T, each int, epochLength uint64, change ...func(*Options)) *moving {
	t.Helper()
	m := &moving{of: map[primitives.EpochID]map[int][]primitives.ShardID{}, want: chunkFaults{of: map[int][]string{}}}
	const n = 4
	m.cluster = newCluster(t, n, n, epochLength, func(i int, o *Options) {
		o.Network.States = statesync.Options{Wait: 2000, Pause: 200}
		o.Log = logrus.New()
		o.Log.SetOutput(io.Discard)
		o.Log.SetLevel(logrus.DebugLevel)
		o.Log.AddHook(nodeLog{&m.want, i})
		o.Validator.Elapsed = m.pace.Even
		o.hooks.wrapSource = func(s engine.PartSource) engine.PartSource {
			return &heldSource{s, &m.hold,
				func(line string) { m.want.mu.Lock(); defer m.want.mu.Unlock(); m.want.note(i, time.Now(), line) }}
		}
		for _, f := range change {
			f(o)
		}
	}, shuffled(n, each))
	m.fold = 4
	m.pace.run(t)
	m.open = func(i int, o *engine.Options) {
		o.Tracks = func(primitives.ShardLayout, primitives.ShardID) bool { return false }
		o.Scheduled, o.Assigned, o.Snapshots = true, []primitives.AccountID{voter(i)}, true
	}
	for i := range n {
		m.start(i)
		if m.members[i].ShardMoves() == nil {
			t.Fatalf("node %d does not say what it holds", i)
		}
	}
	return m
}

// checkShards compares the shards that a node holds with those that it produces, and records late
// ones.
func (m *moving) checkShards(i int) {
	e := m.members[i].e
	at := e.Head()
	var id primitives.EpochID
	var mine []primitives.ShardID
	err := e.Epochs(func(em *epoch.Manager) (err error) {
		if id, err = em.EpochIDFromPrev(at.Hash); err != nil {
			return err
		}
		for _, s := range at.Layout.ShardIDs() {
			now, err := em.CaresAboutShard(id, voter(i), s)
			if err != nil {
				return err
			}
			if now {
				mine = append(mine, s)
			}
		}
		return nil
	})
	if err != nil {
		m.t.Error(err)
	}
	m.at.Lock()
	defer m.at.Unlock()
	if m.of[id] == nil {
		m.of[id] = map[int][]primitives.ShardID{}
	}
	m.of[id][i] = mine
	for k := range at.Shards {
		if s := &at.Shards[k]; !s.Held() && slices.Contains(mine, s.ID) {
			if len(m.late) < maxLogLines {
				m.late = append(m.late, fmt.Sprintf("node %d at %d, final %d: shard %d; %+v", i, at.Height(), e.Final().Height,
					s.ID, *m.members[i].ShardMoves()))
			}
		}
	}
}

// logProgress logs the shards that each node must hold: progress, hosts asked, and the last result.
func (m *moving) logProgress() {
	m.want.mu.Lock()
	defer m.want.mu.Unlock()
	m.t.Logf("%s", m.where())
	for i, x := range m.members {
		m.t.Logf("node %d: %+v, of the states that it keeps %d were given up\n%s", i, *x.ShardMoves(),
			x.e.Snapshots().GivenUp(), strings.Join(m.want.of[i], "\n"))
	}
}

// changes counts how often a node had other shards than in an earlier epoch.
func (m *moving) changes() (epochs, dealt int) {
	m.at.Lock()
	defer m.at.Unlock()
	seen := map[string]bool{}
	for _, of := range m.of {
		seen[fmt.Sprint(of)] = true
	}
	return len(m.of), len(seen)
}

// sendTransfers makes holders of a payer's shard accept transfers of it until stop.
func (m *moving) sendTransfers(stop <-chan struct{}) func() int {
	var group sync.WaitGroup
	var sent atomic.Int64
	for i := range m.members {
		group.Go(func() {
			key, nonce := keyOf(payer(i)), primitives.Nonce(0)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
				m.at.Lock()
				x := m.members[n%len(m.members)]
				m.at.Unlock()
				if x.ended.Load() || !x.e.Holds(x.e.Head().Layout.ShardOf(payer(i))) {
					continue
				}
				nonce++
				s := &sandbox{key: key}
				tx := s.sign(primitives.Transaction{SignerID: payer(i), ReceiverID: payer((i + n) % len(m.members)),
					Nonce:     primitives.TransactionNonce{Nonce: nonce},
					BlockHash: x.e.Final().Hash, Actions: []primitives.Action{transfer(uint64(n))}})
				ctx, cancel := context.WithTimeout(m.t.Context(), time.Second)
				if _, err := x.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelNone}); err == nil {
					sent.Add(1)
				}
				cancel()
			}
		})
	}
	return func() int { group.Wait(); return int(sent.Load()) }
}

// requireSameStates requires the states of a final block to be equal on all holders, and each shard
// to have one.
func (m *moving) requireSameStates() {
	m.t.Helper()
	var height primitives.Height
	for _, x := range m.members {
		if h := x.e.Final().Height; height == 0 || h < height {
			height = h
		}
	}
	roots, holders := map[primitives.ShardID]primitives.Hash{}, map[primitives.ShardID]int{}
	for i, x := range m.members {
		hash, err := x.e.Store().HashAt(height)
		if err != nil {
			continue // the height was skipped
		}
		at, err := x.e.Block(hash)
		if err != nil {
			m.t.Fatal(err)
		}
		for k := range at.Shards {
			s := &at.Shards[k]
			if !s.Held() {
				continue
			}
			if was, ok := roots[s.ID]; ok && was != s.Extra.StateRoot {
				m.t.Errorf("shard %d at %d: node %d has %v, another one %v", s.ID, height, i, s.Extra.StateRoot, was)
			}
			roots[s.ID] = s.Extra.StateRoot
			holders[s.ID]++
		}
	}
	if len(roots) < m.shards {
		m.t.Errorf("at %d shards are held so often: %v", height, holders)
	}
}

// until polls all nodes until a height is final, for at most the time within on the test's clock
// (pace).
func (m *moving) until(h primitives.Height, within time.Duration) {
	m.t.Helper()
	limit := m.pace.Even() + within
	for done := false; !done; time.Sleep(20 * time.Millisecond) {
		done = true
		for i, x := range m.members {
			if !x.ended.Load() {
				m.checkShards(i)
				done = done && x.e.Final().Height >= h
			}
		}
		m.at.Lock()
		first := len(m.late) > 0 && !m.told
		m.told = m.told || first
		m.at.Unlock()
		if first { // earlier lines are forgotten soon
			m.logProgress()
		}
		if m.pace.Even() > limit {
			m.logProgress()
			m.t.Fatalf("not at %d: %s\nlate: %v", h, m.where(), m.late)
		}
	}
}

// TestValidatorsSyncShardsOfNextEpoch: four validators of four shards hold only the shards that
// they produce chunks of, which are assigned anew in each epoch. States arrive over sockets before
// the epoch begins, so no validator lacks a shard that it produces, and all holders of a shard have
// the same state.
func TestValidatorsSyncShardsOfNextEpoch(t *testing.T) {
	t.Parallel()
	// A state has six seconds to arrive. Only the time in which the machine runs this test counts.
	const length, epochs = 60, 6
	m := newMoving(t, 1, length)
	stop, began := make(chan struct{}), time.Now()
	sent := m.sendTransfers(stop)
	for e := range primitives.Height(epochs) {
		m.until((e+1)*length, 360*time.Second)
		m.requireSameStates()
		for i, x := range m.members {
			t.Logf("epoch %d, %v: node %d holds %v", e, time.Since(began).Round(time.Millisecond), i, x.ShardMoves())
		}
	}
	close(stop)
	t.Logf("%d transfers", sent())
	in, out := 0, 0
	for i, x := range m.members {
		moves := x.ShardMoves()
		if in, out = in+int(moves.In), out+int(moves.Out); len(moves.Held) > 2 {
			t.Errorf("node %d: %+v", i, moves)
		}
	}
	if in < epochs-1 || out < in/3 { // shards are dealt at random; a validator may keep its own all the time
		t.Errorf("%d shards were caught up, %d were untracked", in, out)
	}
	m.requireShardsHeld(epochs)
}

// requireShardsHeld requires that no validator lacked the state of a shard that it produces chunks
// of.
func (m *moving) requireShardsHeld(least int) {
	m.t.Helper()
	epochs, dealt := m.changes()
	if epochs < least || dealt < 3 {
		m.t.Errorf("%d epochs were seen, of which %d are dealt differently", epochs, dealt)
	}
	m.at.Lock()
	defer m.at.Unlock()
	m.want.mu.Lock()
	defer m.want.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.t.Logf("%d blocks, %d chunks missed", m.blocks, m.missed)
	if len(m.late) > 0 || len(m.want.said) > 0 {
		m.want.said = m.want.said[:min(len(m.want.said), maxLogLines)]
		m.t.Errorf("late: %v\nwithout a chunk or a witness: %v", m.late, m.want.said)
	}
	if m.missed > m.blocks*m.shards/4 { // as in TestValidatorsFinalizeEachHeight: what a busy machine makes late
		m.t.Errorf("%d chunks missed in %d blocks", m.missed, m.blocks)
	}
}

// TestCatchupContinuesAfterRestart: a validator that stops while a shard is being caught up
// continues with it after the restart, and holds it when its epoch begins.
func TestCatchupContinuesAfterRestart(t *testing.T) {
	t.Parallel()
	const length = 50
	m := newMoving(t, 2, length)
	m.until(length, 360*time.Second)
	limit := m.pace.Even() + 240*time.Second
	for _, stage := range []engine.Stage{engine.StageParts, engine.StageBlocks} {
		m.hold.begin(stage) // set before the stage starts, since a stage may end quickly
		for seen := false; !seen; time.Sleep(time.Millisecond) {
			for i, x := range m.members {
				m.checkShards(i)
				k := slices.IndexFunc(x.ShardMoves().Incoming, func(in engine.CatchupProgress) bool { return in.Stage == stage })
				if k < 0 {
					continue
				}
				seen = true
				t.Logf("node %d ends at %d: %+v", i, x.e.Head().Height(), x.ShardMoves().Incoming[k])
				m.stop(x)
				m.hold.end()
				m.start(i)
				break
			}
			if m.pace.Even() > limit {
				t.Fatalf("no shard is seen at stage %d of its way in: %s", stage, m.where())
			}
		}
	}
	at := m.members[0].e.Final().Height
	m.until(at+3*length, 240*time.Second)
	m.requireSameStates()
	for i, x := range m.members {
		t.Logf("node %d holds %+v", i, x.ShardMoves())
	}
	m.requireShardsHeld(4)
}

// TestTransactionIsForwardedToShardProducers: a transaction of a shard that a validator does not
// hold is forwarded to the producers of that shard's chunks, and its client learns that. A
// transaction that another node has forwarded is not forwarded again. With routing disabled this
// holds only for transactions that cannot be checked.
func TestTransactionIsForwardedToShardProducers(t *testing.T) {
	m := newMoving(t, 1, 1000, func(o *Options) { o.Network.Route.Off = true })
	m.reach(5, 60*time.Second)
	layout := m.members[0].e.Head().Layout
	for i, x := range m.members {
		to := (i + 1) % len(m.members)
		for k := range m.members {
			if !x.e.Holds(layout.ShardOf(payer(k))) {
				to = k
			}
		}
		holder := slices.IndexFunc(m.members, func(y *member) bool { return y.e.Holds(layout.ShardOf(payer(to))) })
		s := &sandbox{key: keyOf(payer(to))}
		tx := s.sign(primitives.Transaction{SignerID: payer(to), ReceiverID: payer(to),
			Nonce:     primitives.TransactionNonce{Nonce: primitives.Nonce(i + 1)},
			BlockHash: x.e.Final().Hash, Actions: []primitives.Action{transfer(uint64(i + 1))}})
		for _, r := range x.submitOthers(messages.ClientPeer("x"), []*primitives.SignedTransaction{tx}) {
			<-r.Done()
			if e := (*view.LookupError)(nil); !errors.As(r.Answers()[0].Err, &e) || e.Kind != view.ErrShardNotTracked {
				t.Errorf("node %d passes on what it was passed: %v", i, r.Answers()[0].Err)
			}
		}
		_, err := x.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal})
		if e := (*view.LookupError)(nil); !errors.As(err, &e) || e.Kind != view.ErrRouted || e.Hash != tx.Hash() {
			t.Fatalf("node %d: %v", i, err)
		}
		out, err := m.members[holder].Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), Tx: tx, WaitUntil: view.LevelFinal})
		if err != nil || out.Level != view.LevelFinal {
			t.Errorf("of node %d at node %d: %v %+v", i, holder, err, out)
		}
	}
}
