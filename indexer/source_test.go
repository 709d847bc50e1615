package indexer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/indexer"
	"github.com/troupe-chain/troupe/indexer/node"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// folder makes the home folder of a chain with a number of shards and these members of config.json
// under troupe.
func folder(t testing.TB, shards int, troupe string) string {
	t.Helper()
	dir := testnode.Home(t, home.InitOptions{ChainID: "streamed", NumShards: shards})
	edit(t, filepath.Join(dir, "config.json"), func(c map[string]any) {
		var own map[string]any
		if err := json.Unmarshal([]byte("{"+troupe+"}"), &own); err != nil {
			t.Fatal(err)
		}
		c["troupe"] = own
	})
	return dir
}

// edit changes a file with a JSON object.
func edit(t testing.TB, path string, change func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&c); err == nil {
		change(c)
		if text, err = json.Marshal(c); err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

const manual = `"block_production":"manual"`

// begin starts a node of a folder that serves its RPC, too.
func begin(t testing.TB, dir string) (*node.Node, string) {
	t.Helper()
	n := restart(t, dir, "127.0.0.1:0")
	return n, "http://" + n.Host().Addr.String()
}

func restart(t testing.TB, dir, addr string) *node.Node {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	n, err := node.Start(node.Options{Home: dir, RPCAddr: addr, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func mine(t testing.TB, n *node.Node, blocks uint64) view.At {
	t.Helper()
	at, err := n.Host().Backend().Mine(t.Context(), &view.Mine{Blocks: blocks})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// patch writes into an account's state, so that a block has state changes.
func patch(t testing.TB, n *node.Node, account primitives.AccountID, value int) {
	t.Helper()
	text := fmt.Sprintf(`{"records":[{"Data":{"account_id":%q,"data_key":"aw==","value":"%s"}}]}`, account, strings.Repeat("AAAA", value))
	call(t, n, "sandbox_patch_state", text)
}

// call makes a JSON-RPC request.
func call(t testing.TB, n *node.Node, method, params string) json.RawMessage {
	t.Helper()
	got, fault := ask(t, "http://"+n.Host().Addr.String(), method, params)
	if fault != "" {
		t.Fatalf("%s: error %s", method, fault)
	}
	return got
}

// each runs a test with both sources.
func each(t *testing.T, n *node.Node, url string, f func(t *testing.T, s indexer.Source)) {
	t.Run("source=node", func(t *testing.T) { f(t, n) })
	t.Run("source=url", func(t *testing.T) { f(t, indexer.URL(url)) })
}

var errEnough = errors.New("enough")

// read reads messages until f returns true.
func read(t *testing.T, c indexer.Config, f func(m *indexer.Message) (more bool)) error {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it has taken too long"))
	defer cancel()
	err := indexer.Run(ctx, c, func(_ context.Context, m *indexer.Message) error {
		if !f(m) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// heights reads blocks up to a height and requires that they are in order.
func heights(t *testing.T, c indexer.Config, last primitives.Height) (all []indexer.Cursor) {
	t.Helper()
	if err := read(t, c, func(m *indexer.Message) bool {
		if m.Skipped != nil {
			t.Errorf("skipped: %v", m.Skipped)
		}
		all = append(all, m.Cursor)
		return m.Cursor.Height < last
	}); err != nil {
		t.Fatalf("after %d blocks: %v", len(all), err)
	}
	return all
}

// TestFeedsGiveTheSameMessages: from a node in the process and by its URL every block's message
// equals the reply of troupe_streamer_message, which is nearcore's byte for byte. Each arrives
// once, in order, with its cursor. A feed can begin at a height in between.
func TestFeedsGiveTheSameMessages(t *testing.T) {
	n, url := begin(t, folder(t, 3, manual))
	for i := range 5 {
		patch(t, n, "near", i+1)
		mine(t, n, 7)
	}
	final := primitives.Height(30)
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		next := primitives.Height(0)
		c := indexer.Config{Source: s, SyncMode: indexer.BlockHeight(0)}
		if err := read(t, c, func(m *indexer.Message) bool {
			got, err := m.JSON()
			want := call(t, n, "troupe_streamer_message", fmt.Sprintf(`{"block_id":%d}`, next))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("block %d: %v\n got %.300s\nwant %.300s", next, err, got, want)
			}
			var b struct {
				Block struct{ Header struct{ Hash string } }
			}
			if err := json.Unmarshal(got, &b); err != nil || m.Cursor.Height != next || m.Cursor.Hash.String() != b.Block.Header.Hash {
				t.Fatalf("block %d, %v: cursor %v", next, err, m.Cursor)
			}
			next++
			return next <= final
		}); err != nil {
			t.Fatal(err)
		}
		c.SyncMode = indexer.BlockHeight(17)
		if got := heights(t, c, 20); len(got) != 4 || got[0].Height != 17 {
			t.Errorf("from 17 to 20: %v", got)
		}
	})
}

// TestFeedStartsAtRequestedFinality: LatestSynced begins with the last block of the requested
// finality, and later blocks follow when they reach it.
func TestFeedStartsAtRequestedFinality(t *testing.T) {
	n, url := begin(t, folder(t, 1, manual))
	mine(t, n, 10)
	head := n.Host().Engine.Head().Height()
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		for f, behind := range map[indexer.Finality]primitives.Height{indexer.None: 0, indexer.DoomSlug: 1, indexer.Final: 2} {
			if got := heights(t, indexer.Config{Source: s, Finality: f}, head-behind); len(got) != 1 || got[0].Height != head-behind {
				t.Errorf("%v: %v, the head is %d", f, got, head)
			}
		}
		got := make(chan indexer.Cursor, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		over := make(chan error, 1)
		go func() {
			over <- indexer.Run(ctx, indexer.Config{Source: s}, func(_ context.Context, m *indexer.Message) error {
				got <- m.Cursor
				return nil
			})
		}()
		first := <-got
		mine(t, n, 2)
		head += 2
		if a, b := <-got, <-got; first.Height != head-4 || a.Height != head-3 || b.Height != head-2 {
			t.Errorf("received %v, %v, %v with the head at %d", first, a, b, head)
		}
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("at the end: %v", err)
		}
	})
}

// TestExcludedShardsLookUntracked: shards that a filter excludes, by id or by account, look like
// untracked ones. The others are the same as without a filter.
func TestExcludedShardsLookUntracked(t *testing.T) {
	n, url := begin(t, folder(t, 4, manual))
	mine(t, n, 3)
	uids, at := shardsOf(t, n, "near")
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		whole := piecesOf(t, s, nil)
		for name, f := range map[string]*indexer.Shards{
			"shard": {Shards: uids[1:2]}, "two": {Shards: []primitives.ShardUID{uids[0], uids[3]}}, "account": {Accounts: []primitives.AccountID{"near"}},
			"both": {Accounts: []primitives.AccountID{"near"}, Shards: uids[:1]}, "none": {Shards: []primitives.ShardUID{{ID: 77, Version: 9}}},
		} {
			got := piecesOf(t, s, f)
			for i := range whole {
				shown := slices.Contains(f.Shards, uids[i]) || f.Accounts != nil && i == at
				want := whole[i]
				if !shown {
					want = fmt.Sprintf(`{"shard_id":%d,"chunk":null,"receipt_execution_outcomes":[],"state_changes":[]}`, uids[i].ID)
				}
				if got[i] != want {
					t.Errorf("%s: shard %d: %.200s, want %.200s", name, i, got[i], want)
				}
			}
		}
	})
}

// shardsOf gives the shards of a chain, and the index of an account's.
func shardsOf(t testing.TB, n *node.Node, account primitives.AccountID) (uids []primitives.ShardUID, at int) {
	t.Helper()
	var p struct {
		Layout primitives.ShardLayout `json:"shard_layout"`
	}
	if err := json.Unmarshal(call(t, n, "EXPERIMENTAL_protocol_config", `{"finality":"final"}`), &p); err != nil {
		t.Fatal(err)
	}
	return p.Layout.ShardUIDs(), slices.Index(p.Layout.ShardUIDs(), p.Layout.ShardUIDOf(account))
}

// piecesOf returns the shards of block 1 in its message.
func piecesOf(t *testing.T, s indexer.Source, f *indexer.Shards) (out []string) {
	t.Helper()
	if err := read(t, indexer.Config{Source: s, SyncMode: indexer.BlockHeight(1), Shards: f}, func(m *indexer.Message) bool {
		text, err := m.JSON()
		var x struct{ Shards []json.RawMessage }
		if err == nil {
			err = json.Unmarshal(text, &x)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range x.Shards {
			out = append(out, string(p))
		}
		return false
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRemovedBlocksAreAnnounced: with finality None, messages announce blocks that are no longer
// part of the chain, the last one first, and then their replacements follow. Their JSON names the
// removed blocks.
func TestRemovedBlocksAreAnnounced(t *testing.T) {
	n, url := begin(t, folder(t, 1, manual))
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		base := mine(t, n, 3)
		call(t, n, "sandbox_snapshot", `{"name":"base"}`)
		got := make(chan *indexer.Message, 20)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = indexer.Run(ctx, indexer.Config{Source: s, Finality: indexer.None}, func(_ context.Context, m *indexer.Message) error {
				got <- m
				return nil
			})
		}()
		<-got // the last block
		mine(t, n, 2)
		a, b := <-got, <-got
		call(t, n, "sandbox_revert", `{"id":"base"}`)
		m := <-got
		if len(m.Skipped) != 2 || m.Skipped[0] != b.Cursor || m.Skipped[1] != a.Cursor || m.Cursor.Height != base.Height {
			t.Fatalf("received %v and %v; skipped %v, back to %v, want %v", a.Cursor, b.Cursor, m.Skipped, m.Cursor, base)
		}
		text, err := m.JSON()
		if want := fmt.Sprintf(`{"cursor":{"block_hash":"%v","height":%d},"reverted":[{"block_hash":"%v","height":%d},`, base.Hash, base.Height, b.Cursor.Hash, b.Cursor.Height); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%v: %s, want %s", err, text, want)
		}
		mine(t, n, 1)
		if m := <-got; m.Skipped != nil || m.Cursor.Height != base.Height+1 {
			t.Errorf("then: %v", m.Cursor)
		}
	})
}

// TestUnreadRemovedBlockIsAnnounced: in the node's process, if blocks are removed before the last
// one's text was read, the text is not available, and the next message announces the removal.
func TestUnreadRemovedBlockIsAnnounced(t *testing.T) {
	n, _ := begin(t, folder(t, 1, manual))
	base := mine(t, n, 3)
	call(t, n, "sandbox_snapshot", `{"name":"base"}`)
	var told []indexer.Cursor
	trouble, skipped := 0, 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := indexer.Run(ctx, indexer.Config{Source: n, Finality: indexer.None, OnTrouble: func(error) { trouble++ }}, func(_ context.Context, m *indexer.Message) error {
		switch {
		case m.Skipped != nil:
			skipped++
			if len(m.Skipped) != 1 || m.Skipped[0] != told[1] || m.Cursor != indexer.Cursor(base) {
				t.Errorf("skipped %v, back to %v, want %v and %v", m.Skipped, m.Cursor, told[1], base)
			}
			return errEnough
		case len(told) == 0:
			mine(t, n, 2)
		case len(told) == 2:
			call(t, n, "sandbox_revert", `{"id":"base"}`)
		}
		if _, err := m.JSON(); err != nil {
			return fmt.Errorf("block %v: %w", m.Cursor, err)
		}
		told = append(told, m.Cursor)
		return nil
	})
	if !errors.Is(err, errEnough) || len(told) != 2 || trouble != 1 || skipped != 1 {
		t.Errorf("%v; received %v, %d times skipped, %d errors", err, told, skipped, trouble)
	}
}

// TestUnknownPositionEndsWithoutRetry: a future height, and a position that the node has collected
// or never had, end with an error that says so, without retries.
func TestUnknownPositionEndsWithoutRetry(t *testing.T) {
	n, url := begin(t, folder(t, 1, manual))
	mine(t, n, 5)
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		unknown := indexer.Cursor{Height: 3, Hash: primitives.HashBytes([]byte("another chain's"))}
		for _, c := range []struct {
			mode indexer.SyncMode
			want error
			says string
		}{
			{indexer.BlockHeight(1000), indexer.ErrAhead, "1000"},
			{indexer.FromInterruption(&unknown), indexer.ErrGone, "the oldest block that is has height 0"},
		} {
			trouble := 0
			err := read(t, indexer.Config{Source: s, SyncMode: c.mode, OnTrouble: func(error) { trouble++ }}, func(*indexer.Message) bool {
				t.Error("a message")
				return false
			})
			if !errors.Is(err, c.want) || trouble > 0 {
				t.Errorf("%v, %d times tried again; want %v", err, trouble, c.want)
			}
		}
	})
	err := read(t, indexer.Config{Source: indexer.URL("node.example:3030")}, func(*indexer.Message) bool { return true })
	if !errors.Is(err, indexer.ErrRefused) || !strings.Contains(err.Error(), "http://") {
		t.Errorf("an address without a scheme: %v", err)
	}
}

