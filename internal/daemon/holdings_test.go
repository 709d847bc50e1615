package daemon

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
)

// other is another validator of a genesis.
func other(hm *home.Home) {
	v := hm.Genesis.Validators[0]
	v.AccountID, v.PublicKey = "near", primitives.SecretKeyFromSeed(primitives.ED25519, "other").PublicKey()
	hm.Genesis.Validators = append(slices.Clone(hm.Genesis.Validators), v)
}

// TestTrackingFollowsConfigAndKey: which shards are always tracked, and which change at run time.
func TestTrackingFollowsConfigAndKey(t *testing.T) {
	dir := made(t)
	none, all := config.TrackedShards{None: true}, config.TrackedShards{All: true}
	shadow, accounts := config.TrackedShards{ShadowValidator: "x.near"}, config.TrackedShards{Accounts: []primitives.AccountID{"near"}}
	for i, c := range []struct {
		tracked                      config.TrackedShards
		key, others, connected       bool
		holdsAll, scheduled, refused bool
		assigned                     string
	}{
		{tracked: all, key: true, others: true, connected: true, holdsAll: true},
		{tracked: none, key: true, connected: true, holdsAll: true},
		{tracked: none, key: true, others: true, holdsAll: true},
		{tracked: none, key: true, others: true, connected: true, scheduled: true, assigned: "[test.near]"},
		{tracked: accounts, key: true, others: true, connected: true, scheduled: true, assigned: "[test.near]"},
		{tracked: none, connected: true, assigned: "[]"},
		{tracked: accounts, connected: true, assigned: "[]"},
		{tracked: shadow, connected: true, scheduled: true, assigned: "[x.near]"},
		{tracked: shadow, key: true, others: true, connected: true, scheduled: true, assigned: "[test.near x.near]"},
		{tracked: shadow, refused: true},
	} {
		hm := loaded(t, dir)
		if hm.Config.TrackedShards = c.tracked; c.others {
			other(hm)
		}
		if !c.key {
			hm.ValidatorKey = nil
		}
		h, err := holdings(hm, c.connected)
		if c.refused != errors.Is(err, errTracked) || c.refused != (err != nil) {
			t.Errorf("case %d: %v", i, err)
		}
		if err != nil {
			continue
		}
		if (h.tracks == nil) != c.holdsAll || h.scheduled != c.scheduled || !c.holdsAll && fmt.Sprint(h.assigned) != c.assigned {
			t.Errorf("case %d: %+v", i, h)
		}
	}
}

// TestValidatorStartsWithAssignedShards: a validator that tracks no shard starts with the shards
// whose chunks it produces, and reports them.
func TestValidatorStartsWithAssignedShards(t *testing.T) {
	dir := testnode.Home(t, home.InitOptions{ChainID: "sandbox", NumShards: 4})
	setTracked(t, dir, `{"tracked_shards_config": "NoShards"}`)
	hm := loaded(t, dir)
	on := true
	hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, "127.0.0.1:0"
	other(hm)
	hm.Genesis.NumChunkProducerSeats, hm.Genesis.MinimumValidatorsPerShard = 2, 1
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	var want []primitives.ShardID
	err = h.Engine.Epochs(func(m *epoch.Manager) error {
		for _, id := range h.Engine.Head().Layout.ShardIDs() {
			if cares, err := m.CaresAboutShardNextEpoch(h.Engine.Head().Hash, hm.ValidatorKey.AccountID, id); err != nil || cares {
				if err != nil {
					return err
				}
				want = append(want, id)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if held := h.held(); len(want) == 0 || len(want) == 4 || !slices.Equal(held, want) {
		t.Fatalf("held are %v, want %v", held, want)
	}
	text := string(h.appendMetrics(nil))
	for _, id := range h.Engine.Head().Layout.ShardIDs() {
		is := 0
		if slices.Contains(want, id) {
			is = 1
		}
		if line := fmt.Sprintf("near_client_tracked_shards{shard_id=\"%d\"} %d\n", id, is); !strings.Contains(text, line) {
			t.Errorf("no %s", line)
		}
	}
	away := 0
	for i, id := range []primitives.AccountID{"aa", "cc", "near", "zz"} { // of shards that are not held
		if slices.Contains(want, h.Engine.Head().Layout.ShardOf(id)) {
			continue
		}
		key := &primitives.KeyFile{AccountID: id, SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, "x")}
		tx := draft(h, key, primitives.Nonce(i+1), "near", &primitives.Transfer{})
		signed, hash := encode(tx, key)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"send_tx","params":{"signed_tx_base64":%q}}`, signed)
		r, err := http.Post("http://"+h.Addr.String(), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if want := fmt.Sprintf(`"cause":{"info":{"transaction_hash":"%v"},"name":"REQUEST_ROUTED"}`, hash); err != nil || !strings.Contains(string(reply), want) {
			t.Errorf("a transaction of %s: %s %v, want %s", id, reply, err, want)
		}
		away++
	}
	if away == 0 {
		t.Error("no account of another shard was tried")
	}
	eventually(t, "told of shards that come in", func() bool {
		return strings.Contains(string(h.appendMetrics(nil)), "\ntroupe_shards_incoming 0\n")
	})
}
