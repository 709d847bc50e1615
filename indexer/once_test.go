package indexer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/indexer"
	"github.com/troupe-chain/troupe/indexer/node"
	"github.com/troupe-chain/troupe/primitives"
)

// ask posts a request, and gives the result or the fault.
func ask(t testing.TB, url, method, params string) (json.RawMessage, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)))
	if err != nil {
		return nil, err.Error()
	}
	defer r.Body.Close()
	var reply struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&reply); err != nil {
		return nil, err.Error()
	}
	return reply.Result, string(reply.Error)
}

// TestUnstoredMessageIsReceivedAgain: a consumer that dies after receiving a message and before
// storing it receives that message again, and no other twice.
func TestUnstoredMessageIsReceivedAgain(t *testing.T) {
	n, url := begin(t, folder(t, 1, manual))
	mine(t, n, 40)
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		var stored []indexer.Cursor
		died := 0
		for len(stored) < 38 {
			mode := indexer.BlockHeight(0)
			if len(stored) > 0 {
				mode = indexer.FromInterruption(&stored[len(stored)-1])
			}
			err := indexer.Run(t.Context(), indexer.Config{Source: s, SyncMode: mode}, func(_ context.Context, m *indexer.Message) error {
				if died%5 == 4 || len(stored)%3 == 2 && died < 100 {
					died++
					return errEnough
				}
				stored = append(stored, m.Cursor)
				died++
				if len(stored) == 38 {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, errEnough) {
				t.Fatal(err)
			}
		}
		inOrder(t, stored, 0)
		if died < 45 {
			t.Errorf("the consumer died only %d times", died-38)
		}
	})
}

// inOrder requires each height once, in order.
func inOrder(t *testing.T, all []indexer.Cursor, first primitives.Height) {
	t.Helper()
	for i, c := range all {
		if c.Height != first+primitives.Height(i) {
			t.Fatalf("number %d is %v, after %v", i, c, all[max(0, i-1)])
		}
	}
}

// TestSlowConsumerLosesNoMessage: a consumer that stops reading loses no message, and unread
// messages are not buffered, although the chain advances far beyond what a connection may lag.
func TestSlowConsumerLosesNoMessage(t *testing.T) {
	n, url := begin(t, folder(t, 1, manual))
	mine(t, n, 5)
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		var all []indexer.Cursor
		from := n.Host().Engine.Final().Height
		last := from + 300
		trouble := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := indexer.Run(ctx, indexer.Config{Source: s, OnTrouble: func(error) { trouble++ }}, func(_ context.Context, m *indexer.Message) error {
			if all = append(all, m.Cursor); len(all) == 1 { // 40 MB arrive while the handler is busy
				for i := range 300 {
					patch(t, n, "near", 24<<10+i)
					mine(t, n, 1)
				}
			}
			if m.Cursor.Height >= last {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatalf("after %d blocks: %v", len(all), err)
		}
		inOrder(t, all, from)
		if _, remote := s.(*node.Node); remote == (trouble > 0) {
			t.Errorf("%d times there was trouble; a connection that is too slow is ended and made again, and within the process there is none", trouble)
		}
	})
}

// TestHandlerIsNotCalledAfterCancel: the handler is not called after the context has ended, however
// many blocks are available.
func TestHandlerIsNotCalledAfterCancel(t *testing.T) {
	n, url := begin(t, folder(t, 1, manual))
	mine(t, n, 12)
	each(t, n, url, func(t *testing.T, s indexer.Source) {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		err := indexer.Run(ctx, indexer.Config{Source: s, SyncMode: indexer.BlockHeight(0)}, func(context.Context, *indexer.Message) error {
			if calls++; calls == 1 {
				time.Sleep(100 * time.Millisecond) // more blocks are available here
				cancel(errEnough)
			}
			return nil
		})
		if !errors.Is(err, errEnough) || calls != 1 {
			t.Errorf("%v after %d calls, want 1", err, calls)
		}
	})
}

