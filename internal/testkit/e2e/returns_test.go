//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// members is a node's reply about the validators of its head's epoch.
type members struct {
	Start   uint64 `json:"epoch_start_height"`
	Current []struct {
		Account   string `json:"account_id"`
		Stake     string `json:"stake"`
		Blocks    int    `json:"num_produced_blocks"`
		Expected  int    `json:"num_expected_blocks"`
		Chunks    int    `json:"num_produced_chunks"`
		ChunksDue int    `json:"num_expected_chunks"`
		Shards    []int  `json:"shards"`
	} `json:"current_validators"`
	Proposals []struct {
		Account string `json:"account_id"`
	} `json:"current_proposals"`
	Kicked []struct {
		Account string          `json:"account_id"`
		Reason  json.RawMessage `json:"reason"`
	} `json:"prev_epoch_kickout"`
}

// members requests the validators from a node. It repeats the request at the boundary of two
// epochs.
func (p *process) members() (m members) {
	p.t.Helper()
	var r reply
	for range 50 {
		var err error
		if r, err = p.call("validators", []any{nil}); err == nil && r.Error == nil {
			if err := json.Unmarshal(r.Result, &m); err != nil {
				p.t.Fatal(err)
			}
			return m
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.t.Fatalf("validators: %s", replyText(r))
	return m
}

func (m *members) has(account string) bool {
	for _, v := range m.Current {
		if v.Account == account {
			return true
		}
	}
	return false
}

// when polls a node's validators until they satisfy a condition.
func (b *mixedCluster) when(p *process, what string, within time.Duration, is func(*members) bool) members {
	b.t.Helper()
	for limit := time.Now().Add(within); ; time.Sleep(150 * time.Millisecond) {
		m := p.members()
		if is(&m) {
			return m
		}
		if time.Now().After(limit) {
			b.t.Fatalf("%s: not at %d: %+v", what, p.final(), m)
		}
	}
}

// TestMixedKickedOutTroupeReturns: of two neards and two troupes, a troupe is stopped for most of
// an epoch and kicked out. After the restart it follows the chain without a seat, stakes again by a
// transaction through itself, and becomes a validator again. All four nodes report the same
// validators throughout.
func TestMixedKickedOutTroupeReturns(t *testing.T) {
	const epoch, out = 60, 3
	b := newMixedCluster(t, 4, 2, 4, epoch, nil)
	b.run(length(t, 300), func(uint64) {
		account := fmt.Sprint("node", out)
		first := b.p[0]
		was := first.members().Start
		m := b.when(first, "a new epoch", 3*time.Minute, func(m *members) bool { return m.Start > was })
		b.p[out].end(syscall.SIGKILL)
		b.until(m.Start+epoch*2/3, 5*time.Minute)
		b.start(out)
		b.until(b.highest()+2, 3*time.Minute)
		t.Logf("%s was away from %d on, in step again at %d", account, m.Start, b.highest())

		m = b.when(first, account+" is put out", 3*time.Minute, func(m *members) bool { return len(m.Kicked) > 0 })
		for _, k := range m.Kicked {
			t.Logf("epoch from %d: %s is put out: %s", m.Start, k.Account, k.Reason)
			if k.Account != account {
				t.Errorf("%s was kicked out too", k.Account)
			}
		}
		m = b.when(first, account+" has no seat", 3*time.Minute, func(m *members) bool { return !m.has(account) })
		if own := b.p[out].members(); own.has(account) && own.Start == m.Start {
			t.Errorf("%s reports that it is a validator: %+v", account, own)
		}
		t.Logf("%s has no seat from %d on", account, m.Start)

		s := b.p[out].signer()
		stake := primitives.MustParseBalance("50000000000000000000000000000000")
		if got := b.p[out].send(s.sign(s.key.AccountID, &primitives.Stake{Stake: stake, PublicKey: s.key.SecretKey.PublicKey()}), "FINAL").Level; got != "FINAL" {
			t.Errorf("its stake: %s", got)
		}
		if now := first.members(); len(now.Proposals) != 1 || now.Proposals[0].Account != account {
			t.Errorf("proposals: %+v", now.Proposals)
		}
		m = b.when(first, account+" has its seat again", 5*time.Minute, func(m *members) bool { return m.has(account) })
		t.Logf("%s has its seat again from %d on", account, m.Start)
		b.until(m.Start+epoch/2, 3*time.Minute)
		for _, v := range first.members().Current {
			if v.Account == account {
				t.Logf("of half an epoch it made %d of %d blocks, %d of %d chunks", v.Blocks, v.Expected, v.Chunks, v.ChunksDue)
				if v.Blocks == 0 || v.Chunks*10 < v.ChunksDue*9 {
					t.Errorf("got %+v", v)
				}
			}
		}
	})
}