// TestFeedWaitsForNodeThatIsBehind: a feed waits for a node that has not reached the position that
// another node delivered.
func TestFeedWaitsForNodeThatIsBehind(t *testing.T) {
	n, url := begin(t, folder(t, 1, manual))
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		base := mine(t, n, 5)
		call(t, n, "sandbox_snapshot", `{"name":"base"}`)
		after := indexer.Cursor(mine(t, n, 3))
		after.Hash = primitives.HashBytes([]byte("not here yet"))
		call(t, n, "sandbox_revert", `{"id":"base"}`)
		trouble := 0
		errTried := errors.New("tried")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		err := indexer.Run(ctx, indexer.Config{Source: s, SyncMode: indexer.FromInterruption(&after), OnTrouble: func(err error) {
			if trouble++; !errors.Is(err, indexer.ErrAhead) {
				t.Error(err)
			}
			if trouble == 3 {
				cancel(errTried)
			}
		}}, func(context.Context, *indexer.Message) error { return errEnough })
		if !errors.Is(err, errTried) {
			t.Errorf("after %v, %d retries: %v", base, trouble, err)
		}
	})
}

// TestCollectedBlockErrorHasFirstHeight: a collected block is refused with the first height that
// exists, also for a consumer that paused for longer than blocks are kept.
func TestCollectedBlockErrorHasFirstHeight(t *testing.T) {
	dir := folder(t, 1, manual+`,"gc_min_age":{"secs":0,"nanos":0}`)
	edit(t, filepath.Join(dir, "genesis.json"), func(g map[string]any) {
		g["epoch_length"], g["transaction_validity_period"] = 10, 20
	})
	edit(t, filepath.Join(dir, "config.json"), func(c map[string]any) {
		c["gc_num_epochs_to_keep"], c["gc_step_period"] = 3, map[string]int{"secs": 0, "nanos": 1_000_000}
	})
	n, url := begin(t, dir)
	mine(t, n, 100)
	var first uint64
	for until := time.Now().Add(time.Minute); first < 6; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("nothing was collected")
		}
		var s struct {
			Sync struct {
				Earliest uint64 `json:"earliest_block_height"`
			} `json:"sync_info"`
		}
		if err := json.Unmarshal(call(t, n, "status", "[]"), &s); err != nil {
			t.Fatal(err)
		}
		first = s.Sync.Earliest
		mine(t, n, 1)
	}
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		err := read(t, indexer.Config{Source: s, SyncMode: indexer.BlockHeight(5)}, func(*indexer.Message) bool { return false })
		if !errors.Is(err, indexer.ErrGone) {
			t.Errorf("from 5, with blocks from %d on: %v", first, err)
		}
	})
}