// TestFeedContinuesAfterNodeRestart: after a restart of the node a feed continues at the block
// after the last delivered one.
func TestFeedContinuesAfterNodeRestart(t *testing.T) {
	dir := folder(t, 1, manual)
	n, url := begin(t, dir)
	addr := n.Host().Addr.String()
	mine(t, n, 10)
	got := make(chan indexer.Cursor, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = indexer.Run(ctx, indexer.Config{Source: indexer.URL(url), SyncMode: indexer.BlockHeight(0)}, func(_ context.Context, m *indexer.Message) error {
			got <- m.Cursor
			return nil
		})
	}()
	var all []indexer.Cursor
	take := func(last primitives.Height) {
		t.Helper()
		for len(all) == 0 || all[len(all)-1].Height < last {
			select {
			case c := <-got:
				all = append(all, c)
			case <-time.After(time.Minute):
				t.Fatalf("no block arrives after %v", all)
			}
		}
	}
	for range 3 {
		take(n.Host().Engine.Final().Height)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n = restart(t, dir, addr)
		mine(t, n, 10)
	}
	take(n.Host().Engine.Final().Height)
	inOrder(t, all, 0)
	// A node in this process that has ended returns an error that says so.
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	err := read(t, indexer.Config{Source: n}, func(*indexer.Message) bool { return true })
	if !errors.Is(err, indexer.ErrRefused) {
		t.Errorf("a node that has ended: %v", err)
	}
}

// TestInvalidSettingsAreRefused: config.json sets what is streamed. Invalid values are refused with
// the allowed ones.
func TestInvalidSettingsAreRefused(t *testing.T) {
	n, _ := begin(t, folder(t, 1, manual+`,"stream":{"sync_mode":"BlockHeight","block_height":4,"streaming_mode":"WaitForFullSync","finality":"DoomSlug"}`))
	mine(t, n, 8)
	c := n.Config()
	if got := heights(t, c, 7); c.Finality != indexer.DoomSlug || c.StreamingMode != indexer.WaitForFullSync || got[0].Height != 4 || n.Resumes() {
		t.Errorf("%+v, from %v", c, got[0])
	}
	for _, text := range []string{"LatestSynced", "FromInterruption", "BlockHeight=9"} {
		if _, err := indexer.ParseSyncMode(text, nil); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"", "BlockHeight", "BlockHeight=-1", "BlockHeight=", "latest"} {
		if _, err := indexer.ParseSyncMode(text, nil); err == nil {
			t.Errorf("%q is a sync mode", text)
		}
	}
	if _, err := indexer.ParseFinality("final"); err == nil {
		t.Error("final is a finality, which is called Final")
	}
	if _, err := indexer.ParseStreamingMode("Now"); err == nil {
		t.Error("Now is a streaming mode")
	}
}

// TestCursorFileIsWrittenWhole: a cursor is stored completely or not at all, and a file with other
// contents is refused.
func TestCursorFileIsWrittenWhole(t *testing.T) {
	f := indexer.CursorFile(filepath.Join(t.TempDir(), "cursor"))
	if c, err := f.Load(); c != nil || err != nil {
		t.Fatal(c, err)
	}
	want := indexer.Cursor{Height: 17, Hash: primitives.HashBytes([]byte{1})}
	for range 2 {
		if err := f.Store(want); err != nil {
			t.Fatal(err)
		}
		if c, err := f.Load(); err != nil || *c != want {
			t.Fatal(c, err)
		}
		want.Height++
	}
	names, err := filepath.Glob(filepath.Join(filepath.Dir(string(f)), "*"))
	if err != nil || !slices.Equal(names, []string{string(f)}) {
		t.Errorf("names %v, error %v", names, err)
	}
	for _, bad := range []string{"17", "17:", "x:" + want.Hash.String(), "17:" + want.Hash.String()[2:]} {
		if c, err := indexer.ParseCursor(bad); err == nil {
			t.Errorf("%q is cursor %v", bad, c)
		}
	}
	text, err := json.Marshal(want)
	var back indexer.Cursor
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil || back != want {
		t.Errorf("%s: back %v, error %v", text, back, err)
	}
}
