//go:build e2e

package e2e

import (
	"encoding/json"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// kept is the number of epochs for which the nodes of these tests keep blocks: neard's minimum.
const kept = 3

// keeps configures a home folder to collect blocks as early as possible.
func keeps(t *testing.T, dir string) {
	t.Helper()
	change(t, filepath.Join(dir, "config.json"), func(c object) { c["gc_num_epochs_to_keep"] = kept })
}

// forgets is keeps for a troupe, which otherwise keeps blocks for an hour at least.
func forgets(t *testing.T, dir string) {
	t.Helper()
	keeps(t, dir)
	change(t, filepath.Join(dir, "config.json"), func(c object) { c.at("troupe")["gc_min_age"] = map[string]any{"secs": 0, "nanos": 0} })
}

// comes waits until a node has synced to a height. A neard that is below the horizon restarts
// itself and does not reply meanwhile.
func (p *process) comes(height uint64, within time.Duration) {
	p.t.Helper()
	for limit := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		var s syncing
		r, err := p.call("status", []any{})
		if err == nil && r.Error == nil && json.Unmarshal(r.Result, &s) == nil && s.Sync.Height >= height && !s.Sync.Syncing {
			return
		}
		select {
		case <-p.ended:
			p.t.Fatalf("the node ended: %v\n%s", p.err, tail(p.out.String(), 6000))
		default:
		}
		if time.Now().After(limit) {
			p.t.Fatalf("height %d, syncing %v, want height %d: %v", s.Sync.Height, s.Sync.Syncing, height, err)
		}
	}
}

// lacks requires that a node does not have a block: it synced by a proof and the state, without
// downloading all blocks.
func (p *process) lacks(height uint64) {
	p.t.Helper()
	if r, err := p.call("block", map[string]any{"block_id": height}); err != nil || r.Error == nil {
		p.t.Errorf("%s has block %d (%v)", p.home, height, err)
	}
}

// away waits until the producers of a chain have collected a block.
func away(t *testing.T, maker *process, at uint64) {
	t.Helper()
	for limit := time.Now().Add(12 * time.Minute); maker.final() < at+kept*arriving+60; time.Sleep(time.Second) {
		if time.Now().After(limit) {
			t.Fatalf("at %d", maker.final())
		}
	}
	maker.lacks(at)
}

// TestTroupeRecoversPastNeardsHorizon: a troupe that follows four neards is stopped until they have
// collected the blocks after its head. It recovers after a restart.
func TestTroupeRecoversPastNeardsHorizon(t *testing.T) {
	program := neardProgram(t)
	homes := neardNet(t, program, 4, 4, arriving)
	var nodes []*process
	for _, s := range homes {
		keeps(t, s.home)
		change(t, filepath.Join(s.home, "config.json"), func(c object) {
			c.at("consensus")["min_block_production_delay"] = map[string]any{"secs": 0, "nanos": 200_000_000}
			c.at("store").at("state_snapshot_config")["state_snapshot_type"] = "Enabled"
		})
		nodes = append(nodes, runNeard(t, program, s))
	}
	dir, at := joined(t, homes[0].home), freeAddr(t)
	forgets(t, dir)
	run := func() *process { return start(t, dir, "--network-addr", at, "--boot-nodes", homes[0].peer(t)) }
	p := run()
	p.reaches(40, 3*time.Minute)
	p.stop(syscall.SIGKILL)
	was := nodes[0].final()
	away(t, nodes[0], was)
	begun, head := time.Now(), nodes[0].final()
	p = run()
	p.comes(head, 5*time.Minute)
	t.Logf("away for %d blocks, in step again after %v", head-was, time.Since(begun).Round(100*time.Millisecond))
	p.lacks(was + 60)
	requireSameBlocks(t, nodes[0], p, nodes[2].signer())
	for i, n := range nodes {
		if list := complaints(n.out.String()); len(list) > 0 {
			t.Errorf("neard %d logged %d complaints, want 0: %s", i, len(list), tail(list[0], 400))
		}
	}
}

// TestNeardRecoversPastTroupesHorizon: a neard that follows four troupes is stopped until they have
// collected the blocks after its head. It recovers after a restart.
func TestNeardRecoversPastTroupesHorizon(t *testing.T) {
	program := neardProgram(t)
	c := newClusterOf(t, 4, 4, arriving, func(dir string) { forgets(t, dir) })
	s := neardFollower(t, program, c.homes[0], c.boot)
	keeps(t, s.home)
	n := runNeard(t, program, s)
	n.reaches(40, 3*time.Minute)
	n.end(syscall.SIGTERM)
	was := c.p[0].final()
	away(t, c.p[0], was)
	begun, head := time.Now(), c.p[0].final()
	n = runNeard(t, program, s)
	n.comes(head, 8*time.Minute)
	t.Logf("away for %d blocks, in step again after %v", head-was, time.Since(begun).Round(100*time.Millisecond))
	n.lacks(was + 60)
	requireSameBlocks(t, c.p[0], n, c.p[1].signer())
	if list := complaints(n.out.String()); len(list) > 0 {
		t.Errorf("neard logged %d complaints, want 0: %s", len(list), tail(list[0], 400))
	}
}

// TestTroupeRecoversPastTroupesHorizon is TestTroupeRecoversPastNeardsHorizon with troupes in place
// of the neards.
func TestTroupeRecoversPastTroupesHorizon(t *testing.T) {
	neardOrNone(t)
	c := newClusterOf(t, 4, 4, arriving, func(dir string) { forgets(t, dir) })
	dir, at := joined(t, c.homes[0]), freeAddr(t)
	forgets(t, dir)
	run := func() *process { return start(t, dir, "--network-addr", at, "--boot-nodes", c.boot) }
	p := run()
	p.reaches(40, 3*time.Minute)
	p.stop(syscall.SIGKILL)
	was := c.p[0].final()
	away(t, c.p[0], was)
	begun, head := time.Now(), c.p[0].final()
	p = run()
	p.comes(head, 5*time.Minute)
	t.Logf("away for %d blocks, in step again after %v", head-was, time.Since(begun).Round(100*time.Millisecond))
	p.lacks(was + 60)
	requireSameBlocks(t, c.p[0], p, c.p[1].signer())
}