// TestJoiningNodeStreamsTheSameMessages: a node in this process that joins a network streams the
// same messages as the network's own node, from the first block during sync and then as blocks
// arrive. It produces no blocks, although its folder has a validator key. A query that waits for
// the sync delivers nothing before.
func TestJoiningNodeStreamsTheSameMessages(t *testing.T) {
	dir := folder(t, 2, manual)
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	on := true
	hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, "127.0.0.1:0"
	log := logrus.New()
	log.SetOutput(io.Discard)
	a, err := daemon.Start(daemon.Options{Home: hm, Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = a.Stop(ctx)
	}()
	mineOf := func(blocks uint64) {
		t.Helper()
		if _, err := a.Backend().Mine(t.Context(), &view.Mine{Blocks: blocks}); err != nil {
			t.Fatal(err)
		}
	}
	mineOf(60)
	other := testnode.Home(t, home.InitOptions{GenesisFile: filepath.Join(dir, "genesis.json")})
	key, err := os.ReadFile(filepath.Join(dir, "validator_key.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(other, "validator_key.json"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	boot := fmt.Sprintf("%v@%s", hm.NodeKey.PublicKey(), a.NetworkAddr())
	n, err := node.Start(node.Options{Home: other, BootNodes: boot, NetworkAddr: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	first := make(chan indexer.Cursor, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = indexer.Run(ctx, indexer.Config{Source: n, StreamingMode: indexer.WaitForFullSync}, func(_ context.Context, m *indexer.Message) error {
			select {
			case first <- m.Cursor:
			default:
			}
			return nil
		})
	}()
	compare := func(s indexer.Source, last primitives.Height) (all []string) {
		t.Helper()
		if err := read(t, indexer.Config{Source: s, SyncMode: indexer.BlockHeight(0)}, func(m *indexer.Message) bool {
			text, err := m.JSON()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
			return m.Cursor.Height < last
		}); err != nil {
			t.Fatalf("after %d blocks: %v", len(all), err)
		}
		return all
	}
	last := a.Engine.Final().Height
	if got, want := compare(n, last), compare(indexer.URL("http://"+a.Addr.String()), last); !slices.Equal(got, want) {
		t.Errorf("%d messages, and %d of the node that made the blocks; they differ", len(got), len(want))
	}
	mineOf(20)
	// this far behind, a node that waits for gossip (sync.Eager) counts as synced
	if got := <-first; got.Height < last-8 {
		t.Errorf("a full-sync query first got %v, the chain was at %d", got, last)
	}
	if got := heights(t, indexer.Config{Source: n, SyncMode: indexer.BlockHeight(last)}, last+20); len(got) != 21 {
		t.Errorf("got %d blocks", len(got))
	}
	if h := n.Host().Engine.Head().Height(); h > a.Engine.Head().Height() {
		t.Errorf("height %d: blocks were produced", h)
	}
}
