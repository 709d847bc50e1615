//go:build e2e

package e2e

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// arriving is the epoch length, in blocks, of networks that a node joins after several epochs. With
// shorter epochs an epoch would end before the node has downloaded the state.
const arriving = 300

// requireSameBlocks requires that the last blocks of a node that joined late equal those of a node
// that produced them, and that a transaction submitted to the late node becomes FINAL.
func requireSameBlocks(t *testing.T, maker, joined *process, signer *signer) {
	t.Helper()
	if got := joined.send(signer.next0(), "FINAL").Level; got != "FINAL" {
		t.Errorf("transaction submitted to the joined node: level %s, want FINAL", got)
	}
	end := maker.head("final").Header
	joined.reaches(end.Height, time.Minute)
	cmp := &comparison{a: maker, b: joined}
	n := cmp.blocks(t, int(end.Height)-30, int(end.Height), 4)
	accounts := []string{"near", string(signer.key.AccountID)}
	cmp.state(t, end.Height, accounts, string(signer.key.AccountID))
	cmp.proofs(t, accounts)
	t.Logf("%d blocks, %d requests of both, %d the same byte for byte", n, cmp.asked, cmp.equal)
}

// next0 calls next and drops the hash.
func (s *signer) next0() string {
	encoded, _ := s.next()
	return encoded
}

// TestTroupeJoinsNeardsByEpochSync: a troupe that has only the genesis joins four neards after more
// than four epochs. It gets an epoch sync proof and the state, follows the chain, and recovers
// after being stopped for more than two epochs. In its fourth epoch a neard sends a proof that
// covers a single epoch, which neards refuse as well; a troupe that joins then downloads all
// blocks.
func TestTroupeJoinsNeardsByEpochSync(t *testing.T) {
	program := neardProgram(t)
	homes := neardNet(t, program, 4, 4, arriving)
	var nodes []*process
	for _, s := range homes {
		change(t, filepath.Join(s.home, "config.json"), func(c object) {
			c.at("consensus")["min_block_production_delay"] = map[string]any{"secs": 0, "nanos": 250_000_000}
			c.at("store").at("state_snapshot_config")["state_snapshot_type"] = "Enabled"
		})
		nodes = append(nodes, runNeard(t, program, s))
	}
	load := &submitter{s: nodes[0].signer(), to: nodes[0]}
	for h := uint64(0); h < 4*arriving+60; h = nodes[0].final() {
		load.renew(t)
		load.submit(t, "near", &primitives.Transfer{Deposit: primitives.Yocto(1)})
		time.Sleep(500 * time.Millisecond)
	}
	dir, at := joined(t, homes[0].home), freeAddr(t)
	begun, head := time.Now(), nodes[0].final()
	p := start(t, dir, "--network-addr", at, "--boot-nodes", homes[0].peer(t))
	p.comes(head, 5*time.Minute)
	t.Logf("in step at %d after %v", p.final(), time.Since(begun).Round(100*time.Millisecond))
	if r, err := p.call("block", map[string]any{"block_id": 20}); err != nil || r.Error == nil {
		t.Errorf("the node has block 20: it downloaded all blocks instead of using epoch sync (%v)", err)
	}
	requireSameBlocks(t, nodes[0], p, nodes[1].signer())

	p.stop(syscall.SIGKILL)
	away := nodes[0].final()
	for nodes[0].final() < away+2*arriving+60 {
		time.Sleep(time.Second)
	}
	begun, head = time.Now(), nodes[0].final()
	p = start(t, dir, "--network-addr", at, "--boot-nodes", homes[0].peer(t))
	p.comes(head, 5*time.Minute)
	t.Logf("away for %d blocks, in step again after %v", head-away, time.Since(begun).Round(100*time.Millisecond))
	requireSameBlocks(t, nodes[0], p, nodes[2].signer())
	for i, n := range nodes {
		if list := complaints(n.out.String()); len(list) > 0 {
			t.Errorf("neard %d logged %d complaints, want 0: %s", i, len(list), list[0])
		}
	}
}

// TestNeardJoinsTroupesByEpochSync: a neard that has only the genesis joins four troupes after more
// than three epochs.
func TestNeardJoinsTroupesByEpochSync(t *testing.T) {
	program := neardProgram(t)
	c := newCluster(t, 4, 4, arriving)
	c.together(3*arriving+60, 15*time.Minute)
	s := neardFollower(t, program, c.homes[0], c.boot)
	begun, head := time.Now(), c.p[0].final()
	n := runNeard(t, program, s)
	n.reaches(head, 8*time.Minute)
	t.Logf("in step at %d after %v", n.final(), time.Since(begun).Round(100*time.Millisecond))
	if r, err := n.call("block", map[string]any{"block_id": 20}); err != nil || r.Error == nil {
		t.Errorf("the node has block 20: it downloaded all blocks instead of using epoch sync (%v)", err)
	}
	requireSameBlocks(t, c.p[0], n, c.p[1].signer())
	if list := complaints(n.out.String()); len(list) > 0 {
		t.Errorf("neard logged %d complaints, want 0: %s", len(list), list[0])
	}
}
